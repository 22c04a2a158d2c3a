import type { Script } from "../conversation.ts";

type Change = { [name: string]: boolean | { [name: string]: string } };

/** Declares a queue, then again with something changed. */
function twice(queue: string, first: Change, second: Change): Script {
  return async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue, ...first });
    await channel.call("queue.declare", { queue, ...second });
  };
}

/** Declares a queue with arguments that RabbitMQ may refuse. */
function once(queue: string, first: Change): Script {
  return async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue, ...first });
  };
}

const args = (given: { [name: string]: string }): Change => ({ arguments: given });

export const declare: Record<string, Script> = {
  "declare: a second declare with the same properties": twice("d.same", { durable: true }, { durable: true }),
  "declare: durable differs": twice("d.durable", { durable: true }, {}),
  "declare: durable differs, the other way": twice("d.durable2", {}, { durable: true }),
  "declare: auto-delete differs": twice("d.auto", { autoDelete: true }, {}),
  "declare: exclusive differs": twice("d.excl", { exclusive: true }, {}),
  "declare: exclusive is asked for a shared queue": twice("d.excl2", {}, { exclusive: true }),
  "declare: x-message-ttl differs": twice(
    "d.ttl",
    args({ "x-message-ttl": "I:1000" }),
    args({ "x-message-ttl": "I:2000" }),
  ),
  "declare: x-message-ttl is left out": twice("d.ttl2", args({ "x-message-ttl": "I:1000" }), {}),
  "declare: x-message-ttl is added": twice("d.ttl3", {}, args({ "x-message-ttl": "I:1000" })),
  "declare: x-message-ttl with another number type": twice(
    "d.ttl4",
    args({ "x-message-ttl": "I:1000" }),
    args({ "x-message-ttl": "l:1000" }),
  ),
  "declare: x-message-ttl as a string": once("d.ttl5", args({ "x-message-ttl": "S:1000" })),
  "declare: x-message-ttl below 0": once("d.ttl6", args({ "x-message-ttl": "I:-1" })),
  "declare: x-message-ttl of 0": once("d.ttl7", args({ "x-message-ttl": "I:0" })),
  "declare: x-message-ttl too large": once("d.ttl8", args({ "x-message-ttl": "l:4294967296" })),
  "declare: x-message-ttl as a float": once("d.ttl9", args({ "x-message-ttl": "d:10" })),
  "declare: x-message-ttl as a boolean": once("d.ttl10", args({ "x-message-ttl": "t:true" })),
  "declare: x-expires of 0": once("d.exp", args({ "x-expires": "I:0" })),
  "declare: x-expires as a string": once("d.exp2", args({ "x-expires": "S:a" })),
  "declare: x-expires differs": twice(
    "d.exp3",
    args({ "x-expires": "I:60000" }),
    args({ "x-expires": "I:70000" }),
  ),
  "declare: x-max-length below 0": once("d.len", args({ "x-max-length": "I:-1" })),
  "declare: x-max-length as a string": once("d.len2", args({ "x-max-length": "S:5" })),
  "declare: x-max-length differs": twice(
    "d.len3",
    args({ "x-max-length": "I:1" }),
    args({ "x-max-length": "I:2" }),
  ),
  "declare: x-max-length-bytes below 0": once("d.lenb", args({ "x-max-length-bytes": "I:-1" })),
  "declare: x-overflow unknown": once("d.over", args({ "x-overflow": "S:explode" })),
  "declare: x-overflow as a number": once("d.over2", args({ "x-overflow": "I:1" })),
  "declare: x-max-priority of 256": once("d.prio", args({ "x-max-priority": "I:256" })),
  "declare: x-max-priority below 0": once("d.prio2", args({ "x-max-priority": "I:-1" })),
  "declare: x-max-priority as a string": once("d.prio3", args({ "x-max-priority": "S:5" })),
  "declare: x-max-priority differs": twice(
    "d.prio4",
    args({ "x-max-priority": "I:5" }),
    args({ "x-max-priority": "I:6" }),
  ),
  "declare: x-max-priority is added": twice("d.prio5", {}, args({ "x-max-priority": "I:6" })),
  "declare: x-dead-letter-routing-key without an exchange": once(
    "d.dlk",
    args({ "x-dead-letter-routing-key": "S:k" }),
  ),
  "declare: x-dead-letter-exchange as a number": once("d.dlx", args({ "x-dead-letter-exchange": "I:5" })),
  "declare: x-dead-letter-exchange differs": twice(
    "d.dlx2",
    args({ "x-dead-letter-exchange": "S:a" }),
    args({ "x-dead-letter-exchange": "S:b" }),
  ),
  "declare: several arguments are left out": twice(
    "d.several",
    args({
      ...{ "x-max-length": "I:5", "x-overflow": "S:drop-head", "x-message-ttl": "I:60000" },
      ...{ "x-dead-letter-exchange": "S:a", "x-max-priority": "I:3", "x-expires": "I:60000" },
    }),
    args({ "x-expires": "I:60000" }),
  ),
  "declare: x-dead-letter-exchange that does not exist": once(
    "d.dlx3",
    args({ "x-dead-letter-exchange": "S:nowhere" }),
  ),
  "declare: x-queue-type unknown": once("d.type", args({ "x-queue-type": "S:fancy" })),
  "declare: x-queue-type as a number": once("d.type2", args({ "x-queue-type": "I:1" })),
  "declare: x-queue-type classic again without it": twice(
    "d.type3",
    args({ "x-queue-type": "S:classic" }),
    {},
  ),
  "declare: x-queue-type classic is added": twice("d.type4", {}, args({ "x-queue-type": "S:classic" })),
  "declare: x-queue-type differs": twice(
    "d.type5",
    { durable: true },
    { durable: true, ...args({ "x-queue-type": "S:quorum" }) },
  ),
  "declare: a quorum queue that is not durable": once("d.quorum", args({ "x-queue-type": "S:quorum" })),
  "declare: a quorum queue that is exclusive": once("d.quorum2", {
    durable: true,
    exclusive: true,
    ...args({ "x-queue-type": "S:quorum" }),
  }),
  "declare: a quorum queue that is auto-delete": once("d.quorum3", {
    durable: true,
    autoDelete: true,
    ...args({ "x-queue-type": "S:quorum" }),
  }),
  "declare: a quorum queue with priorities": once("d.quorum4", {
    durable: true,
    ...args({ "x-queue-type": "S:quorum", "x-max-priority": "I:5" }),
  }),
  "declare: a quorum queue with x-message-ttl": once("d.quorum5", {
    durable: true,
    ...args({ "x-queue-type": "S:quorum", "x-message-ttl": "I:60000" }),
  }),
  "declare: a quorum queue with reject-publish-dlx": once("d.quorum6", {
    durable: true,
    ...args({ "x-queue-type": "S:quorum", "x-overflow": "S:reject-publish-dlx" }),
  }),
  "declare: a quorum queue with single active consumer": once("d.quorum7", {
    durable: true,
    ...args({ "x-queue-type": "S:quorum", "x-single-active-consumer": "t:true" }),
  }),
  "declare: a quorum queue without its type again": twice(
    "d.quorum8",
    { durable: true, ...args({ "x-queue-type": "S:quorum" }) },
    { durable: true },
  ),
  "declare: x-delivery-limit on a classic queue": once("d.limit", args({ "x-delivery-limit": "I:3" })),
  "declare: x-delivery-limit below 0": once("d.limit2", {
    durable: true,
    ...args({ "x-queue-type": "S:quorum", "x-delivery-limit": "I:-1" }),
  }),
  "declare: x-delivery-limit differs": twice(
    "d.limit3",
    { durable: true, ...args({ "x-queue-type": "S:quorum", "x-delivery-limit": "I:3" }) },
    { durable: true, ...args({ "x-queue-type": "S:quorum", "x-delivery-limit": "I:4" }) },
  ),
  "declare: x-single-active-consumer as a string": once(
    "d.sac",
    args({ "x-single-active-consumer": "S:true" }),
  ),
  "declare: x-single-active-consumer differs": twice(
    "d.sac2",
    args({ "x-single-active-consumer": "t:true" }),
    {},
  ),
  "declare: x-queue-mode lazy": once("d.lazy", args({ "x-queue-mode": "S:lazy" })),
  "declare: x-queue-mode unknown": once("d.lazy2", args({ "x-queue-mode": "S:busy" })),
  "declare: an unknown x- argument": once("d.unknown", args({ "x-unknown": "S:?" })),
  "declare: an unknown argument is added": twice("d.unknown2", {}, args({ something: "S:?" })),
  "declare: a name that starts with amq.": once("amq.own", {}),
  "declare: passive, missing": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "d.missing", passive: true });
  },
  "declare: passive, with other properties": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "d.passive", durable: true });
    await channel.call("queue.declare", { queue: "d.passive", passive: true, autoDelete: true });
    channel.toQueue("d.passive", "1");
    channel.toQueue("d.passive", "2");
    await channel.quiet();
    await channel.call("basic.consume", { queue: "d.passive", consumerTag: "c" });
    await channel.takeMany(2);
    await channel.call("queue.declare", { queue: "d.passive", passive: true });
    channel.send("basic.nack", { deliveryTag: 2, multiple: true });
    await channel.call("basic.cancel", { consumerTag: "c" });
    await channel.call("queue.declare", { queue: "d.passive", passive: true });
  },
  "declare: passive with an empty name before any declare": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "", passive: true });
  },
  "declare: a name from the server, then the empty name means it": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { exclusive: true });
    await channel.call("queue.bind", { exchange: "amq.direct", routingKey: "d.key" });
    channel.publish({ exchange: "amq.direct", routingKey: "d.key" }, "1");
    await channel.quiet();
    await channel.call("basic.get", { noAck: true });
    await channel.call("queue.purge");
    await channel.call("queue.delete");
  },
  "declare: the empty name before any declare": async (talk) => {
    const channel = await talk.channel();
    await channel.call("basic.get", {});
  },
  "declare: an exclusive queue of another connection": async (talk) => {
    const [one, other] = [await talk.channel(), await talk.connect()];
    await one.call("queue.declare", { queue: "d.own", exclusive: true });
    const cases: [string, { [name: string]: string | boolean }][] = [
      ["queue.declare", { queue: "d.own", exclusive: true }],
      ["queue.declare", { queue: "d.own" }],
      ["queue.declare", { queue: "d.own", passive: true }],
      ["queue.bind", { queue: "d.own", exchange: "amq.direct", routingKey: "x" }],
      ["queue.purge", { queue: "d.own" }],
      ["queue.delete", { queue: "d.own" }],
      ["basic.get", { queue: "d.own" }],
      ["basic.consume", { queue: "d.own" }],
    ];
    for (const [at, [method, fields]] of cases.entries())
      await (await other.channel(at + 1)).call(method, fields);
    // Publishing to it is allowed.
    const publisher = await other.channel(20);
    await publisher.call("confirm.select");
    publisher.toQueue("d.own", "1");
    await publisher.takeConfirms(1);
    await one.call("basic.get", { queue: "d.own", noAck: true });
  },
  "declare: an exclusive queue ends with its connection": async (talk) => {
    const [one, other] = [await talk.connect(), await talk.channel()];
    await (await one.channel(1)).call("queue.declare", { queue: "d.ends", exclusive: true, durable: true });
    await one.raw.close();
    await other.call("queue.declare", { queue: "d.ends", passive: true });
  },
  "declare: an auto-delete queue ends with its last consumer": async (talk) => {
    const [one, other] = [await talk.channel(), await talk.channel()];
    await one.call("queue.declare", { queue: "d.auto2", autoDelete: true });
    await one.call("basic.consume", { queue: "d.auto2", consumerTag: "c" });
    await one.call("basic.consume", { queue: "d.auto2", consumerTag: "d" });
    await one.call("basic.cancel", { consumerTag: "c" });
    await one.call("queue.declare", { queue: "d.auto2", passive: true });
    await one.call("basic.cancel", { consumerTag: "d" });
    await other.call("queue.declare", { queue: "d.auto2", passive: true });
  },
  "declare: with nowait": async (talk) => {
    const channel = await talk.channel();
    channel.send("queue.declare", { queue: "d.nowait", nowait: true });
    channel.send("queue.bind", { queue: "d.nowait", exchange: "amq.fanout", nowait: true });
    await channel.call("queue.declare", { queue: "d.nowait", passive: true });
    channel.send("queue.purge", { queue: "d.nowait", nowait: true });
    channel.send("queue.delete", { queue: "d.nowait", nowait: true });
    await channel.call("queue.declare", { queue: "d.nowait", passive: true });
  },
  "declare: x-expires deletes an unused queue": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "d.expires", arguments: { "x-expires": "I:200" } });
    await channel.call("basic.consume", { queue: "d.expires", consumerTag: "c" });
    await channel.quiet(500);
    await channel.call("queue.declare", { queue: "d.expires", passive: true });
    await channel.call("basic.cancel", { consumerTag: "c" });
    await channel.quiet(800);
    await channel.call("queue.declare", { queue: "d.expires", passive: true });
  },
};

export const remove: Record<string, Script> = {
  "delete: a queue that does not exist": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.delete", { queue: "r.missing" });
    await channel.call("queue.delete", { queue: "r.missing", ifUnused: true, ifEmpty: true });
  },
  "delete: if-unused with a consumer": async (talk) => {
    const [channel, other] = [await talk.channel(), await talk.channel()];
    await channel.call("queue.declare", { queue: "r.used" });
    await channel.call("basic.consume", { queue: "r.used" });
    await other.call("queue.delete", { queue: "r.used", ifUnused: true });
  },
  "delete: if-empty with a message": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "r.full" });
    await talk.fill("r.full", ["1"]);
    await channel.call("queue.delete", { queue: "r.full", ifEmpty: true });
  },
  "delete: if-empty with an unacknowledged message": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "r.held" });
    await talk.fill("r.held", ["1"]);
    await channel.call("basic.get", { queue: "r.held" });
    await channel.call("queue.delete", { queue: "r.held", ifEmpty: true });
  },
  "delete: counts ready messages": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "r.count" });
    await talk.fill("r.count", ["1", "2", "3"]);
    await channel.call("basic.get", { queue: "r.count" });
    await channel.call("queue.delete", { queue: "r.count" });
    // The claim on the message of the deleted queue is gone; an ack of it is still valid.
    channel.send("basic.ack", { deliveryTag: 1 });
    await channel.call("queue.declare", { queue: "r.count" });
  },
  "delete: an ack of what a consumer holds stays valid": async (talk) => {
    const [channel, other] = [await talk.channel(), await talk.channel()];
    await channel.call("queue.declare", { queue: "r.acks" });
    await talk.fill("r.acks", ["1", "2", "3"]);
    await channel.call("basic.consume", { queue: "r.acks", consumerTag: "c" });
    await channel.takeMany(3);
    await other.call("queue.delete", { queue: "r.acks" });
    await channel.take();
    channel.send("basic.ack", { deliveryTag: 1 });
    channel.send("basic.nack", { deliveryTag: 3, multiple: true, requeue: true });
    await channel.call("queue.declare", { queue: "r.acks" });
  },
  "delete: consumers are told": async (talk) => {
    const [channel, other] = [await talk.channel(), await talk.channel()];
    await channel.call("queue.declare", { queue: "r.told" });
    await channel.call("basic.consume", { queue: "r.told", consumerTag: "c" });
    await other.call("queue.delete", { queue: "r.told" });
    await channel.take();
    await channel.call("basic.cancel", { consumerTag: "c" });
  },
  "delete: consumers that cannot be told are not": async (talk) => {
    const [channel, other] = [await talk.channel({ clientProperties: {} }), await talk.channel()];
    await channel.call("queue.declare", { queue: "r.deaf" });
    await channel.call("basic.consume", { queue: "r.deaf", consumerTag: "c" });
    await other.call("queue.delete", { queue: "r.deaf" });
    await channel.quiet();
  },
  "purge: only ready messages": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "r.purge" });
    await talk.fill("r.purge", ["1", "2", "3"]);
    await channel.call("basic.get", { queue: "r.purge" });
    await channel.call("queue.purge", { queue: "r.purge" });
    channel.send("basic.nack", { deliveryTag: 1, requeue: true });
    await channel.call("basic.get", { queue: "r.purge" });
  },
  "purge: a queue that does not exist": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.purge", { queue: "r.nothing" });
  },
};
