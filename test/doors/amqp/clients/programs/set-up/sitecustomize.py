# Python runs this before a program. Programs that name no port find the server of the test.
import os

try:
    import pika

    pika.connection.Parameters.DEFAULT_PORT = int(os.environ["AMQP_PORT"])
except ImportError:
    pass
