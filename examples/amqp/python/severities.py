# A direct exchange: each queue gets the messages with the keys that it is bound with.
from connect import connect

channel = connect().channel()
channel.exchange_declare("alarms", "direct")
everything = channel.queue_declare("", exclusive=True).method.queue
errors = channel.queue_declare("", exclusive=True).method.queue
for severity in ("info", "warning", "error"):
    channel.queue_bind(everything, "alarms", severity)
channel.queue_bind(errors, "alarms", "error")
channel.confirm_delivery()
for severity in ("info", "error", "warning"):
    channel.basic_publish("alarms", severity, severity.encode())
for name, queue in (("everything", everything), ("errors", errors)):
    count = channel.queue_declare(queue, passive=True).method.message_count
    print(f"{name}: {count}")
