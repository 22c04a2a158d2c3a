# One program sends, another receives: a queue by name.
from connect import connect

channel = connect().channel()
channel.queue_declare("hello")
channel.basic_publish("", "hello", b"Hello, queue!")
_, _, body = next(channel.consume("hello", auto_ack=True))
print(body.decode())
