import type { Table } from "../../raw/values.ts";
import type { Channel, Script } from "../conversation.ts";

/** Records how many of the messages each binding key gets. */
function topics(patterns: string[], keys: string[]): Script {
  return async (talk) => {
    const channel = await talk.channel();
    await channel.call("exchange.declare", { exchange: "t.topics", type: "topic" });
    for (const [at, routingKey] of patterns.entries()) {
      await channel.call("queue.declare", { queue: `t.${at}` });
      await channel.call("queue.bind", { queue: `t.${at}`, exchange: "t.topics", routingKey });
    }
    for (const routingKey of keys) channel.publish({ exchange: "t.topics", routingKey }, routingKey);
    for (const [at, pattern] of patterns.entries()) {
      talk.note(`${JSON.stringify(pattern)} gets`);
      await drain(channel, `t.${at}`);
    }
  };
}

async function drain(channel: Channel, queue: string): Promise<void> {
  for (;;) if ((await channel.call("basic.get", { queue, noAck: true })).method !== "basic.get-ok") return;
}

/** Records which of the messages, each with these headers, a binding gets. */
function headers(name: string, binding: Table, messages: Table[]): Script {
  return async (talk) => {
    const channel = await talk.channel();
    const queue = `h.${name}`;
    await channel.call("queue.declare", { queue });
    await channel.call("exchange.declare", { exchange: queue, type: "headers" });
    const bound = await channel.call("queue.bind", { queue, exchange: queue, arguments: binding });
    if (bound.method !== "queue.bind-ok") return;
    for (const table of messages) channel.publish({ exchange: queue }, "m", { headers: table });
    channel.publish({ exchange: queue }, "no headers");
    await drain(channel, queue);
  };
}

export const routing: Record<string, Script> = {
  "topic: stars and hashes": topics(
    ["a.*", "a.#", "#", "*", "*.*", "#.b", "a.*.c", "a.#.c", "#.*", "*.#", "", "a.b", "a..b", "#.#", "a.**"],
    ["a", "a.b", "a.b.c", "a.c", "", ".", "a..b", "a.b.b.c", "b", "a.", "a.*"],
  ),
  "headers: all": headers("all", { "x-match": "S:all", a: "S:1", b: "I:2" }, [
    { a: "S:1", b: "I:2" },
    { a: "S:1", b: "I:2", c: "S:3" },
    { a: "S:1" },
    { a: "S:1", b: "S:2" },
    { a: "S:1", b: "l:2" },
    { a: "S:1", b: "b:2" },
    { a: "S:1", b: "d:2" },
  ]),
  "headers: any": headers("any", { "x-match": "S:any", a: "S:1", b: "t:true" }, [
    { a: "S:1" },
    { b: "t:true" },
    { b: "t:false" },
    { c: "S:1" },
  ]),
  "headers: no x-match means all": headers("none", { a: "S:1", b: "S:2" }, [
    { a: "S:1" },
    { a: "S:1", b: "S:2" },
  ]),
  "headers: no arguments match everything": headers("empty", {}, [{}, { a: "S:1" }]),
  "headers: any without arguments": headers("emptyany", { "x-match": "S:any" }, [{}, { a: "S:1" }]),
  "headers: a void value means that the header is present": headers("void", { a: "V:" }, [
    { a: "S:1" },
    { a: "V:" },
    { b: "S:1" },
  ]),
  "headers: x- headers are ignored": headers("x", { "x-match": "S:all", "x-a": "S:1", b: "S:1" }, [
    { b: "S:1" },
    { b: "S:1", "x-a": "S:2" },
  ]),
  "headers: all-with-x": headers("allx", { "x-match": "S:all-with-x", "x-a": "S:1" }, [
    { "x-a": "S:1" },
    { "x-a": "S:2" },
  ]),
  "headers: any-with-x": headers("anyx", { "x-match": "S:any-with-x", "x-a": "S:1", b: "S:1" }, [
    { "x-a": "S:1" },
    { b: "S:1" },
  ]),
  "headers: an unknown x-match": headers("bad", { "x-match": "S:some", a: "S:1" }, []),
  "headers: x-match as a number": headers("bad2", { "x-match": "I:1", a: "S:1" }, []),
  "headers: tables and lists compare whole": headers("deep", { a: { b: ["I:1", "S:2"] } }, [
    { a: { b: ["I:1", "S:2"] } },
    { a: { b: ["I:1"] } },
  ]),
  "CC and BCC: each queue gets one, BCC is removed": async (talk) => {
    const channel = await talk.channel();
    for (const queue of ["cc.to", "cc.cc", "cc.bcc"]) await channel.call("queue.declare", { queue });
    channel.toQueue("cc.to", "1", {
      headers: { CC: ["S:cc.cc", "S:cc.to"], BCC: ["S:cc.bcc"], other: "S:x" },
    });
    for (const queue of ["cc.to", "cc.cc", "cc.bcc"]) {
      await channel.call("queue.declare", { queue, passive: true });
      await channel.call("basic.get", { queue, noAck: true });
    }
  },
  "CC: with a mandatory message that only CC routes": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "cc.only" });
    channel.publish({ routingKey: "cc.nothing", mandatory: true }, "1", { headers: { CC: ["S:cc.only"] } });
    await channel.call("basic.get", { queue: "cc.only", noAck: true });
  },
  "CC: not a list": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "cc.bad" });
    channel.toQueue("cc.bad", "1", { headers: { CC: "S:cc.bad" } });
    await channel.take();
  },
  "CC: a list with a number": async (talk) => {
    const channel = await talk.channel();
    await channel.call("queue.declare", { queue: "cc.bad2" });
    channel.toQueue("cc.bad2", "1", { headers: { CC: ["I:1"] } });
    await channel.quiet();
    await channel.call("basic.get", { queue: "cc.bad2", noAck: true });
  },
  "BCC: not a list": async (talk) => {
    const channel = await talk.channel();
    channel.toQueue("cc.bad", "1", { headers: { BCC: "I:1" } });
    await channel.take();
  },
};
