// What a server tells its clients, its log and its audit log: no more than each should get.

import { mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { openPort } from "../../src/api/open.ts";
import { openRemote } from "../../src/client/remote.ts";
import { DibsError } from "../../src/core/errors/errors.ts";
import { SILENT } from "../../src/core/process/logger.ts";
import type { Paged, PageQuery } from "../../src/core/answer/page.ts";
import type { Port } from "../../src/core/port.ts";
import { markStoreFault, errorForClients } from "../../src/core/errors/store-fault.ts";
import { Gatherer } from "../../src/broker/gather.ts";
import { systemClock } from "../../src/engine/system-clock.ts";
import { Access } from "../../src/server/access.ts";
import type { AdminAction } from "../../src/server/guard.ts";
import { Tokens } from "../../src/server/tokens.ts";
import { startServer } from "./start.ts";

async function setUp(change: (store: Port) => Port = (store) => store) {
  const folder = mkdtempSync(join(tmpdir(), "dibs-leaks-"));
  const tokens = new Tokens(join(folder, "tokens.json"));
  const store = await openPort(":memory:", {});
  const actions: AdminAction[] = [];
  const logged: string[] = [];
  const log = (message: string): void => void logged.push(message);
  const server = await startServer(change(store), {
    access: new Access(tokens, { letAnyoneIn: false }),
    audit: (action) => actions.push(action),
    logger: { warn: log, error: log },
  });
  onTestFinished(async () => {
    await server.close();
    await store.close();
    rmSync(folder, { recursive: true });
  });
  const open = async (...scopes: string[]): Promise<Port> => {
    const { token } = tokens.add(`t${tokens.list().length}`, scopes);
    const port = await openRemote({ url: server.url, token, clock: systemClock, logger: SILENT });
    onTestFinished(() => port.close());
    return port;
  };
  return { tokens, store, server, actions, logged, open };
}

test.each(["009b", "0085", "001b", "007f"])("a token's name cannot contain U+%s", async (code) => {
  const { tokens } = await setUp();
  const name = `a${String.fromCharCode(Number.parseInt(code, 16))}b`;
  expect(() => tokens.add(name, ["read:*"])).toThrow(expect.objectContaining({ code: "INVALID" }));
});

test("a long name causes only a short audit entry, or none", async () => {
  const { open, actions } = await setUp();
  const port = await open("admin:*");
  const long = `x\u009b${"x".repeat(1_000_000)}`;
  const calls = [
    ...[port.pause(long, true), port.purge(long), port.drop(long), port.cancel(long), port.cancelRun(long)],
    ...[port.declare(long, {}, { force: true }), port.unschedule(long), port.redrive(long, {}, 0)],
  ];
  for (const { status } of await Promise.allSettled(calls)) expect(status).toBe("rejected");
  expect(JSON.stringify(actions).length).toBeLessThan(5_000);
  expect(JSON.stringify(actions)).not.toContain("\u009b");
});

test("an object instead of a name or an id causes only a short audit entry, or none", async () => {
  const { open, actions } = await setUp();
  const port = await open("admin:*");
  for (const long of [{ id: "x".repeat(1_000_000) }, ["x".repeat(1_000_000)]] as never[]) {
    const calls = [
      ...[port.pause(long, true), port.purge(long), port.drop(long), port.cancel(long), port.cancelRun(long)],
      ...[port.declare(long, {}, { force: true }), port.unschedule(long), port.redrive(long, {}, 0)],
    ];
    for (const { status } of await Promise.allSettled(calls)) expect(status).toBe("rejected");
  }
  expect(JSON.stringify(actions).length).toBeLessThan(5_000);
});

test("the audit entry of a cancel has the id in its own field", async () => {
  const { open, store, actions } = await setUp();
  const [task] = await store.add([{ queue: "q", data: new Uint8Array([49]) }]);
  const port = await open("admin:*");
  await port.cancel(task!.id);
  await port.cancelRun(task!.id).catch(() => {});
  expect(actions.filter(({ verb }) => verb === "cancel")).toEqual([
    { by: "t0", verb: "cancel", task: task!.id },
    { by: "t0", verb: "cancel", run: task!.id },
  ]);
});

test("workers() shows only those queues of a shared worker that the token may read", async () => {
  const { open, store } = await setUp();
  const shared = { id: "w", name: "w", queues: ["mine", "theirs"], concurrency: 1, host: "h", pid: 1 };
  await store.join(shared, 30_000, () => {});
  await store.join({ ...shared, id: "v", queues: ["theirs"] }, 30_000, () => {});
  const limited = await open("read:mine");
  expect((await limited.workers()).items.map(({ queues }) => queues)).toEqual([["mine"]]);
  expect((await limited.workers({ queue: "mine" })).items.map(({ queues }) => queues)).toEqual([["mine"]]);
  const all = await open("read:*");
  expect((await all.workers({ queue: "mine" })).items.map(({ queues }) => queues)).toEqual([
    ["mine", "theirs"],
  ]);
});

/** Reads all pages, and all cursors. */
async function readPages<Item>(read: (query: PageQuery) => Promise<Paged<Item>>, limit: number) {
  const [items, cursors]: [Item[], string[]] = [[], []];
  for (let after: string | undefined, more = true; more;) {
    const page = await read({ after, limit });
    expect(page.items.length).toBeLessThanOrEqual(limit);
    items.push(...page.items);
    cursors.push(...(page.next === null ? [] : [page.next]));
    more = page.next !== null;
    after = page.next ?? undefined;
  }
  return { items, cursors };
}

test.each([1, 2, 3, 1_000])(
  "pages of at most %i queues skip what the token may not read, and no cursor names it",
  async (limit) => {
    const { open, store } = await setUp();
    const names = [
      "a1",
      "b-canary-1",
      "b-canary-2",
      "b-canary-3",
      "c2",
      "c3",
      "d-canary-4",
      "e5",
      "f-canary-5",
    ];
    for (const name of names) await store.declare(name, {});
    const limited = await open("read:a*", "read:c*", "read:e*");
    const { items, cursors } = await readPages((query) => limited.queues(query), limit);
    expect(items.map(({ name }) => name)).toEqual(["a1", "c2", "c3", "e5"]);
    expect(cursors.join()).not.toContain("canary");
    expect((await readPages((query) => store.queues(query), limit)).items).toHaveLength(names.length);
  },
);

test("pages of pipelines and schedules name nothing that the token may not see", async () => {
  const { open, store } = await setUp();
  for (const name of ["a", "b-canary", "c", "d-canary"]) {
    await store.definePipeline(name, [{ name: "s", joins: false }]);
    await store.schedule(name, {
      every: 60_000,
      missed: "once",
      task: { queue: `${name}/s`, data: "1" },
    } as never);
  }
  const limited = await open("read:a/*", "read:c/*");
  const pipelines = await readPages((query) => limited.pipelines(query), 1);
  const schedules = await readPages((query) => limited.schedules(query), 1);
  for (const { items, cursors } of [pipelines, schedules]) {
    expect(items.map(({ name }) => name)).toEqual(["a", "c"]);
    expect(cursors.join()).not.toContain("canary");
  }
});

describe("an Idempotency-Key beyond ASCII", () => {
  /** Bytes, as clients put them into the headers of a request. */
  const add = (url: string, token: string, key: Buffer | undefined, body: object): Promise<{ id: string }> =>
    new Promise((resolve, reject) => {
      const headers = {
        ...{ authorization: `Bearer ${token}`, "content-type": "application/json" },
        ...(key && { "idempotency-key": key.toString("latin1") }),
      };
      const sent = request(`${url}/v1/queues/q/tasks`, { method: "POST", headers }, (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part: string) => (text += part));
        response.on("end", () => resolve(JSON.parse(text) as { id: string }));
      });
      sent.on("error", reject);
      const text = Buffer.from(JSON.stringify({ data: 1, ...body }));
      sent.setHeader("content-length", text.length);
      sent.end(text);
    });

  test.each([
    ["UTF-8", Buffer.from("é", "utf8")],
    ["Latin-1", Buffer.from("é", "latin1")],
  ])("an Idempotency-Key header as %s is the same key as in the body", async (_, key) => {
    const { tokens, server } = await setUp();
    const { token } = tokens.add("ada", ["add:q"]);
    const inBody = await add(server.url, token, undefined, { idempotencyKey: "é" });
    expect(await add(server.url, token, key, {})).toMatchObject({ id: inBody.id, existing: true });
  });
});

describe("a failure of the store", () => {
  const PLACE = "/var/secret/place/work.db";
  const WORDS = `No room is left on the disk of ${PLACE} (write of "/secret-wal" failed (5)). Make room.`;
  const fail = (code: "UNAVAILABLE" | "OUTCOME_UNKNOWN") => {
    const error = new DibsError(code, WORDS);
    markStoreFault(error, PLACE);
    return Promise.reject(error);
  };

  test.each(["UNAVAILABLE", "OUTCOME_UNKNOWN"] as const)(
    "clients get a store failure with %s without the store's address, which is logged once",
    async (code) => {
      const { tokens, server, open, logged } = await setUp((store) => ({
        ...store,
        queues: () => fail(code),
        stats: () => fail(code),
      }));
      const { token } = tokens.add("ada", ["admin:*"]);
      const answers = [];
      for (const path of ["/v1/queues", "/v1/queues/q", "/readyz"]) {
        const response = await fetch(server.url + path, { headers: { authorization: `Bearer ${token}` } });
        answers.push(await response.text());
      }
      const told = await (await open("admin:*")).stats("q").catch((error: unknown) => error);
      const message = "No room is left on the disk of ***. Make room. The log of the server says more.";
      expect(told).toMatchObject({ code, retryable: true, message });
      answers.push((told as Error).message);
      for (const answer of answers) expect(answer).not.toContain("secret");
      expect(logged.join("\n")).toContain(PLACE);
      expect(new Set(logged).size).toBe(logged.length);
    },
  );

  test("an error of a whole batch counts as a store failure", async () => {
    const error = new DibsError("UNAVAILABLE", PLACE);
    const engine = { depth: 1, address: PLACE, execute: () => Promise.reject(error) };
    const gatherer = new Gatherer(engine as never, { onSend() {}, onCommit() {}, measure: undefined });
    await expect(gatherer.run({ verb: "housekeep" } as never)).rejects.toBe(error);
    expect(errorForClients(error).message).toBe("*** The log of the server says more.");
  });
});
