# The server of the examples: AMQP_URL, or the one on this machine.
import os

import pika


def connect():
    return pika.BlockingConnection(pika.URLParameters(os.environ.get("AMQP_URL", "amqp://guest:guest@localhost")))
