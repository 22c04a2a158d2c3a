import { expect, test } from "vitest";
import { makeTokens, openLive, startDashboard } from "./kit.ts";

const worker = (id: string, queue: string) => ({
  ...{ id, name: id, queues: [queue], concurrency: 1, host: "host", pid: 1 },
});

async function claimOne(port: Awaited<ReturnType<typeof startDashboard>>["port"], queue: string, by = "w1") {
  const { tasks } = await port.claim({ queues: [queue], max: 1, worker: by, wait: 0 });
  return tasks[0]!;
}

test("the first frames are hello, totals and jobs", async () => {
  const { url, port } = await startDashboard();
  await port.add([{ queue: "emails", data: "1" }]);
  const { frames, response } = await openLive(url);
  expect(response.headers.get("content-type")).toContain("application/x-ndjson");
  const first = [await frames.next(), await frames.next(), await frames.next()].map(({ value }) => value);
  expect(first).toMatchObject([
    { type: "hello", version: "1.2.3" },
    { type: "totals", queues: 1, waiting: 1, running: 0, problem: null },
    { type: "jobs", jobs: [] },
  ]);
});

test("rows of all queues come once, and then only those that changed", async () => {
  const { url, port } = await startDashboard();
  await port.add(["a", "b", "c"].map((queue) => ({ queue, data: "1" })));
  const { next } = await openLive(url, "?queues=true");
  const all = await next("queues");
  expect(all.reset).toBe(true);
  expect(all.rows.map(({ name }) => name)).toEqual(["a", "b", "c"]);
  expect(all.rows[0]).toMatchObject({ paused: false, workers: 0, depth: { ready: 1 }, spark: [] });
  await port.pause("b", true);
  const changed = await next("queues", ({ rows }) => rows.some(({ paused }) => paused));
  expect(changed.reset).toBeUndefined();
  expect(changed.rows.filter(({ paused }) => paused).map(({ name }) => name)).toEqual(["b"]);
  await port.drop("c");
  expect((await next("queues", ({ removed }) => removed !== undefined)).removed).toEqual(["c"]);
});

test("the picture begins with the line in the order of claims, and its workers", async () => {
  const { url, port } = await startDashboard();
  const added = await port.add([
    { queue: "emails", data: "1" },
    { queue: "emails", data: "2", priority: 5 },
  ]);
  await port.join(worker("w1", "emails"), 30_000, () => {});
  const { next } = await openLive(url, "?queue=emails");
  const state = await next("queue");
  expect(state.line).toEqual([
    [added[1]!.id, 1],
    [added[0]!.id, 1],
  ]);
  expect(state.workers).toMatchObject([{ id: "w1", state: "idle", running: [], donePerSecond: 0 }]);
  expect(state.advice.verdict).toBe("contended");
  expect(state.policy.maxAttempts).toBe(5);
});

test("moves follow the events of the queue in their order, and of no other queue", async () => {
  const { url, port } = await startDashboard();
  await port.declare("emails", {});
  const { next } = await openLive(url, "?queue=emails");
  await next("queue");
  await port.add([{ queue: "other", data: "1" }]);
  const [task] = await port.add([{ queue: "emails", data: "1", maxAttempts: 2 }]);
  for (const kind of ["nack", "nack"] as const) {
    const claim = await claimOne(port, "emails");
    await port.settle(claim, { kind, error: { name: "E", message: "m", stack: null }, delay: 0 });
  }
  const moves: string[] = [];
  while (moves.at(-1) !== "dead") {
    const frame = await next("moves");
    for (const [kind, id] of frame.moves) {
      expect(id).toBe(task!.id);
      moves.push(kind);
    }
  }
  expect(moves).toEqual(["added", "claimed", "failed", "claimed", "dead"]);
});

test("above the bound of moves, a frame has counts by worker instead", async () => {
  const { url, port } = await startDashboard();
  await port.declare("emails", {});
  const { next } = await openLive(url, "?queue=emails");
  await next("queue");
  await port.add(Array.from({ length: 500 }, () => ({ queue: "emails", data: "1" })));
  const frame = await next("moves", ({ counts }) => counts.added > 60);
  expect(frame.moves).toEqual([]);
  await port.claim({ queues: ["emails"], max: 500, worker: "w1", wait: 0 });
  const claimed = await next("moves", ({ counts }) => counts.claimed > 60);
  expect(claimed.workers).toEqual([["w1", claimed.counts.claimed, 0, 0]]);
});

test("the line of a long queue has its first 64 tasks", async () => {
  const { url, port } = await startDashboard();
  await port.add(Array.from({ length: 401 }, () => ({ queue: "emails", data: "1" })));
  const { next } = await openLive(url, "?queue=emails");
  expect((await next("queue")).line).toHaveLength(64);
});

test("a worker that is lost stays in the picture as lost", async () => {
  const { url, port } = await startDashboard();
  await port.add([{ queue: "emails", data: "1" }]);
  const session = await port.join(worker("w1", "emails"), 30_000, () => {});
  await port.claim({ queues: ["emails"], max: 1, worker: "w1", session, wait: 0 });
  const { next } = await openLive(url, "?queue=emails");
  expect((await next("queue")).workers).toMatchObject([{ state: "busy", running: [{ attempt: 1 }] }]);
  await port.leave(session, { lost: true });
  const { moves } = await next("moves", (frame) => frame.moves.some(([kind]) => kind === "lost"));
  expect(moves.find(([kind]) => kind === "lost")?.[2]).toBe("w1");
  const lost = await next("queue", ({ workers }) => workers.some(({ state }) => state === "lost"));
  expect(lost.workers.map(({ id }) => id)).toEqual(["w1"]);
});

test("a queue that does not exist is reported, and its picture begins when it is created", async () => {
  const { url, port } = await startDashboard();
  const { next } = await openLive(url, "?queue=later");
  expect((await next("noQueue")).queue).toBe("later");
  await port.add([{ queue: "later", data: "1" }]);
  expect((await next("queue")).stats.depth.ready).toBe(1);
});

test("a token sees only its queues: rows, totals and pictures", async () => {
  const { access, tokens } = makeTokens();
  const { token } = tokens.add("reader", ["read:shop.*"]);
  const { url, port } = await startDashboard({ access });
  await port.add(["shop.a", "secret"].map((queue) => ({ queue, data: "1" })));
  const { next } = await openLive(url, "?queues=true", token);
  expect((await next("totals")).queues).toBe(1);
  expect((await next("queues")).rows.map(({ name }) => name)).toEqual(["shop.a"]);
  const refused = await openLive(url, "?queue=secret", token);
  expect(refused.response.status).toBe(403);
});

test("a revoked token ends its stream", async () => {
  const { access, tokens } = makeTokens();
  const { token } = tokens.add("reader", ["read:*"]);
  tokens.add("other", ["read:*"]);
  const { url } = await startDashboard({ access });
  const { frames, next } = await openLive(url, "", token);
  await next("totals");
  tokens.revoke("reader");
  await expect(
    (async () => {
      for await (const _ of frames);
    })().catch(() => "cut"),
  ).resolves.toBeOneOf(["cut", undefined]);
});

test("a page that joins later gets a snapshot of the same picture", async () => {
  const { url, port } = await startDashboard();
  await port.add([{ queue: "emails", data: "1" }]);
  const first = await openLive(url, "?queue=emails");
  await first.next("queue");
  const second = await openLive(url, "?queue=emails");
  expect((await second.next("queue")).line).toHaveLength(1);
  first.close();
  await port.add([{ queue: "emails", data: "2" }]);
  expect((await second.next("moves")).counts.added).toBe(1);
});

test("unknown parameters of the live feed are refused", async () => {
  const { url } = await startDashboard();
  for (const query of ["?view=queue", "?queues=yes"])
    expect((await openLive(url, query)).response.status).toBe(400);
});
