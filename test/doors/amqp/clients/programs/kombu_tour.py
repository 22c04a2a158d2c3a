# What kombu's users rely on, asked one after the other. Ends with "all good", or with an exception.
import sys

from amqp.exceptions import AccessRefused
from kombu import Connection, Consumer, Exchange, Producer, Queue

url = sys.argv[1]
media = Exchange("media", "topic", durable=True)
video = Queue("video", exchange=media, routing_key="media.video.#")
urgent = Queue("urgent", queue_arguments={"x-max-priority": 9})

with Connection(url, heartbeat=5) as connection:
    channel = connection.channel()
    producer = Producer(channel)
    for queue in (video, urgent):
        queue(channel).declare()

    got = []

    def take(body, message):
        got.append((body, message.headers.get("n"), message.delivery_info["redelivered"]))
        if body["n"] == 1 and not message.delivery_info["redelivered"]:
            message.requeue()
        else:
            message.ack()

    for n in range(3):
        producer.publish(
            {"n": n},
            exchange=media,
            routing_key="media.video.mp4",
            headers={"n": n},
            compression="zlib",
            declare=[video],
            retry=True,
        )
    with Consumer(channel, [video], callbacks=[take], prefetch_count=1):
        while len(got) < 4:
            connection.drain_events(timeout=20)
    assert [(body["n"], header, again) for body, header, again in got] == [
        (0, 0, False),
        (1, 1, False),
        (1, 1, True),
        (2, 2, False),
    ], got

    # Priorities: the highest of what waits comes first.
    for priority in (1, 9, 5):
        producer.publish({"p": priority}, routing_key="urgent", priority=priority)
    order = []
    simple = connection.SimpleQueue(urgent)
    for _ in range(3):
        message = simple.get(timeout=20)
        order.append(message.payload["p"])
        message.ack()
    assert order == [9, 5, 1], order
    simple.close()
    assert video(channel).purge() == 0
    video(channel).delete()

try:
    Connection(url.replace("guest:guest", "guest:wrong")).connect()
    raise AssertionError("let in")
except AccessRefused as error:
    assert error.reply_code == 403, repr(error)

print("all good")
