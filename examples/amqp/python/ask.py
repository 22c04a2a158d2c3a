# A request and its answer: the server answers to the queue that the request names.
import threading
import uuid

import pika
from connect import connect


def serve():
    channel = connect().channel()
    channel.queue_declare("squares")
    for method, properties, body in channel.consume("squares"):
        answer = str(int(body) ** 2).encode()
        about = pika.BasicProperties(correlation_id=properties.correlation_id)
        channel.basic_publish("", properties.reply_to, answer, about)
        channel.basic_ack(method.delivery_tag)


threading.Thread(target=serve, daemon=True).start()
channel = connect().channel()
channel.queue_declare("squares")
answers = channel.queue_declare("", exclusive=True).method.queue
request = str(uuid.uuid4())
about = pika.BasicProperties(reply_to=answers, correlation_id=request)
channel.basic_publish("", "squares", b"12", about)
for _, properties, body in channel.consume(answers, auto_ack=True):
    if properties.correlation_id == request:
        print(f"12 squared is {body.decode()}")
        break
