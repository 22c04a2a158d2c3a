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
done = []
for turn in range(6):
    worker = turn % 2
    method, _, body = next(lines[worker])
    workers[worker].basic_ack(method.delivery_tag)
    done.append(body.decode())
print(f"two workers did {', '.join(sorted(done))}")
