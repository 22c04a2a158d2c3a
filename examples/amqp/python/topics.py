# A topic exchange: patterns with * for one word, and # for any number of words.
from connect import connect

channel = connect().channel()
channel.exchange_declare("animals", "topic")
patterns = ["*.orange.*", "lazy.#"]
queues = [channel.queue_declare("", exclusive=True).method.queue for _ in patterns]
for queue, pattern in zip(queues, patterns):
    channel.queue_bind(queue, "animals", pattern)
channel.confirm_delivery()
for key in ("quick.orange.rabbit", "lazy.brown.fox", "lazy", "quick.brown.fox"):
    channel.basic_publish("animals", key, key.encode())
for queue, pattern in zip(queues, patterns):
    found = []
    while (message := channel.basic_get(queue, auto_ack=True))[0]:
        found.append(message[2].decode())
    print(f"{pattern}: {', '.join(found)}")
