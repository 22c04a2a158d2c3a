// What a token with scopes for some queues can do over AMQP with those of others: nothing, and it learns nothing.

import { describe, expect, test } from "vitest";
import type { Args } from "../../../src/doors/amqp/wire/methods.ts";
import { longstr, replaceProperties } from "../../../src/doors/amqp/wire/properties.ts";
import { text, writeTable } from "../../../src/doors/amqp/wire/table.ts";
import { setUp } from "../../server/guarded.ts";
import { RawClient } from "./client.ts";

const NONE = Buffer.alloc(0);
const MINE = ["add:mine", "work:mine", "add:exchange/mine", "work:exchange/mine"];

async function startDoor() {
  const { store, server, tokenFor } = await setUp({ amqp: { port: 0 } });
  const openAs = async (...scopes: string[]): Promise<RawClient> => {
    const client = new RawClient(server.amqpPort!);
    await client.open("any", tokenFor(...scopes));
    return client;
  };
  const operator = await openAs("admin:*");
  for (const name of ["mine", "theirs"]) {
    await operator.declare(name);
    operator.send(1, "exchange.declare", exchange(name));
    await operator.expect("exchange.declare-ok");
    operator.send(1, "queue.bind", { ...binding(name, name), queue: name });
    await operator.expect("queue.bind-ok");
  }
  await store.add([{ queue: "theirs", data: "canary" }]);
  return { store, openAs, operator };
}

const exchange = (name: string): Args<"exchange.declare"> => ({
  ...{ exchange: name, type: "fanout", passive: false, durable: true, autoDelete: false, internal: false },
  ...{ noWait: false, arguments: NONE },
});

const binding = (queue: string, from: string): Args<"queue.bind"> => ({
  ...{ queue, exchange: from, routingKey: "", noWait: false, arguments: NONE },
});

const exchangeBinding = (destination: string, source: string): Args<"exchange.bind"> => ({
  ...{ destination, source, routingKey: "", noWait: false, arguments: NONE },
});

const queue = (name: string, more: Partial<Args<"queue.declare">> = {}): Args<"queue.declare"> => ({
  ...{ queue: name, passive: false, durable: true, exclusive: false, autoDelete: false, noWait: false },
  ...{ arguments: NONE, ...more },
});

/** Dead letters go to a queue, or to an exchange. */
const deadLettersTo = (to: string, key?: string): Buffer =>
  writeTable([
    ["x-dead-letter-exchange", text(to)],
    ...(key === undefined
      ? []
      : [["x-dead-letter-routing-key", text(key)] as [string, ReturnType<typeof text>]]),
  ]);

const copyTo = (name: string): Buffer =>
  replaceProperties(Buffer.from([0, 0]), {
    headers: longstr(writeTable([["CC", { type: "A", value: [text(name)] }]])),
  });

/** Every method that names a queue or an exchange, as a client of `mine` sends it about another. */
const METHODS: [what: string, send: (client: RawClient, name: string) => void][] = [
  ["queue.declare", (client, name) => client.send(1, "queue.declare", queue(name))],
  [
    "queue.declare, passive",
    (client, name) => client.send(1, "queue.declare", queue(name, { passive: true })),
  ],
  [
    "queue.declare with other arguments",
    (client, name) => client.send(1, "queue.declare", queue(name, { durable: false, exclusive: true })),
  ],
  ["queue.bind of the queue", (client, name) => client.send(1, "queue.bind", binding(name, "mine"))],
  ["queue.bind to the exchange", (client, name) => client.send(1, "queue.bind", binding("mine", name))],
  ["queue.unbind", (client, name) => client.send(1, "queue.unbind", binding(name, "mine"))],
  ["queue.purge", (client, name) => client.send(1, "queue.purge", { queue: name, noWait: false })],
  [
    "queue.delete",
    (client, name) =>
      client.send(1, "queue.delete", { queue: name, ifUnused: false, ifEmpty: true, noWait: false }),
  ],
  ["basic.consume", (client, name) => client.consume(name, "c")],
  ["basic.get", (client, name) => client.send(1, "basic.get", { queue: name, noAck: true })],
  ["basic.publish to the queue", (client, name) => client.publish(1, name, "forged")],
  [
    "basic.publish with a copy for the queue",
    (client, name) => client.publish(1, "mine", "forged", copyTo(name)),
  ],
  ["exchange.declare", (client, name) => client.send(1, "exchange.declare", exchange(name))],
  [
    "exchange.declare, passive",
    (client, name) => client.send(1, "exchange.declare", { ...exchange(name), passive: true }),
  ],
  [
    "exchange.declare with another type",
    (client, name) => client.send(1, "exchange.declare", { ...exchange(name), type: "topic" }),
  ],
  [
    "exchange.delete",
    (client, name) => client.send(1, "exchange.delete", { exchange: name, ifUnused: true, noWait: false }),
  ],
  ["exchange.bind to it", (client, name) => client.send(1, "exchange.bind", exchangeBinding("mine", name))],
  ["exchange.bind of it", (client, name) => client.send(1, "exchange.bind", exchangeBinding(name, "mine"))],
  [
    "exchange.unbind of it",
    (client, name) => client.send(1, "exchange.unbind", exchangeBinding(name, "mine")),
  ],
];

/** RabbitMQ's words. */
const REFUSED = /^ACCESS_REFUSED - access to (queue|exchange) 'NAME' in vhost '\/' refused for user '[^']+'$/;

describe("AMQP with a token for other queues", () => {
  test("every method is refused, in the same way whether or not the queue or exchange exists", async () => {
    const { store, openAs } = await startDoor();
    const before = await stateOf(store);
    for (const [what, send] of METHODS) {
      const answers = [];
      for (const name of ["theirs", "absent"]) {
        const client = await openAs(...MINE);
        send(client, name);
        const { code, text: said } = await client.expect("channel.close");
        answers.push({ what, code, said: said.replaceAll(name, "NAME") });
        client.socket.destroy();
      }
      expect(answers[0]).toMatchObject({ code: 403, said: expect.stringMatching(REFUSED) });
      expect(answers[0]).toEqual(answers[1]);
    }
    expect(await stateOf(store)).toEqual(before);
  });

  test("every method is allowed on its own queue and exchange, except to purge and delete", async () => {
    const { openAs } = await startDoor();
    for (const [what, send] of METHODS) {
      if (/other arguments|another type/.test(what)) continue;
      const client = await openAs(...MINE);
      send(client, "mine");
      // Answered after what it sent before.
      client.send(1, "basic.qos", { prefetchSize: 0, prefetchCount: 1, global: false });
      const { name } = await client.next();
      const isAllowed = name !== "channel.close";
      expect({ what, isAllowed }).toEqual({ what, isAllowed: !/purge|queue.delete/.test(what) });
      client.socket.destroy();
      if (what === "exchange.delete") break;
    }
  });

  test.each([
    ["the routing key names it", deadLettersTo("", "theirs")],
    ["the exchange leads to it", deadLettersTo("theirs")],
    ["messages may name it", deadLettersTo("")],
  ])("a queue whose dead letters would go to a foreign queue is refused: %s", async (_, table) => {
    const { store, openAs } = await startDoor();
    const client = await openAs(...MINE, "add:mine2");
    client.send(1, "queue.declare", queue("mine2", { arguments: table }));
    expect(await client.expect("channel.close")).toMatchObject({ code: 403 });
    expect((await store.queues({ queue: "mine2" })).items).toEqual([]);
  });

  test("an exchange whose unrouted messages would go to a foreign exchange is refused", async () => {
    const { openAs } = await startDoor();
    const declareWith = async (alternate: string) => {
      const client = await openAs(...MINE, "add:exchange/mine2");
      const table = writeTable([["alternate-exchange", text(alternate)]]);
      client.send(1, "exchange.declare", { ...exchange("mine2"), arguments: table });
      return client;
    };
    expect(await (await declareWith("theirs")).expect("channel.close")).toMatchObject({ code: 403 });
    await (await declareWith("mine")).expect("exchange.declare-ok");
    // It is there already, as an operator may have made it.
    await (await declareWith("mine")).expect("exchange.declare-ok");
  });

  test("a queue may send its dead letters to where its client may add", async () => {
    const { openAs } = await startDoor();
    const tables = [deadLettersTo("", "mine"), deadLettersTo("mine")];
    for (const [at, table] of tables.entries())
      await (await openAs(...MINE, `add:mine${at}`)).declare(`mine${at}`, table);
    await (await openAs("add:*")).declare("mine9", deadLettersTo(""));
  });

  test("a publish that an exchange leads to a foreign queue too is refused, without its name", async () => {
    const { store, openAs, operator } = await startDoor();
    operator.send(1, "queue.bind", binding("theirs", "mine"));
    await operator.expect("queue.bind-ok");
    const before = await stateOf(store);
    const client = await openAs(...MINE);
    client.publish(1, "", "forged", undefined, "mine");
    const refused = await client.expect("channel.close");
    expect(refused.code).toBe(403);
    expect(refused.text).not.toContain("theirs");
    expect(await stateOf(store)).toEqual(before);
  });

  test("a passive declaration with a scope on the queue tells its depth", async () => {
    const { openAs } = await startDoor();
    for (const kind of ["add", "work", "read"]) {
      const client = await openAs(`${kind}:theirs`);
      client.send(1, "queue.declare", queue("theirs", { passive: true }));
      expect(await client.expect("queue.declare-ok")).toMatchObject({ messageCount: 1 });
    }
  });

  test("an exclusive queue can be purged and deleted by its connection without admin, and by no other", async () => {
    const { openAs } = await startDoor();
    const [own, other] = [await openAs(...MINE, "work:mine2"), await openAs(...MINE, "work:mine2")];
    own.send(1, "queue.declare", queue("mine2", { exclusive: true }));
    await own.expect("queue.declare-ok");
    other.send(1, "queue.purge", { queue: "mine2", noWait: false });
    expect(await other.expect("channel.close")).toMatchObject({ code: 403 });
    own.send(1, "queue.purge", { queue: "mine2", noWait: false });
    await own.expect("queue.purge-ok");
    own.send(1, "queue.delete", { queue: "mine2", ifUnused: false, ifEmpty: false, noWait: false });
    await own.expect("queue.delete-ok");
  });
});

async function stateOf(store: Awaited<ReturnType<typeof setUp>>["store"]): Promise<unknown> {
  const [{ items }, { depth }] = await Promise.all([store.queues(), store.stats("theirs")]);
  return { queues: items.map(({ name, policy }) => ({ name, policy })), depth };
}
