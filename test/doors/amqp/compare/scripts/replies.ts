import type { Script } from "../conversation.ts";

const REPLY_TO = "amq.rabbitmq.reply-to";

export const replies: Record<string, Script> = {
  "reply-to: a request and its answer": async (talk) => {
    const [asker, answerer] = [await talk.channel(), await talk.channel()];
    await answerer.call("queue.declare", { queue: "y.requests" });
    await asker.call("basic.consume", { queue: REPLY_TO, consumerTag: "c", noAck: true });
    asker.toQueue("y.requests", "question", { replyTo: REPLY_TO, correlationId: "1" });
    await answerer.call("basic.consume", { queue: "y.requests", consumerTag: "s", noAck: true });
    const request = await answerer.take();
    const replyTo = request.properties!["replyTo"] as string;
    await answerer.call("confirm.select");
    talk.note("the answer goes to the token in reply-to");
    answerer.toQueue(replyTo, "answer", { correlationId: "1" });
    await asker.take();
    await answerer.take();
    await answerer.call("queue.declare", { queue: replyTo, passive: true });
  },
  "reply-to: a mandatory answer": async (talk) => {
    const [asker, answerer] = [await talk.channel(), await talk.channel()];
    await answerer.call("queue.declare", { queue: "y.mandatory" });
    await asker.call("basic.consume", { queue: REPLY_TO, consumerTag: "c", noAck: true });
    asker.toQueue("y.mandatory", "question", { replyTo: REPLY_TO });
    await answerer.call("basic.consume", { queue: "y.mandatory", consumerTag: "s", noAck: true });
    const replyTo = (await answerer.take()).properties!["replyTo"] as string;
    answerer.publish({ routingKey: replyTo, mandatory: true }, "answer");
    await asker.take();
    await answerer.quiet();
  },
  "reply-to: consuming with acks": async (talk) => {
    const channel = await talk.channel();
    await channel.call("basic.consume", { queue: REPLY_TO });
  },
  "reply-to: consuming twice": async (talk) => {
    const channel = await talk.channel();
    await channel.call("basic.consume", { queue: REPLY_TO, noAck: true, consumerTag: "c" });
    await channel.call("basic.consume", { queue: REPLY_TO, noAck: true, consumerTag: "d" });
  },
  "reply-to: a request before consuming": async (talk) => {
    const channel = await talk.channel();
    channel.toQueue("y.requests", "1", { replyTo: REPLY_TO });
    await channel.take();
  },
  "reply-to: an answer to a requester that is gone": async (talk) => {
    const [asker, answerer] = [await talk.connect(), await talk.channel()];
    const asking = await asker.channel(1);
    await answerer.call("queue.declare", { queue: "y.gone" });
    await asking.call("basic.consume", { queue: REPLY_TO, consumerTag: "c", noAck: true });
    asking.toQueue("y.gone", "question", { replyTo: REPLY_TO });
    await answerer.call("basic.consume", { queue: "y.gone", consumerTag: "s", noAck: true });
    const replyTo = (await answerer.take()).properties!["replyTo"] as string;
    asker.cut();
    await answerer.call("confirm.select");
    await answerer.quiet();
    answerer.publish({ routingKey: replyTo, mandatory: true }, "answer");
    await answerer.takeMany(2);
    await answerer.call("queue.declare", { queue: replyTo, passive: true });
  },
  "reply-to: declare of the pseudo-queue": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: REPLY_TO, passive: true });
    await channel.call("queue.declare", { queue: REPLY_TO });
  },
  "reply-to: after cancel, requests are refused": async (talk) => {
    const channel = await talk.channel();
    await channel.call("basic.consume", { queue: REPLY_TO, noAck: true, consumerTag: "c" });
    await channel.call("basic.cancel", { consumerTag: "c" });
    channel.toQueue("y.requests", "1", { replyTo: REPLY_TO });
    await channel.take();
  },
};
