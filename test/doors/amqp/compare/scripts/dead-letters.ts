import type { Fields, Table } from "../../raw/values.ts";
import type { Channel, Script } from "../conversation.ts";

const EXPIRED_MS = 400;

/** A queue whose dead letters go to another one, `<queue>.dead`, through the default exchange. */
async function withDeadLetters(channel: Channel, queue: string, more: Table = {}, fields: Fields = {}) {
  await channel.call("queue.declare", { queue: `${queue}.dead` });
  await channel.call("queue.declare", {
    ...{ queue, ...fields },
    arguments: {
      ...{ "x-dead-letter-exchange": "S:", "x-dead-letter-routing-key": `S:${queue}.dead` },
      ...more,
    },
  });
}

const QUORUM: Table = { "x-queue-type": "S:quorum" };

export const deadLetters: Record<string, Script> = {
  "dead letter: rejected": async (talk) => {
    const channel = await talk.channel();
    await withDeadLetters(channel, "l.rejected");
    channel.toQueue("l.rejected", "1", {
      messageId: "m",
      headers: { own: "S:x" },
      deliveryMode: 2,
      expiration: "90000",
    });
    await channel.quiet();
    await channel.call("basic.get", { queue: "l.rejected" });
    channel.send("basic.reject", { deliveryTag: 1 });
    await channel.getSoon("l.rejected.dead", EXPIRED_MS);
  },
  "dead letter: nack multiple keeps the order": async (talk) => {
    const channel = await talk.channel();
    await withDeadLetters(channel, "l.nack");
    await talk.fill("l.nack", ["1", "2", "3"]);
    for (let count = 0; count < 3; count++) await channel.call("basic.get", { queue: "l.nack" });
    channel.send("basic.nack", { deliveryTag: 3, multiple: true });
    await channel.quiet(EXPIRED_MS);
    for (let count = 0; count < 3; count++)
      await channel.call("basic.get", { queue: "l.nack.dead", noAck: true });
  },
  "dead letter: without an exchange a rejected message is gone": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "l.gone" });
    await talk.fill("l.gone", ["1"]);
    await channel.call("basic.get", { queue: "l.gone" });
    channel.send("basic.reject", { deliveryTag: 1 });
    await channel.call("queue.declare", { queue: "l.gone" });
  },
  "dead letter: expired by the queue": async (talk) => {
    const channel = await talk.channel();
    await withDeadLetters(channel, "l.ttl", { "x-message-ttl": "I:50" });
    channel.toQueue("l.ttl", "1", { headers: { own: "S:x" } });
    await channel.getSoon("l.ttl.dead", EXPIRED_MS);
  },
  "dead letter: expired by the message, which loses its expiration": async (talk) => {
    const channel = await talk.channel();
    await withDeadLetters(channel, "l.own");
    channel.toQueue("l.own", "1", { expiration: "50" });
    await channel.getSoon("l.own.dead", EXPIRED_MS);
  },
  "dead letter: expired at once by 0, unless a consumer takes it": async (talk) => {
    const channel = await talk.channel();
    await withDeadLetters(channel, "l.zero", { "x-message-ttl": "I:0" });
    channel.toQueue("l.zero", "1");
    await channel.getSoon("l.zero.dead", EXPIRED_MS);
    await channel.call("basic.consume", { queue: "l.zero", consumerTag: "c" });
    channel.toQueue("l.zero", "2");
    await channel.take();
  },
  "dead letter: a message behind one that lives longer waits for it": async (talk) => {
    const channel = await talk.channel();
    await withDeadLetters(channel, "l.behind");
    channel.toQueue("l.behind", "long", { expiration: "60000" });
    channel.toQueue("l.behind", "short", { expiration: "50" });
    await channel.quiet(EXPIRED_MS);
    await channel.call("queue.declare", { queue: "l.behind", passive: true });
    await channel.call("basic.get", { queue: "l.behind" });
    await channel.call("basic.get", { queue: "l.behind" });
    await channel.getSoon("l.behind.dead", EXPIRED_MS);
  },
  "dead letter: maxlen drops the head": async (talk) => {
    const channel = await talk.channel();
    await withDeadLetters(channel, "l.len", { "x-max-length": "I:2" });
    await talk.fill("l.len", ["1", "2", "3"]);
    await channel.getSoon("l.len.dead", EXPIRED_MS);
    await channel.call("basic.get", { queue: "l.len", noAck: true });
  },
  "dead letter: maxlen in bytes": async (talk) => {
    const channel = await talk.channel();
    await withDeadLetters(channel, "l.bytes", { "x-max-length-bytes": "I:5" });
    await talk.fill("l.bytes", ["12", "34", "56", "larger than all"]);
    await channel.quiet(EXPIRED_MS);
    for (let count = 0; count < 5; count++)
      await channel.call("basic.get", { queue: "l.bytes.dead", noAck: true });
  },
  "dead letter: rejected twice counts": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", {
      ...{
        queue: "l.one",
        arguments: { "x-dead-letter-exchange": "S:", "x-dead-letter-routing-key": "S:l.two" },
      },
    });
    await channel.call("queue.declare", {
      ...{ queue: "l.two" },
      arguments: {
        ...{ "x-dead-letter-exchange": "S:", "x-dead-letter-routing-key": "S:l.one" },
        ...{ "x-message-ttl": "I:30" },
      },
    });
    channel.toQueue("l.one", "1");
    await channel.call("basic.consume", { queue: "l.one", consumerTag: "c" });
    for (let tag = 1; tag <= 3; tag++) {
      await channel.take();
      channel.send("basic.reject", { deliveryTag: tag });
    }
    await channel.take();
  },
  "dead letter: retried twice, with the exchange, key and expiration of the first time": async (talk) => {
    const channel = await talk.channel();
    const retry = { "x-dead-letter-exchange": "S:", "x-dead-letter-routing-key": "S:l.retry" };
    await channel.call("queue.declare", { queue: "l.work", arguments: retry });
    await channel.call("queue.declare", {
      ...{ queue: "l.retry" },
      arguments: {
        ...{ "x-dead-letter-exchange": "S:", "x-dead-letter-routing-key": "S:l.work" },
        ...{ "x-message-ttl": "I:30" },
      },
    });
    await channel.call("queue.bind", { queue: "l.work", exchange: "amq.topic", routingKey: "l.#" });
    channel.publish({ exchange: "amq.topic", routingKey: "l.first" }, "1", { expiration: "60000" });
    await channel.call("basic.consume", { queue: "l.work", consumerTag: "c" });
    for (let tag = 1; tag <= 3; tag++) {
      await channel.take();
      channel.send("basic.reject", { deliveryTag: tag });
    }
    await channel.take();
  },
  "dead letter: an x-death that is no list is replaced": async (talk) => {
    const channel = await talk.channel();
    await withDeadLetters(channel, "l.text");
    channel.toQueue("l.text", "1", { headers: { "x-death": "S:often", own: "I:1" } });
    await channel.quiet();
    await channel.call("basic.get", { queue: "l.text" });
    channel.send("basic.reject", { deliveryTag: 1 });
    await channel.getSoon("l.text.dead", EXPIRED_MS);
  },
  "dead letter: CC counts again, and BCC": async (talk) => {
    const channel = await talk.channel();
    for (const queue of ["l.cc", "l.bcc"]) await channel.call("queue.declare", { queue });
    await channel.call("queue.declare", {
      queue: "l.copies",
      arguments: { "x-dead-letter-exchange": "S:amq.direct" },
    });
    for (const queue of ["l.cc", "l.bcc"])
      await channel.call("queue.bind", { queue, exchange: "amq.direct", routingKey: `${queue}.key` });
    channel.toQueue("l.copies", "1", { headers: { CC: ["S:l.cc.key"], BCC: ["S:l.bcc.key"] } });
    await channel.quiet();
    await channel.call("basic.get", { queue: "l.copies" });
    channel.send("basic.reject", { deliveryTag: 1 });
    await channel.getSoon("l.cc", EXPIRED_MS);
    await channel.call("basic.get", { queue: "l.bcc", noAck: true });
  },
  "dead letter: a ring without a reject is dropped": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", {
      ...{ queue: "l.ring" },
      arguments: {
        ...{ "x-dead-letter-exchange": "S:", "x-dead-letter-routing-key": "S:l.ring" },
        ...{ "x-message-ttl": "I:30" },
      },
    });
    channel.toQueue("l.ring", "1");
    await channel.quiet(EXPIRED_MS);
    await channel.call("queue.declare", { queue: "l.ring", passive: true });
  },
  "dead letter: keeps the routing key if the queue names none": async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.declare", { exchange: "l.dlx", type: "fanout" });
    await channel.call("queue.declare", {
      queue: "l.key",
      arguments: { "x-dead-letter-exchange": "S:l.dlx" },
    });
    await channel.call("queue.declare", { queue: "l.key.dead" });
    await channel.call("queue.bind", { queue: "l.key.dead", exchange: "l.dlx" });
    await channel.call("queue.bind", { queue: "l.key", exchange: "amq.topic", routingKey: "l.#" });
    channel.publish({ exchange: "amq.topic", routingKey: "l.some.key" }, "1", {
      headers: { CC: ["S:l.other"] },
    });
    await channel.quiet();
    await channel.call("basic.get", { queue: "l.key" });
    channel.send("basic.reject", { deliveryTag: 1 });
    await channel.getSoon("l.key.dead", EXPIRED_MS);
  },
  "dead letter: an exchange that does not exist": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", {
      queue: "l.nowhere",
      arguments: { "x-dead-letter-exchange": "S:l.none" },
    });
    await talk.fill("l.nowhere", ["1"]);
    await channel.call("basic.get", { queue: "l.nowhere" });
    channel.send("basic.reject", { deliveryTag: 1 });
    await channel.quiet();
    await channel.call("queue.declare", { queue: "l.nowhere", passive: true });
  },
  "dead letter: rejected in a quorum queue": async (talk) => {
    const channel = await talk.channel();
    await withDeadLetters(channel, "l.quorum", QUORUM, { durable: true });
    channel.toQueue("l.quorum", "1", { headers: { own: "S:x" } });
    await channel.quiet();
    await channel.call("basic.get", { queue: "l.quorum" });
    channel.send("basic.reject", { deliveryTag: 1 });
    await channel.getSoon("l.quorum.dead", EXPIRED_MS);
  },
  "dead letter: expired in a quorum queue": async (talk) => {
    const channel = await talk.channel();
    await withDeadLetters(channel, "l.quorum2", { ...QUORUM, "x-message-ttl": "I:50" }, { durable: true });
    channel.toQueue("l.quorum2", "1");
    await channel.getSoon("l.quorum2.dead", 1_000);
  },
  "dead letter: purge and delete do not dead-letter": async (talk) => {
    const channel = await talk.channel();
    await withDeadLetters(channel, "l.purge");
    await talk.fill("l.purge", ["1"]);
    await channel.call("queue.purge", { queue: "l.purge" });
    await talk.fill("l.purge", ["2"]);
    await channel.call("queue.delete", { queue: "l.purge" });
    await channel.getSoon("l.purge.dead", EXPIRED_MS);
  },
};

/** What a full queue does with a confirmed message. */
function overflow(queue: string, more: Table, fields: Fields = {}): Script {
  return async (talk) => {
    const channel = await talk.channel();
    await withDeadLetters(channel, queue, { "x-max-length": "I:2", ...more }, fields);
    await channel.call("confirm.select");
    for (const [at, body] of ["1", "2", "3"].entries()) {
      channel.toQueue(queue, body);
      await channel.quiet(at === 0 ? 300 : 200);
    }
    for (let count = 0; count < 3; count++) await channel.call("basic.get", { queue, noAck: true });
    await channel.getSoon(`${queue}.dead`, EXPIRED_MS);
  };
}

export const limits: Record<string, Script> = {
  "max-length: drop-head": overflow("m.drop", { "x-overflow": "S:drop-head" }),
  "max-length: reject-publish": overflow("m.reject", { "x-overflow": "S:reject-publish" }),
  "max-length: reject-publish-dlx": overflow("m.dlx", { "x-overflow": "S:reject-publish-dlx" }),
  "max-length: of 0": overflow("m.zero", { "x-max-length": "I:0" }),
  "max-length: counts only ready messages": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "m.ready", arguments: { "x-max-length": "I:1" } });
    await talk.fill("m.ready", ["1"]);
    await channel.call("basic.get", { queue: "m.ready" });
    await talk.fill("m.ready", ["2"]);
    await channel.call("queue.declare", { queue: "m.ready", passive: true });
    channel.send("basic.nack", { deliveryTag: 1, requeue: true });
    await channel.quiet();
    await channel.call("basic.get", { queue: "m.ready" });
    await channel.call("basic.get", { queue: "m.ready" });
  },
  "max-length: two queues, one of them full": async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.declare", { exchange: "m.fan", type: "fanout" });
    await channel.call("queue.declare", {
      ...{ queue: "m.small", arguments: { "x-max-length": "I:1", "x-overflow": "S:reject-publish" } },
    });
    await channel.call("queue.declare", { queue: "m.big" });
    for (const queue of ["m.small", "m.big"]) await channel.call("queue.bind", { queue, exchange: "m.fan" });
    await channel.call("confirm.select");
    for (const body of ["1", "2"]) {
      channel.publish({ exchange: "m.fan" }, body);
      await channel.takeMany(1);
    }
    for (const queue of ["m.small", "m.big"]) await channel.call("queue.declare", { queue, passive: true });
  },
  "priority: higher first, and above the most counts as the most": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "m.prio", arguments: { "x-max-priority": "I:5" } });
    for (const priority of [0, 5, 3, 9, 1]) channel.toQueue("m.prio", `${priority}`, { priority });
    channel.toQueue("m.prio", "none");
    await channel.call("queue.declare", { queue: "m.prio", passive: true });
    for (let count = 0; count < 6; count++) await channel.call("basic.get", { queue: "m.prio", noAck: true });
  },
  "priority: ignored by a queue without priorities": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "m.flat" });
    for (const priority of [0, 5, 3]) channel.toQueue("m.flat", `${priority}`, { priority });
    await channel.call("queue.declare", { queue: "m.flat", passive: true });
    for (let count = 0; count < 3; count++) await channel.call("basic.get", { queue: "m.flat", noAck: true });
  },
  "priority: with a maximal length, the lowest is dropped": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", {
      ...{ queue: "m.drop2", arguments: { "x-max-priority": "I:5", "x-max-length": "I:2" } },
    });
    for (const priority of [1, 5, 3]) channel.toQueue("m.drop2", `${priority}`, { priority });
    await channel.call("queue.declare", { queue: "m.drop2", passive: true });
    for (let count = 0; count < 2; count++)
      await channel.call("basic.get", { queue: "m.drop2", noAck: true });
  },
  "ttl: the smaller of the queue's and the message's counts": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "m.ttl", arguments: { "x-message-ttl": "I:50" } });
    channel.toQueue("m.ttl", "1", { expiration: "60000" });
    await channel.quiet(EXPIRED_MS);
    await channel.call("queue.declare", { queue: "m.ttl", passive: true });
  },
  "ttl: an unacknowledged message does not expire": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "m.held", arguments: { "x-message-ttl": "I:200" } });
    channel.toQueue("m.held", "1");
    await channel.call("basic.get", { queue: "m.held" });
    await channel.quiet(EXPIRED_MS);
    channel.send("basic.ack", { deliveryTag: 1 });
    await channel.call("queue.declare", { queue: "m.held", passive: true });
  },
  "ttl: the message's expiration comes back as sent": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "m.exp" });
    channel.toQueue("m.exp", "1", { expiration: "060000" });
    await channel.quiet();
    await channel.call("basic.get", { queue: "m.exp" });
  },
};
