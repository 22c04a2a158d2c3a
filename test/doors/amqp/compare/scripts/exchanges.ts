import type { Fields } from "../../raw/values.ts";
import type { Script } from "../conversation.ts";

function once(fields: Fields): Script {
  return async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.declare", fields);
  };
}

function twice(first: Fields, second: Fields): Script {
  return async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.declare", first);
    await channel.call("exchange.declare", second);
  };
}

export const exchanges: Record<string, Script> = {
  "exchange: of each type": async (talk) => {
    const channel = await talk.channel();
    for (const type of ["direct", "fanout", "topic", "headers"])
      await channel.call("exchange.declare", { exchange: `x.${type}`, type });
  },
  "exchange: an unknown type": once({ exchange: "x.unknown", type: "x-unknown" }),
  "exchange: an empty type": once({ exchange: "x.empty", type: "" }),
  "exchange: a name that starts with amq.": once({ exchange: "amq.mine", type: "direct" }),
  "exchange: amq.direct as it is": once({ exchange: "amq.direct", type: "direct", durable: true }),
  "exchange: amq.direct as a fanout": once({ exchange: "amq.direct", type: "fanout", durable: true }),
  "exchange: the default exchange": once({ exchange: "", type: "direct", durable: true }),
  "exchange: the default exchange, passive": once({ exchange: "", type: "direct", passive: true }),
  "exchange: passive, missing": once({ exchange: "x.missing", type: "direct", passive: true }),
  "exchange: passive, with another type": twice(
    { exchange: "x.passive", type: "direct" },
    { exchange: "x.passive", type: "fanout", passive: true },
  ),
  "exchange: type differs": twice(
    { exchange: "x.type", type: "direct" },
    { exchange: "x.type", type: "fanout" },
  ),
  "exchange: durable differs": twice(
    { exchange: "x.durable", type: "direct", durable: true },
    { exchange: "x.durable", type: "direct" },
  ),
  "exchange: auto-delete differs": twice(
    { exchange: "x.auto", type: "direct", autoDelete: true },
    { exchange: "x.auto", type: "direct" },
  ),
  "exchange: internal differs": twice(
    { exchange: "x.internal", type: "direct", internal: true },
    { exchange: "x.internal", type: "direct" },
  ),
  "exchange: alternate-exchange differs": twice(
    { exchange: "x.alt", type: "direct", arguments: { "alternate-exchange": "S:a" } },
    { exchange: "x.alt", type: "direct" },
  ),
  "exchange: another alternate-exchange": twice(
    { exchange: "x.alt3", type: "direct", arguments: { "alternate-exchange": "S:a" } },
    { exchange: "x.alt3", type: "direct", arguments: { "alternate-exchange": "S:b" } },
  ),
  "exchange: alternate-exchange as a number": once({
    exchange: "x.alt2",
    type: "direct",
    arguments: { "alternate-exchange": "I:1" },
  }),
  "exchange: another argument differs": twice(
    { exchange: "x.arg", type: "direct", arguments: { a: "S:a" } },
    { exchange: "x.arg", type: "direct" },
  ),
  "exchange: delete one that does not exist": async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.delete", { exchange: "x.nothing" });
  },
  "exchange: delete amq.direct": async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.delete", { exchange: "amq.direct" });
  },
  "exchange: delete the default exchange": async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.delete", { exchange: "" });
  },
  "exchange: delete if-unused with a binding": async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.declare", { exchange: "x.used", type: "direct" });
    await channel.call("queue.declare", { queue: "x.q" });
    await channel.call("queue.bind", { queue: "x.q", exchange: "x.used", routingKey: "k" });
    await channel.call("exchange.delete", { exchange: "x.used", ifUnused: true });
  },
  "exchange: auto-delete goes with its last binding": async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.declare", { exchange: "x.last", type: "direct", autoDelete: true });
    await channel.call("queue.declare", { queue: "x.lastq" });
    await channel.call("queue.bind", { queue: "x.lastq", exchange: "x.last", routingKey: "k" });
    await channel.call("queue.unbind", { queue: "x.lastq", exchange: "x.last", routingKey: "k" });
    await channel.call("exchange.declare", { exchange: "x.last", type: "direct", passive: true });
  },
  "exchange: auto-delete goes with its last queue": async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.declare", { exchange: "x.last2", type: "direct", autoDelete: true });
    await channel.call("queue.declare", { queue: "x.lastq2" });
    await channel.call("queue.bind", { queue: "x.lastq2", exchange: "x.last2", routingKey: "k" });
    await channel.call("queue.delete", { queue: "x.lastq2" });
    await channel.call("exchange.declare", { exchange: "x.last2", type: "direct", passive: true });
  },
  "exchange: publish to one that does not exist": async (talk) => {
    const channel = await talk.channel();
    channel.publish({ exchange: "x.nowhere", routingKey: "k" }, "1");
    await channel.take();
  },
  "exchange: publish to an internal one": async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.declare", { exchange: "x.inside", type: "fanout", internal: true });
    channel.publish({ exchange: "x.inside", routingKey: "k" }, "1");
    await channel.take();
  },
  "bind: a queue that does not exist": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.bind", { queue: "b.nothing", exchange: "amq.direct" });
  },
  "bind: an exchange that does not exist": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "b.q" });
    await channel.call("queue.bind", { queue: "b.q", exchange: "b.nothing" });
  },
  "bind: to the default exchange": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "b.q2" });
    await channel.call("queue.bind", { queue: "b.q2", exchange: "", routingKey: "k" });
  },
  "bind: the same binding twice delivers once": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "b.twice" });
    await channel.call("queue.bind", { queue: "b.twice", exchange: "amq.direct", routingKey: "b.k" });
    await channel.call("queue.bind", { queue: "b.twice", exchange: "amq.direct", routingKey: "b.k" });
    await channel.call("queue.bind", {
      queue: "b.twice",
      exchange: "amq.direct",
      routingKey: "b.k",
      arguments: { a: "I:1" },
    });
    channel.publish({ exchange: "amq.direct", routingKey: "b.k" }, "1");
    await channel.call("queue.declare", { queue: "b.twice", passive: true });
  },
  "unbind: a binding that does not exist": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "b.un" });
    await channel.call("queue.unbind", { queue: "b.un", exchange: "amq.direct", routingKey: "nothing" });
  },
  "unbind: an exchange that does not exist": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "b.un2" });
    await channel.call("queue.unbind", { queue: "b.un2", exchange: "b.nothing", routingKey: "nothing" });
  },
  "unbind: a queue that does not exist": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.unbind", { queue: "b.nothing", exchange: "amq.direct", routingKey: "nothing" });
  },
  "unbind: from the default exchange": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "b.un3" });
    await channel.call("queue.unbind", { queue: "b.un3", exchange: "", routingKey: "b.un3" });
  },
  "exchange to exchange: delivers through both, once": async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.declare", { exchange: "e.from", type: "topic" });
    await channel.call("exchange.declare", { exchange: "e.to", type: "fanout" });
    await channel.call("exchange.bind", { source: "e.from", destination: "e.to", routingKey: "a.#" });
    await channel.call("queue.declare", { queue: "e.q" });
    await channel.call("queue.bind", { queue: "e.q", exchange: "e.to" });
    await channel.call("queue.bind", { queue: "e.q", exchange: "e.from", routingKey: "*.b" });
    channel.publish({ exchange: "e.from", routingKey: "a.b" }, "both");
    channel.publish({ exchange: "e.from", routingKey: "x.y" }, "none");
    await channel.call("queue.declare", { queue: "e.q", passive: true });
    await channel.call("basic.get", { queue: "e.q", noAck: true });
    await channel.call("exchange.unbind", { source: "e.from", destination: "e.to", routingKey: "a.#" });
    await channel.call("exchange.unbind", { source: "e.from", destination: "e.to", routingKey: "a.#" });
    channel.publish({ exchange: "e.from", routingKey: "a.c" }, "unbound");
    await channel.call("queue.declare", { queue: "e.q", passive: true });
  },
  "exchange to exchange: a ring ends": async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.declare", { exchange: "e.one", type: "fanout" });
    await channel.call("exchange.declare", { exchange: "e.two", type: "fanout" });
    await channel.call("exchange.bind", { source: "e.one", destination: "e.two" });
    await channel.call("exchange.bind", { source: "e.two", destination: "e.one" });
    await channel.call("queue.declare", { queue: "e.ring" });
    await channel.call("queue.bind", { queue: "e.ring", exchange: "e.two" });
    channel.publish({ exchange: "e.one", routingKey: "k" }, "1");
    await channel.call("queue.declare", { queue: "e.ring", passive: true });
  },
  "exchange to exchange: a source that does not exist": async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.bind", { source: "e.nothing", destination: "amq.direct" });
  },
  "exchange to exchange: a destination that does not exist": async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.bind", { source: "amq.direct", destination: "e.nothing" });
  },
  "exchange to exchange: the default exchange as source": async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.bind", { source: "", destination: "amq.direct" });
  },
  "alternate exchange: gets what has no other route": async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.declare", { exchange: "a.other", type: "fanout" });
    await channel.call("exchange.declare", {
      ...{ exchange: "a.main", type: "direct", arguments: { "alternate-exchange": "S:a.other" } },
    });
    for (const queue of ["a.q", "a.rest"]) await channel.call("queue.declare", { queue });
    await channel.call("queue.bind", { queue: "a.q", exchange: "a.main", routingKey: "k" });
    await channel.call("queue.bind", { queue: "a.rest", exchange: "a.other" });
    channel.publish({ exchange: "a.main", routingKey: "k" }, "known");
    channel.publish({ exchange: "a.main", routingKey: "?", mandatory: true }, "unknown");
    for (const queue of ["a.q", "a.rest"]) await channel.call("queue.declare", { queue, passive: true });
    await channel.call("basic.get", { queue: "a.rest", noAck: true });
    await channel.call("queue.unbind", { queue: "a.rest", exchange: "a.other" });
    channel.publish({ exchange: "a.main", routingKey: "?", mandatory: true }, "nobody");
    await channel.take();
  },
  "alternate exchange: one that does not exist": async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.declare", {
      ...{ exchange: "a.lost", type: "direct", arguments: { "alternate-exchange": "S:a.nothing" } },
    });
    channel.publish({ exchange: "a.lost", routingKey: "k", mandatory: true }, "1");
    await channel.take();
  },
};
