import { expect, test } from "vitest";
import type { Port } from "../../src/core/port.ts";
import { callerOf, makeTokens, openLive, startDashboard } from "./kit.ts";

const BOOM = { name: "Boom", message: "timeout after 3 s", stack: null };

async function makeDead(port: Port, queue: string, count: number, message = BOOM.message): Promise<string[]> {
  await port.add(Array.from({ length: count }, (_, at) => ({ queue, data: JSON.stringify({ at }) })));
  const { tasks } = await port.claim({ queues: [queue], max: count, worker: "w", wait: 0 });
  await Promise.all(tasks.map((task) => port.settle(task, { kind: "reject", error: { ...BOOM, message } })));
  return tasks.map(({ id }) => id);
}

test("me says who the caller is and what it may do", async () => {
  const { call } = await startDashboard();
  expect(await call("GET", "v1/me")).toMatchObject({
    status: 200,
    body: { signIn: false, name: null, scopes: ["admin:*"], version: "1.2.3", store: "work.db", demo: false },
  });
});

test("me answers a caller without a token only that one is needed", async () => {
  const { access, tokens } = makeTokens();
  const { token } = tokens.add("ada", ["read:shop.*"]);
  const { url } = await startDashboard({ access });
  const stranger = await callerOf(url)("GET", "v1/me");
  expect(stranger.body).toMatchObject({ signIn: true, name: null, scopes: [], store: null, engine: null });
  expect(await callerOf(url, "wrong")("GET", "v1/me")).toMatchObject({ status: 401 });
  expect((await callerOf(url)("GET", "v1/jobs")).status).toBe(401);
  const known = await callerOf(url, token)("GET", "v1/me");
  expect(known.body).toMatchObject({ signIn: false, name: "ada", scopes: ["read:shop.*"], demo: false });
  // Only tokens that may read everything learn where the store is.
  expect(known.body.store).toBeNull();
  const all = await callerOf(url, tokens.add("eve", ["read:*"]).token)("GET", "v1/me");
  expect(all.body.store).toBe("work.db");
});

test("a preview of a policy says what each change does, and changes nothing", async () => {
  const { call, port } = await startDashboard();
  await port.add(Array.from({ length: 3 }, () => ({ queue: "emails", data: "1" })));
  const { body } = await call("POST", "v1/queues/emails/preview", {
    maxDepth: 2,
    lease: "10s",
    maxAttempts: 5,
  });
  expect(body.changes.map(({ field }: { field: string }) => field)).toEqual(["lease", "maxDepth"]);
  expect(body.changes[1]).toMatchObject({ from: null, to: 2 });
  expect(body.changes[1].effect).toBe("Adds are refused from now on: 3 tasks wait already. Those stay.");
  expect(body.after.lease).toBe(10_000);
  expect((await port.queues({ queue: "emails" })).items[0]!.policy.maxDepth).toBeNull();
  expect((await call("POST", "v1/queues/emails/preview", { maxDepth: -1 })).body.code).toBe("INVALID");
  const groups = await call("POST", "v1/queues/emails/preview", {
    groups: { concurrency: 5, fair: true, weight: { acme: 3 } },
  });
  expect(groups.body.changes[0].effect).toContain("acme gets 3 turns where others get one");
});

test("dead letters of all queues are grouped by pattern, the most frequent first", async () => {
  const { call, port } = await startDashboard();
  await makeDead(port, "a", 2, "first kind");
  await makeDead(port, "b", 3, "second kind");
  const { body } = await call("GET", "v1/dead");
  expect(body.total).toBe(5);
  expect(body.groups.map(({ queue, count }: { queue: string; count: number }) => [queue, count])).toEqual([
    ["b", 3],
    ["a", 2],
  ]);
  expect(body.queues).toEqual([
    { queue: "b", dead: 3 },
    { queue: "a", dead: 2 },
  ]);
});

test("a bulk redrive of a pattern redrives what matches, with progress, and only once", async () => {
  const { call, port, url } = await startDashboard();
  await makeDead(port, "emails", 450, "first kind");
  await makeDead(port, "emails", 5, "second kind");
  const { groups } = (await call("GET", "v1/dead")).body;
  const started = await call("POST", "v1/jobs", {
    action: "redrive",
    queue: "emails",
    pattern: groups[0].pattern,
  });
  expect(started).toMatchObject({ status: 201, body: { state: "running", total: 450, by: "everybody" } });
  const { next } = await openLive(url);
  const { jobs } = await next("jobs", (frame) => frame.jobs[0]!.state !== "running");
  expect(jobs[0]).toMatchObject({ state: "finished", done: 450, skipped: 0 });
  expect((await port.stats("emails")).depth).toMatchObject({ ready: 450, dead: 5 });
  expect((await call("GET", "v1/audit")).body.entries[0]).toMatchObject({
    ...{ by: "everybody", verb: "redrive in bulk", queue: "emails" },
  });
});

test("a bulk job at a rate can be stopped halfway, and what it did stays", async () => {
  const { call, port } = await startDashboard();
  await makeDead(port, "emails", 100);
  const { body: job } = await call("POST", "v1/jobs", { action: "redrive", queue: "emails", rate: 20 });
  const stopped = await call("POST", `v1/jobs/${job.id}/stop`);
  expect(stopped.body).toMatchObject({ state: "stopped", total: 100 });
  const { dead, ready } = (await port.stats("emails")).depth;
  expect(dead).toBeGreaterThan(0);
  expect(ready).toBe(stopped.body.done);
  expect((await call("GET", `v1/jobs/${job.id}`)).body.endedAt).not.toBeNull();
  expect((await call("GET", "v1/jobs/unknown")).status).toBe(404);
});

test("a bulk cancel of a search cancels the pending tasks that it finds", async () => {
  const { call, port, url } = await startDashboard();
  await port.add(["ada", "bob", "ada"].map((to) => ({ queue: "emails", data: JSON.stringify({ to }) })));
  await call("POST", "v1/jobs", { action: "cancel", q: "ada" });
  const { next } = await openLive(url);
  const { jobs } = await next("jobs", (frame) => frame.jobs[0]!.state !== "running");
  expect(jobs[0]).toMatchObject({ state: "finished", done: 2, total: null });
  expect((await port.stats("emails")).depth).toMatchObject({ ready: 1, cancelled: 2 });
});

test("a bulk discard and a bulk retry act on the ids that are given", async () => {
  const { call, port, url } = await startDashboard();
  const ids = await makeDead(port, "emails", 3);
  await call("POST", "v1/jobs", { action: "discard", queue: "emails", ids: ids.slice(0, 1) });
  await call("POST", "v1/jobs", { action: "retry", queue: "emails", ids: ids.slice(0, 2) });
  const { next } = await openLive(url);
  const { jobs } = await next("jobs", (frame) => frame.jobs.every(({ state }) => state !== "running"));
  expect(jobs.map(({ action, done, skipped }) => [action, done, skipped])).toEqual([
    ["retry", 1, 1],
    ["discard", 1, 0],
  ]);
});

test("jobs that select in two ways, or nothing, are refused", async () => {
  const { call } = await startDashboard();
  for (const job of [
    { action: "redrive" },
    { action: "redrive", queue: "a", q: "x", pattern: "y" },
    { action: "cancel", queue: "a", pattern: "y" },
    { action: "redrive", queue: "a", rate: 0 },
    { action: "explode", queue: "a" },
  ])
    expect((await call("POST", "v1/jobs", job)).body.code).toBe("INVALID");
});

test("jobs need admin on their queue, and other tokens do not see them", async () => {
  const { access, tokens } = makeTokens();
  const shop = tokens.add("shop", ["admin:shop"]).token;
  const reader = tokens.add("reader", ["read:*"]).token;
  const other = tokens.add("other", ["admin:other"]).token;
  const { port, url } = await startDashboard({ access });
  await makeDead(port, "shop", 10);
  const job = { action: "redrive", queue: "shop", rate: 2 };
  expect((await callerOf(url, reader)("POST", "v1/jobs", job)).body.code).toBe("FORBIDDEN");
  const started = await callerOf(url, shop)("POST", "v1/jobs", job);
  expect(started.status).toBe(201);
  const stop = `v1/jobs/${started.body.id}/stop`;
  expect((await callerOf(url, other)("GET", "v1/jobs")).body.jobs).toEqual([]);
  expect((await callerOf(url, other)("POST", stop)).status).toBe(404);
  expect((await callerOf(url, reader)("GET", "v1/jobs")).body.jobs).toHaveLength(1);
  expect((await callerOf(url, reader)("POST", stop)).status).toBe(403);
  expect((await callerOf(url, shop)("POST", stop)).body.state).toBe("stopped");
});

test("a job ends when its token is revoked", async () => {
  const { access, tokens } = makeTokens();
  const { token } = tokens.add("shop", ["admin:shop"]);
  const reader = tokens.add("reader", ["read:*"]).token;
  const { port, url } = await startDashboard({ access });
  await makeDead(port, "shop", 100);
  await callerOf(url, token)("POST", "v1/jobs", { action: "redrive", queue: "shop", rate: 20 });
  tokens.revoke("shop");
  const { next } = await openLive(url, "", reader);
  const { jobs } = await next("jobs", (frame) => frame.jobs[0]!.state !== "running");
  expect(jobs[0]).toMatchObject({ state: "failed", error: "The token that started it was revoked." });
});

test("the audit list is for administrators of all queues, the newest first, page by page", async () => {
  const { access, tokens } = makeTokens();
  const admin = tokens.add("root", ["admin:*"]).token;
  const shop = tokens.add("shop", ["admin:shop"]).token;
  const { url } = await startDashboard({ access });
  await callerOf(url, shop)("POST", "v1/queues/shop/pause");
  await callerOf(url, shop)("POST", "v1/queues/shop/resume");
  expect((await callerOf(url, shop)("GET", "v1/audit")).status).toBe(403);
  const first = await callerOf(url, admin)("GET", "v1/audit?limit=1");
  expect(first.body.entries).toMatchObject([{ by: "shop", verb: "resume", queue: "shop" }]);
  const second = await callerOf(url, admin)("GET", `v1/audit?limit=1&after=${first.body.next}`);
  expect(second.body).toMatchObject({ entries: [{ verb: "pause" }], next: null });
});

test("the states of alerts are those that their process has stored", async () => {
  const { call, port } = await startDashboard();
  expect((await call("GET", "v1/alerts/states")).body).toEqual({ running: false, rules: [], states: [] });
  const rule = { queue: "*", when: "depth", above: 5, clear: 4, for: 0 };
  const states = { "my queue depth": { raised: true, since: null } };
  await port.supervise({
    ...{ kind: "alerts", name: "alerts", holder: "h", host: "h", pid: 1, queues: ["q"], lease: 60_000 },
    report: JSON.stringify({ rules: [rule], states }),
  });
  expect((await call("GET", "v1/alerts/states")).body).toEqual({
    running: true,
    rules: [rule],
    states: [{ queue: "my queue", when: "depth", raised: true, since: null }],
  });
});

test("a server without a demo says so", async () => {
  const { call } = await startDashboard();
  expect((await call("GET", "v1/demo")).body.code).toBe("UNSUPPORTED");
});
