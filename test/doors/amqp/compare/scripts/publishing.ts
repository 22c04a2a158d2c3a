import type { Fields } from "../../raw/values.ts";
import type { Script } from "../conversation.ts";

const ALL_PROPERTIES: Fields = {
  contentType: "text/plain",
  contentEncoding: "gzip",
  headers: {
    yes: "t:true",
    int8: "b:-8",
    uint8: "B:200",
    int16: "s:-300",
    uint16: "u:60000",
    int32: "I:-70000",
    uint32: "i:4000000000",
    int64: "l:-5000000000",
    float: "f:1.5",
    double: "d:2.25",
    decimal: "D:2,314",
    text: "S:grüße",
    bytes: "x:00ff",
    nothing: "V:",
    at: "T:1700000000",
    list: ["I:1", ["S:in"], { deep: "t:false" }],
    table: { a: { b: { c: "I:1" } } },
    empty: {},
    none: [],
  },
  deliveryMode: 2,
  priority: 7,
  correlationId: "c-1",
  replyTo: "answers",
  expiration: "60000",
  messageId: "m-1",
  timestamp: 1_700_000_000,
  type: "order",
  userId: "guest",
  appId: "app",
  clusterId: "cluster",
};

export const publishing: Record<string, Script> = {
  "publish: all properties come back": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "p.all" });
    channel.toQueue("p.all", "body", ALL_PROPERTIES);
    await channel.call("basic.get", { queue: "p.all", noAck: true });
  },
  "publish: no properties stay none": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "p.none" });
    channel.toQueue("p.none", "");
    channel.toQueue("p.none", "1", { headers: {} });
    channel.toQueue("p.none", "2", { deliveryMode: 1, contentType: "" });
    for (let count = 0; count < 4; count++) await channel.call("basic.get", { queue: "p.none", noAck: true });
  },
  "publish: what came before a message to an unknown exchange is stored": async (talk) => {
    const peer = await talk.connect();
    const [channel, other] = [await peer.channel(1), await peer.channel(2)];
    await channel.call("queue.declare", { queue: "p.before" });
    channel.toQueue("p.before", "1");
    channel.toQueue("p.before", "2");
    channel.publish({ exchange: "p.none", routingKey: "k" }, "3");
    await channel.take();
    await other.call("queue.declare", { queue: "p.before", passive: true });
  },
  "publish: a large body comes in several frames": async (talk) => {
    const peer = await talk.connect({ frameMax: 4_096 });
    const channel = await peer.channel(1);
    await channel.call("queue.declare", { queue: "p.large" });
    channel.publish({ routingKey: "p.large" }, Buffer.alloc(20_000, "x"));
    await channel.call("basic.get", { queue: "p.large", noAck: true });
  },
  "publish: another user's user-id": async (talk) => {
    const channel = await talk.channel();
    channel.toQueue("p.nothing", "1", { userId: "somebody" });
    await channel.take();
  },
  "publish: mandatory without a route": async (talk) => {
    const channel = await talk.channel();
    channel.publish({ routingKey: "p.nowhere", mandatory: true }, "1", {
      messageId: "m",
      headers: { a: "I:1" },
    });
    await channel.take();
    channel.publish({ exchange: "amq.topic", routingKey: "p.nowhere", mandatory: true }, "");
    await channel.take();
    channel.publish({ exchange: "amq.topic", routingKey: "p.nowhere" }, "dropped");
    await channel.quiet();
  },
  "publish: mandatory with confirms: the return comes first": async (talk) => {
    const channel = await talk.channel();
    await channel.call("confirm.select");
    channel.publish({ routingKey: "p.nowhere", mandatory: true }, "1");
    await channel.takeMany(2);
    channel.publish({ routingKey: "p.nowhere" }, "2");
    await channel.takeMany(1);
  },
  "publish: immediate": async (talk) => {
    const channel = await talk.channel();
    channel.publish({ routingKey: "p.nowhere", immediate: true }, "1");
    await channel.take();
  },
  "publish: a bad expiration": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "p.bad" });
    channel.toQueue("p.bad", "1", { expiration: "soon" });
    await channel.take();
  },
  "publish: a negative expiration": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "p.bad2" });
    channel.toQueue("p.bad2", "1", { expiration: "-1" });
    await channel.take();
  },
  "publish: an expiration with letters behind": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "p.bad3" });
    channel.toQueue("p.bad3", "1", { expiration: "10s" });
    await channel.take();
  },
  "publish: an empty expiration": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "p.bad4" });
    channel.toQueue("p.bad4", "1", { expiration: "" });
    await channel.take();
  },
  "publish: an error in confirm mode": async (talk) => {
    const channel = await talk.channel();
    await channel.call("confirm.select");
    channel.publish({ exchange: "p.nowhere", routingKey: "k" }, "1");
    await channel.take();
  },
  "confirm: numbers start at 1 when confirms are selected": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "c.q", durable: true });
    channel.toQueue("c.q", "not confirmed");
    await channel.call("confirm.select");
    await channel.call("confirm.select");
    for (let count = 0; count < 5; count++) channel.toQueue("c.q", `${count}`, { deliveryMode: 2 });
    await channel.takeConfirms(5);
    await channel.call("queue.declare", { queue: "c.q", durable: true });
  },
  "confirm: with nowait": async (talk) => {
    const channel = await talk.channel();
    channel.send("confirm.select", { nowait: true });
    channel.toQueue("c.nowhere", "1");
    await channel.takeConfirms(1);
  },
  "confirm: on a channel with transactions": async (talk) => {
    const channel = await talk.channel();
    await channel.call("tx.select");
    await channel.call("confirm.select");
  },
  "confirm: to a quorum queue": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", {
      queue: "c.quorum",
      durable: true,
      arguments: { "x-queue-type": "S:quorum" },
    });
    await channel.call("confirm.select");
    for (let count = 0; count < 3; count++) channel.toQueue("c.quorum", `${count}`);
    await channel.takeConfirms(3);
  },
  "tx: on a channel with confirms": async (talk) => {
    const channel = await talk.channel();
    await channel.call("confirm.select");
    await channel.call("tx.select");
  },
  "tx: commit without select": async (talk) => {
    const channel = await talk.channel();
    await channel.call("tx.commit");
  },
  "tx: rollback without select": async (talk) => {
    const channel = await talk.channel();
    await channel.call("tx.rollback");
  },
  "tx: messages appear at commit, and not after rollback": async (talk) => {
    const [channel, other] = [await talk.channel(), await talk.channel()];
    await channel.call("queue.declare", { queue: "tx.q" });
    await channel.call("tx.select");
    await channel.call("tx.select");
    channel.toQueue("tx.q", "1");
    channel.toQueue("tx.q", "2");
    await channel.call("queue.declare", { queue: "tx.q", passive: true });
    await other.call("queue.declare", { queue: "tx.q", passive: true });
    await channel.call("tx.commit");
    await other.call("queue.declare", { queue: "tx.q", passive: true });
    channel.toQueue("tx.q", "3");
    await channel.call("tx.rollback");
    await other.call("queue.declare", { queue: "tx.q", passive: true });
    await channel.call("tx.commit");
    await other.call("queue.declare", { queue: "tx.q", passive: true });
  },
  "tx: acks count at commit, and not after rollback": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "tx.ack" });
    for (const body of ["1", "2"]) channel.toQueue("tx.ack", body);
    await channel.call("queue.declare", { queue: "tx.ack", passive: true });
    await channel.call("tx.select");
    await channel.call("basic.get", { queue: "tx.ack" });
    await channel.call("basic.get", { queue: "tx.ack" });
    channel.send("basic.ack", { deliveryTag: 1 });
    await channel.call("tx.commit");
    channel.send("basic.ack", { deliveryTag: 2 });
    await channel.call("tx.rollback");
    // The rolled back ack did not count: the message is still unacknowledged, and may be acked again.
    channel.send("basic.nack", { deliveryTag: 2, requeue: true });
    await channel.call("tx.commit");
    await channel.call("basic.get", { queue: "tx.ack" });
  },
  "tx: a mandatory return comes at commit": async (talk) => {
    const channel = await talk.channel();
    await channel.call("tx.select");
    channel.publish({ routingKey: "tx.nowhere", mandatory: true }, "1");
    await channel.quiet();
    await channel.call("tx.commit");
    await channel.take();
  },
  "tx: an unacknowledged message returns when the channel closes without commit": async (talk) => {
    const peer = await talk.connect();
    const channel = await peer.channel(1);
    await channel.call("queue.declare", { queue: "tx.close" });
    channel.toQueue("tx.close", "1");
    await channel.call("queue.declare", { queue: "tx.close", passive: true });
    await channel.call("tx.select");
    await channel.call("basic.get", { queue: "tx.close" });
    channel.send("basic.ack", { deliveryTag: 1 });
    channel.toQueue("tx.close", "2");
    await channel.call("channel.close", { replyCode: 200 });
    const next = await peer.channel(2);
    await next.call("basic.get", { queue: "tx.close" });
    await next.call("basic.get", { queue: "tx.close" });
  },
  "tx: a bad ack fails before the commit": async (talk) => {
    const channel = await talk.channel();
    await channel.call("tx.select");
    channel.send("basic.ack", { deliveryTag: 9 });
    await channel.take();
  },
};
