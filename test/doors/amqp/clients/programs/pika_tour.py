# What pika's users rely on, asked one after the other. Ends with "all good", or with an exception.
import pika
from pika.exceptions import AMQPConnectionError, ChannelClosedByBroker, UnroutableError

parameters = pika.ConnectionParameters("127.0.0.1")
connection = pika.BlockingConnection(parameters)


def fresh():
    return connection.channel()


def refused(code, text, act):
    channel = fresh()
    try:
        act(channel)
    except ChannelClosedByBroker as error:
        assert (error.reply_code, error.reply_text) == (code, text), error
        return
    raise AssertionError(f"{text}: not refused")


refused(
    404,
    "NOT_FOUND - no queue 'tour.none' in vhost '/'",
    lambda channel: channel.queue_declare("tour.none", passive=True),
)

channel = fresh()
channel.queue_declare("tour", durable=True)
refused(
    406,
    "PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'tour' in vhost '/': "
    "received 'false' but current is 'true'",
    lambda channel: channel.queue_declare("tour", durable=False),
)

# Properties and headers come back as they were sent.
headers = {"number": 7, "text": "grüße", "yes": True, "none": None, "list": [1, "two"], "table": {"deep": {"x": 1}}}
sent = pika.BasicProperties(
    content_type="application/json",
    content_encoding="utf-8",
    headers=headers,
    delivery_mode=2,
    priority=3,
    correlation_id="c",
    reply_to="r",
    message_id="m",
    timestamp=1_700_000_000,
    type="t",
    app_id="a",
)
channel.confirm_delivery()
channel.basic_publish("", "tour", b'{"a": 1}', sent, mandatory=True)
method, properties, body = channel.basic_get("tour")
assert body == b'{"a": 1}' and properties == sent, properties
assert not method.redelivered
channel.basic_nack(method.delivery_tag, requeue=True)
method, _, _ = channel.basic_get("tour")
assert method.redelivered
channel.basic_ack(method.delivery_tag)

# A mandatory message without a route comes back.
try:
    channel.basic_publish("", "tour.none", b"lost", mandatory=True)
    raise AssertionError("not returned")
except UnroutableError as error:
    assert error.messages[0].method.reply_code == 312

# Transactions.
channel = fresh()
channel.tx_select()
channel.basic_publish("", "tour", b"1")
channel.tx_rollback()
channel.basic_publish("", "tour", b"2")
channel.tx_commit()
_, _, body = channel.basic_get("tour", auto_ack=True)
assert body == b"2", body
channel.tx_commit()

# A consumer with an inactivity timeout, and one that is cancelled because its queue is deleted.
channel = fresh()
name = channel.queue_declare("", exclusive=True).method.queue
assert name.startswith("amq.gen-")
channel.basic_publish("", name, b"one")
seen = []
for method, _, body in channel.consume(name, inactivity_timeout=10):
    seen.append(body)
    channel.basic_ack(method.delivery_tag)
    break
assert channel.cancel() == 0 and seen == [b"one"]

# A large message needs several frames.
large = bytes(range(256)) * 4_000
channel.basic_publish("", name, large)
_, _, body = next(channel.consume(name))
assert body == large
channel.cancel()

# Exchanges of each type.
for kind, binding, key in [("direct", "k", "k"), ("fanout", "", "any"), ("topic", "a.*", "a.b")]:
    channel.exchange_declare(f"tour.{kind}", kind)
    channel.queue_bind(name, f"tour.{kind}", binding)
    channel.basic_publish(f"tour.{kind}", key, kind.encode())
    body = None
    while body is None:
        _, _, body = channel.basic_get(name, auto_ack=True)
        if body == large:
            body = None
    assert body == kind.encode(), body

connection.close()

# A wrong password.
wrong = pika.ConnectionParameters("127.0.0.1", credentials=pika.PlainCredentials("guest", "wrong"))
try:
    pika.BlockingConnection(wrong)
    raise AssertionError("let in")
except AMQPConnectionError as error:
    assert "ACCESS_REFUSED" in repr(error), repr(error)

print("all good")
