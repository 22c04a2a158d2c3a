# A fanout exchange gives every listener its own copy.
from connect import connect

channel = connect().channel()
channel.exchange_declare("news", "fanout")
listeners = [channel.queue_declare("", exclusive=True).method.queue for _ in range(2)]
for queue in listeners:
    channel.queue_bind(queue, "news")
channel.confirm_delivery()
channel.basic_publish("news", "", b"a new version is out")
for number, queue in enumerate(listeners):
    _, _, body = channel.basic_get(queue, auto_ack=True)
    print(f"listener {number}: {body.decode()}")
