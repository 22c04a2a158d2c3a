// Answers that a client of the native protocol has not read: how many there may be, and which calls they block.

import { once } from "node:events";
import { describe, expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { openPort } from "../../src/api/open.ts";
import type { NativeOptions } from "../../src/doors/native/door.ts";
import { startServer } from "../server/start.ts";

type Item = [kind: string, id: number, value?: unknown];

/** A client that acknowledges only what the test tells it to. */
class Client {
  readonly answers = new Map<number, Item>();
  readonly socket: WebSocket;
  #seq = 0;
  #received = 0;
  #look: () => void = () => {};

  constructor(url: string) {
    this.socket = new WebSocket(`${url.replace("http", "ws")}/v1/connect`);
    onTestFinished(() => this.socket.terminate());
  }

  async greet(): Promise<this> {
    await once(this.socket, "open");
    this.socket.send('{"hello":{"versions":[1],"client":"test"}}');
    await once(this.socket, "message");
    this.socket.on("message", (text: Buffer) => {
      const { seq, items = [] } = JSON.parse(text.toString()) as { seq?: number; items?: Item[] };
      if (seq !== undefined) this.#received = seq;
      for (const item of items) this.answers.set(item[1], item);
      this.#look();
    });
    return this;
  }

  send(...items: unknown[]): void {
    this.socket.send(JSON.stringify({ seq: ++this.#seq, ack: 0, items }));
  }

  acknowledge(): void {
    this.socket.send(JSON.stringify({ ack: this.#received }));
  }

  async until(holds: () => boolean, each: () => void = () => {}): Promise<void> {
    while (!holds()) {
      await new Promise<void>((resolve) => (this.#look = resolve));
      each();
    }
  }
}

async function setUp(native: Partial<NativeOptions> = {}): Promise<Client> {
  const store = await openPort(":memory:", {});
  const server = await startServer(store, { native });
  onTestFinished(async () => {
    await server.close();
    await store.close();
  });
  await store.add(Array.from({ length: 30 }, () => ({ queue: "large", data: "x".repeat(200_000) })));
  return new Client(server.url).greet();
}

const list = (id: number) => [
  "call",
  id,
  "list",
  [{ queue: "large", state: "ready", limit: 1_000, payloads: "full" }],
];
const add = (id: number) => ["call", id, "add", [[{ queue: "small", data: "1" }]]];
const stats = (id: number) => ["call", id, "stats", ["small"]];

describe("unread answers", () => {
  test("unread answers block calls with large answers, and not those with small ones", async () => {
    const client = await setUp();
    client.send(...Array.from({ length: 10 }, (_, i) => list(i + 1)), add(11), stats(12));
    await client.until(() => client.answers.has(12) && client.answers.has(1) && client.answers.has(2));
    // Two pages are the most that a client may leave unread. A round trip later there are no more.
    client.send(stats(13));
    await client.until(() => client.answers.has(13));
    expect([...client.answers.keys()].sort((a, b) => a - b)).toEqual([1, 2, 11, 12, 13]);
    client.acknowledge();
    await client.until(
      () => client.answers.size === 13,
      () => client.acknowledge(),
    );
    expect([...client.answers.values()].every(([kind]) => kind === "ok")).toBe(true);
  });

  test("a waiting claim reserves no room, and takes none from other calls", async () => {
    const client = await setUp();
    const claims = Array.from({ length: 50 }, (_, i) => [
      ...["call", i + 100, "claim"],
      [{ queues: ["none"], max: 1_000, worker: "w", wait: 60_000 }],
    ]);
    client.send(...claims, list(1), list(2));
    await client.until(() => client.answers.has(1) && client.answers.has(2));
    expect(client.answers.size).toBe(2);
  });

  test("a call that waits for room can be aborted", async () => {
    const client = await setUp();
    client.send(list(1), list(2), list(3));
    await client.until(() => client.answers.has(1) && client.answers.has(2));
    client.send(["abort", 3]);
    await client.until(() => client.answers.has(3));
    expect(client.answers.get(3)).toMatchObject(["error", 3, { code: "CLOSED" }]);
  });

  test("a client that reads nothing for six intervals is cut off, however active it is otherwise", async () => {
    const client = await setUp({ beatMs: 50 });
    const closed = once(client.socket, "close");
    client.send(list(1));
    await client.until(() => client.answers.has(1));
    const lively = setInterval(() => client.send(), 20);
    onTestFinished(() => clearInterval(lively));
    await closed;
  });
});
