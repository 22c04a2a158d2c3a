import type { Fields } from "../../raw/values.ts";
import type { Script } from "../conversation.ts";

/** Settles a delivery tag that was never delivered. */
function unknown(method: string, fields: Fields): Script {
  return async (talk) => {
    const channel = await talk.channel();
    channel.send(method, fields);
    await channel.take();
  };
}

/** A quorum queue for these scripts: their order differs from that of classic queues. */
const QUORUM = { durable: true, arguments: { "x-queue-type": "S:quorum" } };

function returned(queue: string, declared: Fields): Script {
  return async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue, ...declared });
    await talk.fill(queue, ["1", "2", "3", "4"]);
    await channel.call("basic.get", { queue });
    await channel.call("basic.get", { queue });
    channel.send("basic.reject", { deliveryTag: 1, requeue: true });
    await channel.call("basic.get", { queue });
    channel.send("basic.nack", { deliveryTag: 3, multiple: true, requeue: true });
    for (let count = 0; count < 4; count++) await channel.call("basic.get", { queue });
  };
}

function lost(queue: string, declared: Fields): Script {
  return async (talk) => {
    const [peer, channel] = [await talk.connect(), await talk.channel()];
    await channel.call("queue.declare", { queue, ...declared });
    await talk.fill(queue, ["1", "2", "3"]);
    const gone = await peer.channel(1);
    await gone.call("basic.consume", { queue, consumerTag: "c" });
    await gone.takeMany(3);
    peer.cut();
    await channel.call("basic.consume", { queue, consumerTag: "d" });
    await channel.takeMany(3);
  };
}

function recover(queue: string, requeue: boolean, declared: Fields = {}): Script {
  return async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue, ...declared });
    await talk.fill(queue, ["1", "2"]);
    await channel.call("basic.consume", { queue, consumerTag: "c" });
    await channel.takeMany(2);
    channel.send("basic.recover", { requeue });
    await channel.quiet();
  };
}

export const settling: Record<string, Script> = {
  "ack: an unknown tag": unknown("basic.ack", { deliveryTag: 1 }),
  "ack: all, and there is none": async (talk) => {
    const channel = await talk.channel();
    channel.send("basic.ack", { deliveryTag: 0, multiple: true });
    await channel.quiet();
  },
  "ack: tag 0 alone": unknown("basic.ack", { deliveryTag: 0 }),
  "ack: multiple with an unknown tag": unknown("basic.ack", { deliveryTag: 5, multiple: true }),
  "nack: an unknown tag": unknown("basic.nack", { deliveryTag: 7 }),
  "reject: an unknown tag": unknown("basic.reject", { deliveryTag: 7 }),
  "ack: twice": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "n.twice" });
    await talk.fill("n.twice", ["1", "2"]);
    await channel.call("basic.get", { queue: "n.twice" });
    channel.send("basic.ack", { deliveryTag: 1 });
    channel.send("basic.ack", { deliveryTag: 1 });
    await channel.take();
  },
  "ack: multiple covers all before it": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "n.multi" });
    await talk.fill("n.multi", ["1", "2", "3", "4"]);
    for (let count = 0; count < 4; count++) await channel.call("basic.get", { queue: "n.multi" });
    channel.send("basic.ack", { deliveryTag: 2 });
    channel.send("basic.ack", { deliveryTag: 3, multiple: true });
    await channel.call("channel.flow", { active: true });
    channel.send("basic.nack", { deliveryTag: 0, multiple: true, requeue: true });
    await channel.call("basic.get", { queue: "n.multi" });
    await channel.call("basic.get", { queue: "n.multi" });
  },
  "ack: of another channel": async (talk) => {
    const peer = await talk.connect();
    const [one, two] = [await peer.channel(1), await peer.channel(2)];
    await one.call("queue.declare", { queue: "n.other" });
    await talk.fill("n.other", ["1"]);
    await one.call("basic.get", { queue: "n.other" });
    two.send("basic.ack", { deliveryTag: 1 });
    await two.take();
  },
  "requeue: back to its place, classic": returned("n.place", {}),
  "requeue: back to its place, quorum": returned("n.place2", QUORUM),
  "requeue: with nack to a consumer": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "n.again" });
    await channel.call("basic.qos", { prefetchCount: 2 });
    await talk.fill("n.again", ["1", "2", "3"]);
    await channel.call("basic.consume", { queue: "n.again", consumerTag: "c" });
    await channel.takeMany(2);
    channel.send("basic.nack", { deliveryTag: 1, requeue: true });
    await channel.take();
    channel.send("basic.nack", { deliveryTag: 3, multiple: true, requeue: true });
    await channel.takeMany(2);
  },
  "redelivered: after a lost connection, classic": lost("n.lost", {}),
  "redelivered: after a lost connection, quorum": lost("n.lost2", QUORUM),
  "redelivered: after a closed channel": async (talk) => {
    const peer = await talk.connect();
    const [one, two] = [await peer.channel(1), await peer.channel(2)];
    await one.call("queue.declare", { queue: "n.closed" });
    await talk.fill("n.closed", ["1", "2"]);
    await one.call("basic.get", { queue: "n.closed" });
    await one.call("channel.close", { replyCode: 200 });
    await two.call("basic.get", { queue: "n.closed", noAck: true });
    await two.call("basic.get", { queue: "n.closed", noAck: true });
  },
  "recover: with requeue": recover("n.recover", true),
  "recover: without requeue": recover("n.recover2", false),
  "recover: of a quorum queue": recover("n.recover3", true, QUORUM),
  "recover: async": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "n.recover4" });
    await talk.fill("n.recover4", ["1"]);
    await channel.call("basic.get", { queue: "n.recover4" });
    channel.send("basic.recover-async", { requeue: true });
    await channel.call("basic.get", { queue: "n.recover4" });
  },
  "delivery limit: a quorum queue counts deliveries": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", {
      ...{ queue: "n.limit", durable: true },
      arguments: {
        ...{ "x-queue-type": "S:quorum", "x-delivery-limit": "I:2" },
        ...{ "x-dead-letter-exchange": "S:", "x-dead-letter-routing-key": "S:n.dead" },
      },
    });
    await channel.call("queue.declare", { queue: "n.dead" });
    await talk.fill("n.limit", ["1"]);
    await channel.call("basic.consume", { queue: "n.limit", consumerTag: "c" });
    for (let tag = 1; tag <= 3; tag++) {
      await channel.take();
      channel.send("basic.nack", { deliveryTag: tag, requeue: true });
    }
    await channel.quiet(400);
    await channel.call("basic.get", { queue: "n.dead" });
  },
  "delivery limit: a quorum queue counts lost connections": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", {
      ...{ queue: "n.limit2", durable: true },
      arguments: { "x-queue-type": "S:quorum", "x-delivery-limit": "I:1" },
    });
    await talk.fill("n.limit2", ["1"]);
    for (let round = 0; round < 2; round++) {
      const peer = await talk.connect();
      const lost = await peer.channel(1);
      await lost.call("basic.consume", { queue: "n.limit2", consumerTag: "c" });
      await lost.take();
      peer.cut();
      await channel.quiet(400);
    }
    await channel.call("queue.declare", { queue: "n.limit2", passive: true });
  },
};
