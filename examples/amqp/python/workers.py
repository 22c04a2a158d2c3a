# Two workers share a durable queue. Each gets the next task when it has acknowledged the one before.
from connect import connect

producer = connect().channel()
producer.queue_declare("resize", durable=True)
for number in range(6):
    producer.basic_publish("", "resize", f"image {number}".encode())

workers = [connect().channel() for _ in range(2)]
lines = []
for channel in workers:
    channel.basic_qos(prefetch_count=1)
    lines.append(channel.consume("resize"))
for turn in range(6):
    method, _, body = next(lines[turn % 2])
    print(f"worker {turn % 2}: {body.decode()}")
    workers[turn % 2].basic_ack(method.delivery_tag)
