import type { Script } from "../conversation.ts";

export const consuming: Record<string, Script> = {
  "get: counts and an empty queue": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "g.q" });
    await talk.fill("g.q", ["1", "2", "3"]);
    await channel.call("basic.get", { queue: "g.q" });
    await channel.call("basic.get", { queue: "g.q", noAck: true });
    await channel.call("basic.get", { queue: "g.q" });
    await channel.call("basic.get", { queue: "g.q" });
    channel.send("basic.ack", { deliveryTag: 3, multiple: true });
    await channel.call("queue.declare", { queue: "g.q" });
  },
  "get: a queue that does not exist": async (talk) => {
    const channel = await talk.channel();
    await channel.call("basic.get", { queue: "g.nothing" });
  },
  "consume: a queue that does not exist": async (talk) => {
    const channel = await talk.channel();
    await channel.call("basic.consume", { queue: "k.nothing" });
  },
  "consume: the server chooses a tag": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "k.tag" });
    await channel.call("basic.consume", { queue: "k.tag" });
  },
  "consume: the same tag twice": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "k.twice" });
    await channel.call("basic.consume", { queue: "k.twice", consumerTag: "c" });
    await channel.call("basic.consume", { queue: "k.twice", consumerTag: "c" });
  },
  "consume: the same tag on two channels": async (talk) => {
    const peer = await talk.connect();
    const [one, two] = [await peer.channel(1), await peer.channel(2)];
    await one.call("queue.declare", { queue: "k.two" });
    await one.call("basic.consume", { queue: "k.two", consumerTag: "c" });
    await two.call("basic.consume", { queue: "k.two", consumerTag: "c" });
  },
  "consume: without acks": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "k.noack" });
    await talk.fill("k.noack", ["1", "2"]);
    await channel.call("basic.consume", { queue: "k.noack", consumerTag: "c", noAck: true });
    await channel.takeMany(2);
    await channel.call("queue.declare", { queue: "k.noack" });
    channel.send("basic.ack", { deliveryTag: 1 });
    await channel.take();
  },
  "consume: exclusive, then another": async (talk) => {
    const [one, two] = [await talk.channel(), await talk.channel()];
    await one.call("queue.declare", { queue: "k.excl" });
    await one.call("basic.consume", { queue: "k.excl", consumerTag: "c", exclusive: true });
    await two.call("basic.consume", { queue: "k.excl", consumerTag: "d" });
  },
  "consume: exclusive after another": async (talk) => {
    const [one, two] = [await talk.channel(), await talk.channel()];
    await one.call("queue.declare", { queue: "k.excl2" });
    await one.call("basic.consume", { queue: "k.excl2", consumerTag: "c" });
    await two.call("basic.consume", { queue: "k.excl2", consumerTag: "d", exclusive: true });
  },
  "consume: exclusive is over when its consumer is cancelled": async (talk) => {
    const [one, two] = [await talk.channel(), await talk.channel()];
    await one.call("queue.declare", { queue: "k.excl3" });
    await one.call("basic.consume", { queue: "k.excl3", consumerTag: "c", exclusive: true });
    await one.call("basic.cancel", { consumerTag: "c" });
    await two.call("basic.consume", { queue: "k.excl3", consumerTag: "d" });
  },
  "consume: exclusive allows basic.get of another": async (talk) => {
    const [one, two] = [await talk.channel(), await talk.channel()];
    await one.call("queue.declare", { queue: "k.excl4" });
    await one.call("basic.consume", { queue: "k.excl4", consumerTag: "c", exclusive: true });
    await two.call("basic.get", { queue: "k.excl4" });
  },
  "consume: no-local delivers own messages": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "k.local" });
    await channel.call("basic.consume", { queue: "k.local", consumerTag: "c", noLocal: true });
    channel.toQueue("k.local", "1");
    await channel.take();
  },
  "consume: with nowait": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "k.nowait" });
    channel.send("basic.consume", { queue: "k.nowait", consumerTag: "c", nowait: true });
    channel.toQueue("k.nowait", "1");
    await channel.take();
    channel.send("basic.cancel", { consumerTag: "c", nowait: true });
    channel.toQueue("k.nowait", "2");
    await channel.quiet();
  },
  "cancel: an unknown tag": async (talk) => {
    const channel = await talk.channel();
    await channel.call("basic.cancel", { consumerTag: "unknown" });
  },
  "cancel: what was delivered stays unacknowledged": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "k.stay" });
    await talk.fill("k.stay", ["1"]);
    await channel.call("basic.consume", { queue: "k.stay", consumerTag: "c" });
    await channel.take();
    await channel.call("basic.cancel", { consumerTag: "c" });
    await channel.call("queue.declare", { queue: "k.stay" });
    channel.send("basic.nack", { deliveryTag: 1, requeue: true });
    await channel.call("basic.get", { queue: "k.stay" });
  },
  "consume: two consumers take turns": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "k.turns" });
    await channel.call("basic.consume", { queue: "k.turns", consumerTag: "c" });
    await channel.call("basic.consume", { queue: "k.turns", consumerTag: "d" });
    for (const body of ["1", "2", "3", "4", "5", "6"]) {
      channel.toQueue("k.turns", body);
      await channel.take();
    }
  },
  "consume: a higher consumer priority is served first": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "k.prio" });
    await channel.call("basic.qos", { prefetchCount: 2 });
    await channel.call("basic.consume", { queue: "k.prio", consumerTag: "low" });
    await channel.call("basic.consume", {
      ...{ queue: "k.prio", consumerTag: "high", arguments: { "x-priority": "I:10" } },
    });
    for (const body of ["1", "2", "3", "4", "5"]) {
      channel.toQueue("k.prio", body);
      await channel.quiet();
    }
  },
  "consume: a consumer priority that is no number": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "k.prio2" });
    await channel.call("basic.consume", { queue: "k.prio2", arguments: { "x-priority": "S:high" } });
  },
  "single active consumer: the next one begins with what a lost one held": async (talk) => {
    const [peer, two] = [await talk.connect(), await talk.channel()];
    const one = await peer.channel(1);
    await two.call("queue.declare", { queue: "k.lost", arguments: { "x-single-active-consumer": "t:true" } });
    await one.call("basic.qos", { prefetchCount: 2 });
    await one.call("basic.consume", { queue: "k.lost", consumerTag: "c" });
    await two.call("basic.qos", { prefetchCount: 5 });
    await two.call("basic.consume", { queue: "k.lost", consumerTag: "d" });
    await talk.fill("k.lost", ["1", "2", "3", "4", "5", "6"]);
    for (let tag = 1; tag <= 2; tag++) {
      await one.take();
      one.send("basic.ack", { deliveryTag: tag });
    }
    await one.takeMany(2);
    peer.cut();
    await two.takeMany(4);
  },
  "single active consumer: the next one takes over": async (talk) => {
    const [one, two] = [await talk.channel(), await talk.channel()];
    await one.call("queue.declare", { queue: "k.sac", arguments: { "x-single-active-consumer": "t:true" } });
    await one.call("basic.consume", { queue: "k.sac", consumerTag: "c" });
    await two.call("basic.consume", { queue: "k.sac", consumerTag: "d" });
    one.toQueue("k.sac", "1");
    one.toQueue("k.sac", "2");
    await one.takeMany(2);
    await two.quiet();
    await one.call("basic.cancel", { consumerTag: "c" });
    one.toQueue("k.sac", "3");
    await two.take();
    await one.call("channel.close", { replyCode: 200 });
    await two.takeMany(2);
  },
  "single active consumer: exclusive is refused": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", {
      queue: "k.sac2",
      arguments: { "x-single-active-consumer": "t:true" },
    });
    await channel.call("basic.consume", { queue: "k.sac2", consumerTag: "c", exclusive: true });
  },
  "single active consumer: basic.get is refused or not": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", {
      queue: "k.sac3",
      arguments: { "x-single-active-consumer": "t:true" },
    });
    await channel.call("basic.get", { queue: "k.sac3" });
  },
  "single active consumer: of quorum queues, basic.get too": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", {
      ...{ queue: "k.sac4", durable: true },
      arguments: { "x-queue-type": "S:quorum", "x-single-active-consumer": "t:true" },
    });
    await channel.call("basic.get", { queue: "k.sac4" });
  },
  "flow: off and on": async (talk) => {
    const channel = await talk.channel();
    await channel.call("channel.flow", { active: true });
    await channel.call("channel.flow", { active: false });
  },
  "qos: prefetch size is not implemented": async (talk) => {
    const channel = await talk.channel();
    await channel.call("basic.qos", { prefetchSize: 10 });
  },
  "qos: per consumer": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "s.each" });
    await channel.call("basic.qos", { prefetchCount: 2 });
    await channel.call("basic.consume", { queue: "s.each", consumerTag: "c" });
    await channel.call("basic.consume", { queue: "s.each", consumerTag: "d" });
    await talk.fill("s.each", ["1", "2", "3", "4", "5", "6"]);
    await channel.quiet();
    channel.send("basic.ack", { deliveryTag: 1 });
    await channel.quiet();
    channel.send("basic.nack", { deliveryTag: 5, multiple: true });
    await channel.quiet();
  },
  "qos: per consumer counts from when it consumes": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "s.later" });
    await channel.call("basic.qos", { prefetchCount: 1 });
    await channel.call("basic.consume", { queue: "s.later", consumerTag: "c" });
    await channel.call("basic.qos", { prefetchCount: 3 });
    for (const body of ["1", "2", "3", "4", "5"]) channel.toQueue("s.later", body);
    await channel.quiet();
    await channel.call("basic.consume", { queue: "s.later", consumerTag: "d" });
    await channel.quiet();
  },
  "qos: global is shared by the channel": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "s.all" });
    await channel.call("basic.qos", { prefetchCount: 3, global: true });
    await channel.call("basic.consume", { queue: "s.all", consumerTag: "c" });
    await channel.call("basic.consume", { queue: "s.all", consumerTag: "d" });
    for (const body of ["1", "2", "3", "4", "5"]) channel.toQueue("s.all", body);
    await channel.takeInAnyOrder(3);
    await channel.quiet();
    channel.send("basic.ack", { deliveryTag: 1 });
    await channel.quiet();
  },
  "qos: global and per consumer together": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "s.both" });
    await channel.call("basic.qos", { prefetchCount: 2 });
    await channel.call("basic.qos", { prefetchCount: 3, global: true });
    await channel.call("basic.consume", { queue: "s.both", consumerTag: "c" });
    await channel.call("basic.consume", { queue: "s.both", consumerTag: "d" });
    for (const body of ["1", "2", "3", "4", "5"]) channel.toQueue("s.both", body);
    await channel.takeInAnyOrder(3);
    await channel.quiet();
  },
  "qos: basic.get and consumers without acks do not count": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "s.get" });
    await channel.call("basic.qos", { prefetchCount: 1 });
    await talk.fill("s.get", ["1", "2", "3", "4"]);
    await channel.call("basic.get", { queue: "s.get" });
    await channel.call("basic.get", { queue: "s.get" });
    await channel.call("basic.consume", { queue: "s.get", consumerTag: "c", noAck: true });
    await channel.takeMany(2);
  },
  "qos: global is lifted by 0": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "s.lift" });
    await channel.call("basic.qos", { prefetchCount: 1, global: true });
    await channel.call("basic.consume", { queue: "s.lift", consumerTag: "c" });
    for (const body of ["1", "2", "3"]) channel.toQueue("s.lift", body);
    await channel.quiet();
    await channel.call("basic.qos", { prefetchCount: 0, global: true });
    await channel.quiet();
  },
  "qos: global is refused for quorum queues": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", {
      queue: "s.quorum",
      durable: true,
      arguments: { "x-queue-type": "S:quorum" },
    });
    await channel.call("basic.qos", { prefetchCount: 1, global: true });
    await channel.call("basic.consume", { queue: "s.quorum", consumerTag: "c" });
  },
};
