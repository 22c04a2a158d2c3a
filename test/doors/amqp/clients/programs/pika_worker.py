# Takes messages from a queue, works on each for some milliseconds, and says so.
import sys
import time

import pika

queue, ms = sys.argv[1], int(sys.argv[2])
channel = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1")).channel()
channel.queue_declare(queue, durable=True)
channel.basic_qos(prefetch_count=1)


def work(channel, method, properties, body):
    time.sleep(ms / 1000)
    channel.basic_ack(method.delivery_tag)
    print("done", body.decode())


channel.basic_consume(queue, work)
print("ready")
channel.start_consuming()
