import {
  anything as anyValue,
  assert,
  boolean,
  constant,
  constantFrom,
  double,
  oneof,
  property,
  string,
  uint8Array,
} from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { openPort } from "../../src/api/open.ts";
import { openRemote } from "../../src/client/remote.ts";
import { SILENT } from "../../src/core/process/logger.ts";
import { systemClock } from "../../src/engine/system-clock.ts";
import { decode, encode } from "../../src/protocol/codec.ts";
import { CLOSE, PATH } from "../../src/protocol/messages.ts";
import { startServer } from "../server/start.ts";
import { Served } from "./served.ts";

describe("encoding of values", () => {
  const anything = anyValue({
    withNullPrototype: false,
    values: [
      string({ unit: "binary" }),
      double({ noNaN: false }).map((value) => value + 0),
      boolean(),
      constant(null),
      uint8Array(),
      constant(undefined),
    ],
    key: oneof(string(), constantFrom("$", "$$", '"$":')),
  });

  test("any value arrives unchanged", () => {
    assert(
      property(anything, (value) => {
        // JSON has no -0, and omits undefined properties.
        expect(decode(encode([value]))).toEqual([value]);
      }),
    );
  });

  test.each([
    ["an object with the key of a tag", { $: ["bytes", "AA=="] }],
    ["text that looks like a tag", '{"$":["undefined"]}'],
    ["half of a surrogate pair", "a\ud83db"],
    ["bytes under the key __proto__", { ["__proto__"]: new Uint8Array([1]) }],
  ])("the encoding keeps %s", (_, value) => {
    expect(decode(encode(value))).toEqual(value);
  });

  test.each([7n, () => {}, Symbol("s")])(
    "the encoding refuses a value that no message can carry",
    (value) => {
      expect(() => encode([value])).toThrow(expect.objectContaining({ code: "INVALID" }));
    },
  );

  test("the encoding refuses values that are nested too deep, in both directions", () => {
    const circle: unknown[] = [];
    circle.push(circle);
    expect(() => encode(circle)).toThrow(expect.objectContaining({ code: "INVALID" }));
    expect(() => decode(`${'{"$":'.repeat(1_000)}1${"}".repeat(1_000)}`)).toThrow();
  });
});

describe("a client that does not follow the protocol", () => {
  async function connect(served: Served): Promise<{ socket: WebSocket; closed: Promise<number> }> {
    const socket = new WebSocket(served.url.replace("http", "ws") + PATH);
    onTestFinished(() => socket.terminate());
    const closed = new Promise<number>((resolve) => socket.on("close", resolve));
    await new Promise((resolve) => socket.on("open", resolve));
    return { socket, closed };
  }

  const HELLO = '{"hello":{"versions":[1],"client":"test"}}';

  test.each([
    "",
    "no JSON",
    "{}",
    "[]",
    "null",
    '{"hello":{}}',
    '{"hello":{"versions":1}}',
    '{"hello":null}',
  ])("a client is refused for the hello %j", async (hello) => {
    const { socket, closed } = await connect(await Served.start());
    socket.send(hello);
    expect(await closed).toBe(CLOSE.protocol);
  });

  test("a client with another version gets the version of the server", async () => {
    const { socket, closed } = await connect(await Served.start());
    const answer = new Promise<string>((resolve) =>
      socket.once("message", (data) => resolve((data as Buffer).toString())),
    );
    socket.send('{"hello":{"versions":[2,3],"client":"test"}}');
    expect(JSON.parse(await answer)).toMatchObject({
      refused: { code: "UNSUPPORTED", message: expect.stringContaining("2, 3") },
    });
    expect(await closed).toBe(CLOSE.protocol);
  });

  test.each([
    "",
    "[]",
    "{}",
    '{"ack":"1"}',
    '{"ack":0,"seq":-1}',
    '{"ack":0,"seq":2}',
    '{"ack":0,"seq":1,"items":5}',
  ])("a client is disconnected for the frame %j", async (frame) => {
    const { socket, closed } = await connect(await Served.start());
    socket.send(HELLO);
    socket.send(frame);
    expect(await closed).toBe(CLOSE.protocol);
  });

  test("a client gets an error for an invalid call, and can continue", async () => {
    const { socket } = await connect(await Served.start());
    const heard: unknown[] = [];
    const all = new Promise<void>((resolve) =>
      socket.on("message", (data) => {
        const { items = [] } = JSON.parse((data as Buffer).toString()) as { items?: unknown[][] };
        heard.push(...items);
        if (items.some(([kind, id]) => kind === "ok" && id === 99)) resolve();
      }),
    );
    socket.send(HELLO);
    const items = [
      ["call", 1, "no such verb", []],
      ["call", 2, "__proto__", []],
      ["call", 3, "close", []],
      ["call", 4, "claim", null],
      ["call", 5, "claim", []],
      ["call", 6, "add", [[{ queue: "q", data: "x" }], { tx: {} }]],
      ["call", 7, "leave", [12_345]],
      ["call", 8, "claim", [{ queues: ["q"], max: 1, worker: "w", wait: 0, session: 1 }]],
      ["no such item", 9],
      ["call", "no number", "stats", ["q"]],
      null,
      ["abort", 1_000],
      ["call", 99, "stats", ["q"]],
    ];
    socket.send(JSON.stringify({ seq: 1, ack: 0, items }));
    await all;
    const codes = Object.fromEntries(
      heard.map((item) => {
        const [kind, id, content] = item as [string, number, { code?: string } | undefined];
        return [id, kind === "ok" ? "ok" : content?.code];
      }),
    );
    expect(codes).toEqual({
      ...{ 1: "UNSUPPORTED", 2: "UNSUPPORTED", 3: "UNSUPPORTED", 4: "INVALID", 5: "INVALID" },
      // A transaction cannot cross the wire: this is a plain add.
      ...{ 6: "ok", 7: "ok", 8: "CLAIM_LOST", 9: "UNSUPPORTED", 99: "ok" },
    });
  });
});

describe("an answer that cannot be sent", () => {
  test("an answer that cannot be sent is refused, ends no connection, and claims no task", async () => {
    const store = await openPort(":memory:", {});
    let isEndless = true;
    // Simulates an answer that is longer than the longest string.
    const endless = <T extends object>(value: T): T => (isEndless ? { ...value, size: 7n } : value);
    const server = await startServer({
      ...store,
      stats: async (queue) => endless(await store.stats(queue)),
      claim: async (claimCall) => {
        const { tasks, policies } = await store.claim(claimCall);
        return { tasks, policies: endless(policies) };
      },
    });
    const port = await openRemote({ url: server.url, clock: systemClock, logger: SILENT });
    onTestFinished(async () => {
      await port.close();
      await server.close();
      await store.close();
    });
    await store.add([{ queue: "work", data: "1" }]);
    const tooLarge = expect.objectContaining({ code: "PAYLOAD_TOO_LARGE" });
    await expect(port.stats("work")).rejects.toEqual(tooLarge);
    const claimCall = { queues: ["work"], max: 1, worker: "w", wait: 0 };
    await expect(port.claim(claimCall)).rejects.toEqual(tooLarge);
    isEndless = false;
    const { tasks } = await port.claim({ ...claimCall, wait: 20_000 });
    expect(tasks).toMatchObject([{ attempt: 1 }]);
  });
});

describe("calls of one moment", () => {
  test("calls of one moment share frames, none of which is longer than the server accepts", async () => {
    const served = await Served.start({ maxFrame: 5_000 });
    const port = await served.open();
    const add = (n: number): Promise<unknown> =>
      port.add([{ queue: "work", data: String(n).padEnd(n % 50 === 0 ? 1_200 : 100, "é") }]);
    const online = Array.from({ length: 300 }, (_, n) => add(n));
    await Promise.all(online);
    // Also calls that had to wait for a connection.
    served.proxy.cut();
    await new Promise((resolve) => setImmediate(resolve));
    const offline = Array.from({ length: 300 }, (_, n) => add(n));
    served.proxy.mend();
    await Promise.all(offline);
    expect((await served.store.stats("work")).depth.ready).toBe(600);
    await expect(port.add([{ queue: "work", data: "é".repeat(3_000) }])).rejects.toMatchObject({
      code: "PAYLOAD_TOO_LARGE",
    });
  });
});

describe("a client that reads nothing", () => {
  test("a client that reads nothing is disconnected, and its claims go to other workers", async () => {
    const served = await Served.start({ maxBacklog: 100_000, resumeMs: 60_000 });
    const added = await served.store.add([{ queue: "work", data: "x".repeat(50_000) }]);
    const { id } = added[0]!;
    const socket = new WebSocket(served.url.replace("http", "ws") + PATH);
    onTestFinished(() => socket.terminate());
    await new Promise((resolve) => socket.on("open", resolve));
    const message = (): Promise<unknown> => new Promise((resolve) => socket.once("message", resolve));
    socket.send('{"hello":{"versions":[1],"client":"test"}}');
    await message();
    const claim = ["call", 1, "claim", [{ queues: ["work"], max: 1, worker: "w", wait: 0 }]];
    socket.send(JSON.stringify({ seq: 1, ack: 0, items: [claim] }));
    await message();
    expect(await served.store.task(id)).toMatchObject({ state: "claimed" });
    socket.pause();
    const questions = Array.from({ length: 30 }, (_, index) => ["call", index + 2, "task", [id]]);
    socket.send(JSON.stringify({ seq: 2, ack: 0, items: questions }));
    const next = await served.store.claim({ queues: ["work"], max: 1, worker: "other", wait: 60_000 });
    expect(next.tasks).toMatchObject([{ id, attempt: 2 }]);
  });
});
