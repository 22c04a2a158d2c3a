// The verbs that look at a store and change it, on each kind of store. Their --json shapes are pinned here.

import { describe, expect, test } from "vitest";
import { EXIT } from "../../src/cli/exit.ts";
import { Reject } from "../../src/index.ts";
import { dibs, dibsJson } from "./run-dibs.ts";
import { KINDS, storeOf, type TestStore } from "./store-of.ts";

const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
const ID = expect.stringMatching(/^[0-9a-f-]{36}$/);

/** The fields of a task with their types, as every verb prints it. */
const task = (over: object): object => ({
  ...{ id: ID, queue: "emails", state: "ready", data: null, contentType: "application/json", headers: {} },
  ...{
    priority: 0,
    groupKey: null,
    idempotencyKey: null,
    cost: 1,
    urgent: false,
    attempt: 1,
    maxAttempts: 5,
  },
  ...{ createdAt: TIME, dueAt: null, waitsFor: null, expiresAt: null, worker: null, startedAt: null },
  ...{ endedAt: null, progress: null, cancelRequested: false, result: null, error: null, run: null },
  log: [],
  ...over,
});

/** All at once: each only reads, or is refused. */
async function expectRefusals(
  folder: string,
  code: number,
  cases: readonly (readonly [args: readonly string[], words: string])[],
): Promise<void> {
  const found = await Promise.all(cases.map(async ([args]) => [args, await dibs(folder, [...args])]));
  expect(found).toEqual(
    cases.map(([args, words]) => [args, { code, stdout: "", stderr: expect.stringContaining(words) }]),
  );
}

const json = ({ folder, flags }: TestStore, ...args: string[]): Promise<unknown> =>
  dibsJson(folder, ...args, ...flags);

async function killAll({ dibs: store }: TestStore, queue: string, message: string): Promise<void> {
  for (const claim of await store.queue(queue).claim({ max: 100, worker: "w" }))
    await claim.reject(new Error(`${message} ${String(claim.data)}`));
}

describe.each(KINDS)("on a %s", (kind) => {
  test("dibs queue shows, changes, pauses, purges and deletes a queue", async () => {
    const store = await storeOf(kind);
    await store.dibs.queue("emails").addMany([{ data: 1 }, { data: 2 }]);
    expect(await json(store, "queue", "show", "emails")).toEqual({
      ...{ queue: "emails", paused: false, createdAt: TIME },
      policy: expect.objectContaining({ lease: 30_000, maxAttempts: 5 }),
      stats: expect.objectContaining({ queue: "emails", depth: expect.objectContaining({ ready: 2 }) }),
    });
    expect(
      await json(store, "queue", "set", "emails", "lease=40s", "backoff.delay=2s", "rateLimit=10/1s"),
    ).toEqual({
      queue: "emails",
      policy: expect.objectContaining({
        ...{ lease: 40_000, backoff: { type: "exponential", delay: 2_000, max: 600_000, jitter: 0.2 } },
        rateLimit: [{ max: 10, per: 1_000, pace: false, unit: null }],
      }),
    });
    expect(await json(store, "queue", "pause", "emails")).toEqual({ queue: "emails", paused: true });
    expect((await store.dibs.queue("emails").stats()).paused).toBe(true);
    expect(await json(store, "queue", "resume", "emails")).toEqual({ queue: "emails", paused: false });
    expect(await json(store, "queue", "purge", "emails", "--dry-run")).toEqual({
      ...{ queue: "emails", purged: 2, dryRun: true },
    });
    expect(await json(store, "queue", "purge", "emails", "--yes")).toEqual({ queue: "emails", purged: 2 });
    expect(await json(store, "queue", "delete", "emails", "--yes")).toEqual({
      queue: "emails",
      deleted: true,
    });
    expect(await store.dibs.queues()).toEqual([]);
  });

  test("dibs tasks and dibs task find, show, cancel, signal and retry tasks", async () => {
    const store = await storeOf(kind);
    const emails = store.dibs.queue("emails");
    const [first, second, delayed] = await emails.addMany([
      { data: { to: "ada" }, idempotencyKey: "k-1" },
      { data: 2, groupKey: "g" },
      { data: 3, delay: "1h", maxAttempts: 1 },
    ]);
    const [claim] = await emails.claim({ worker: "w" });
    await claim!.nack(new Error("SMTP says 421"), { delay: "1h" });
    expect(await json(store, "tasks", "emails", "--group", "g")).toEqual({
      ...{ tasks: [task({ id: second!.id, data: 2, groupKey: "g" })], next: null },
    });
    expect(await json(store, "tasks", "emails", "--key", "k-1")).toMatchObject({
      ...{ tasks: [{ id: first!.id }], next: null },
    });
    expect(await json(store, "tasks", "emails", "--header", "kind=none")).toEqual({ tasks: [], next: null });
    expect(await json(store, "tasks", "emails", "--error", "smtp")).toMatchObject({
      ...{ tasks: [{ id: first!.id, state: "scheduled" }], next: null },
    });
    const page = (await json(store, "tasks", "emails", "--limit", "2")) as { tasks: object[]; next: string };
    const rest = (await json(store, "tasks", "emails", "--limit", "2", "--after", page.next)) as typeof page;
    expect([...page.tasks, ...rest.tasks]).toHaveLength(3);
    expect(rest.next).toBeNull();
    expect(await json(store, "tasks", "emails", "--older-than", "1d")).toEqual({ tasks: [], next: null });
    expect(await json(store, "task", "show", first!.id)).toEqual({
      ...task({ id: first!.id, data: { to: "ada" }, state: "scheduled", attempt: 2 }),
      ...{ dueAt: TIME, idempotencyKey: "k-1" },
      attempts: [
        {
          ...{ attempt: 1, fence: expect.any(Number), worker: "w", startedAt: TIME, endedAt: TIME },
          ...{
            outcome: "failed",
            error: expect.objectContaining({ name: "Error", message: "SMTP says 421" }),
            log: [],
          },
        },
      ],
    });
    expect(await json(store, "task", "signal", delayed!.id, "go", '{"by":"me"}')).toEqual({
      ...{ id: delayed!.id, signal: "go", stored: true },
    });
    expect(await json(store, "task", "cancel", delayed!.id, "--yes")).toEqual({
      ...{ id: delayed!.id, state: "cancelled" },
    });
    expect(await json(store, "task", "retry", delayed!.id)).toEqual({
      ...{ id: delayed!.id, queue: "emails", redriven: true },
    });
    const again = await dibs(store.folder, ["task", "retry", delayed!.id, ...store.flags]);
    expect(again).toMatchObject({ code: EXIT.failed, stderr: expect.stringContaining("is ready") });
    const update = [
      "task",
      "update",
      delayed!.id,
      "--priority",
      "-5",
      "--delay",
      "1h",
      "--data",
      '{"to":"x"}',
    ];
    expect(await json(store, ...update)).toEqual({ id: delayed!.id, state: "scheduled" });
    expect(await emails.tasks({ state: "scheduled" })).toMatchObject({
      tasks: expect.arrayContaining([
        expect.objectContaining({ id: delayed!.id, priority: -5, data: { to: "x" } }),
      ]),
    });
    expect(await json(store, "task", "promote", delayed!.id)).toEqual({ id: delayed!.id, state: "ready" });
    const [other] = await emails.claim();
    await other!.reject(new Reject("no"));
    expect(await json(store, "task", "retry", other!.id)).toEqual({
      ...{ id: other!.id, queue: "emails", redriven: true },
    });
  });

  test("dibs change cancels, promotes and changes all tasks that match", async () => {
    const store = await storeOf(kind);
    await store.dibs.queue("emails").addMany([
      { data: 1, headers: { tenant: "a" } },
      { data: 2, headers: { tenant: "b" } },
      { data: 3, headers: { tenant: "a" }, delay: "1h" },
    ]);
    const of = ["change", "emails", "--header", "tenant=a"];
    expect(await json(store, ...of, "--promote", "--dry-run")).toEqual({
      ...{ queue: "emails", changed: 1, skipped: 0, searched: 1, dryRun: true },
    });
    expect(await json(store, ...of, "--promote", "--yes")).toMatchObject({ changed: 1 });
    expect(await json(store, ...of, "--priority", "7", "--yes")).toMatchObject({ changed: 2, skipped: 0 });
    expect(await json(store, ...of, "--priority", "7", "--yes")).toMatchObject({ changed: 0, skipped: 2 });
    expect(await json(store, ...of, "--cancel", "--yes")).toMatchObject({ changed: 2 });
    expect(await json(store, ...of, "--run-again", "--state", "cancelled", "--yes")).toMatchObject({
      ...{ changed: 2, skipped: 0 },
    });
    const both = await dibs(store.folder, [...of, "--cancel", "--promote", "--yes", ...store.flags]);
    expect(both).toMatchObject({ code: EXIT.usage, stderr: expect.stringContaining("one change") });
  });

  test("dibs dead lists, groups, shows, exports, redrives and discards dead letters", async () => {
    const store = await storeOf(kind);
    await store.dibs.queue("emails").addMany([{ data: 1 }, { data: 2 }, { data: 3 }]);
    await killAll(store, "emails", "no route to host");
    const dead = task({
      ...{ state: "dead", data: 1, worker: "w", startedAt: TIME, endedAt: TIME },
      error: expect.objectContaining({ message: "no route to host 1" }),
    });
    expect(await json(store, "dead", "ls", "emails", "--error", "host 1")).toEqual({
      tasks: [dead],
      next: null,
    });
    expect(await json(store, "dead", "show", "emails")).toEqual({ ...dead, attempts: [expect.anything()] });
    const patterns = (await json(store, "dead", "patterns", "emails")) as { pattern: string }[];
    expect(patterns).toEqual([
      {
        ...{ pattern: expect.any(String), count: 3, share: 1, firstAt: TIME, lastAt: TIME },
        sample: { id: ID, error: expect.objectContaining({ message: "no route to host 3" }) },
      },
    ]);
    const exported = await dibs(store.folder, ["dead", "export", "emails", ...store.flags]);
    expect(exported.stderr).toBe("Exported 3 dead letters of emails.\n");
    expect(JSON.parse(exported.stdout.split("\n")[0]!)).toEqual(dead);
    const pattern = ["--pattern", patterns[0]!.pattern];
    expect(await json(store, "dead", "redrive", "emails", ...pattern, "--dry-run")).toEqual({
      ...{ queue: "emails", redriven: 3, dryRun: true },
    });
    expect(await json(store, "dead", "redrive", "emails", "--error", "host 2", "--rate", "1/1s")).toEqual({
      ...{ queue: "emails", redriven: 1 },
    });
    expect(await json(store, "dead", "discard", "emails", "--all", "--yes")).toEqual({
      ...{ queue: "emails", discarded: 2 },
    });
  });

  test("dibs topics, schedules, pipelines and workers list what there is", async () => {
    const store = await storeOf(kind);
    const { dibs: library } = store;
    await library.subscription("order.*", "audit").ready;
    await library.schedule("nightly", { every: "1h" }, { queue: "reports", data: { full: true } }).ready;
    const report = library
      .pipeline("report")
      .stage("read", () => 1)
      .stage("write", () => 2);
    const worker = report.work({ stages: ["read"] });
    await worker.ready;
    const subscription = { pattern: "order.*", group: "audit", queue: expect.any(String), createdAt: TIME };
    expect(await json(store, "topics")).toEqual([subscription]);
    expect(await json(store, "topics", "order.placed")).toEqual([subscription]);
    const schedule = {
      ...{ name: "nightly", cron: null, tz: null, every: 3_600_000, missed: "once", paused: false },
      ...{ queue: "reports", next: Array(5).fill(TIME), lastAt: null, createdAt: TIME, error: null },
      ...{ until: null, limit: null, jitter: null, fired: 0, ended: false },
    };
    expect(await json(store, "schedules")).toEqual([schedule]);
    expect(await json(store, "schedules", "pause", "nightly")).toEqual({ schedule: "nightly", paused: true });
    expect(await json(store, "schedules", "ls")).toEqual([{ ...schedule, paused: true, next: [] }]);
    expect(await json(store, "schedules", "resume", "nightly")).toEqual({
      schedule: "nightly",
      paused: false,
    });
    expect(await json(store, "schedules", "fire", "nightly")).toEqual({
      ...{ schedule: "nightly", id: ID, queue: "reports" },
    });
    expect(await json(store, "schedules", "delete", "nightly", "--yes")).toEqual({
      ...{ schedule: "nightly", deleted: true },
    });
    expect(await json(store, "pipelines")).toEqual([
      {
        name: "report",
        stages: [
          { name: "read", joins: false },
          { name: "write", joins: false },
        ],
      },
    ]);
    expect(await json(store, "workers")).toEqual([
      {
        ...{ id: expect.any(String), name: expect.any(String), queues: ["report/read"], concurrency: 1 },
        ...{
          host: expect.any(String),
          pid: process.pid,
          joinedAt: TIME,
          silentFor: expect.any(Number),
          claims: 0,
        },
      },
    ]);
    await worker.stop();
  });

  test("dibs runs and dibs run list, show and cancel the runs of a pipeline", async () => {
    const store = await storeOf(kind);
    const report = store.dibs
      .pipeline("report")
      .stage("read", () => 1)
      .stage("write", () => 2);
    const first = await report.add(1);
    const second = await report.add(2);
    const stages = ["read", "write"].map((name) => ({ name, joins: false }));
    const run = { pipeline: "report", stages, state: "running", createdAt: TIME, endedAt: null };
    const page = { runs: [{ id: second.id, ...run }], next: expect.any(Number) };
    expect(await json(store, "runs", "report", "--limit", "1")).toEqual(page);
    expect(await json(store, "runs", "report")).toEqual({
      ...{
        runs: [
          { id: second.id, ...run },
          { id: first.id, ...run },
        ],
        next: null,
      },
    });
    const part = { id: first.id, part: [], state: "ready", createdAt: TIME, startedAt: null, endedAt: null };
    const times = { startedAt: null, endedAt: null };
    expect(await json(store, "run", "show", first.id)).toEqual({
      ...{ id: first.id, ...run },
      stages: [
        { ...stages[0], state: "running", ...times, parts: [part] },
        { ...stages[1], state: "pending", ...times, parts: [] },
      ],
    });
    expect(await json(store, "run", "signal", first.id, "go", "1")).toEqual({
      ...{ id: first.id, signal: "go", stored: true },
    });
    expect(await json(store, "run", "cancel", first.id, "--yes")).toEqual({
      ...{ id: first.id, state: "cancelled" },
    });
  });
});

test("a queue, task or schedule that does not exist is not found, with the nearest name", async () => {
  const { folder, dibs: library } = await storeOf("file");
  await library.queue("emails").add(1);
  await library.schedule("nightly", { every: "1h" }, { queue: "emails" }).ready;
  const id = "01980000-0000-7000-8000-000000000000";
  await expectRefusals(folder, EXIT["not found"], [
    [["queue", "show", "emial"], `no queue "emial". Did you mean "emails"?`],
    [["tasks", "mails"], `Did you mean "emails"?`],
    [["dead", "ls", "nothing-like-it"], `There is no queue "nothing-like-it". See dibs queues.`],
    [["task", "show", id], id],
    [["dead", "show", "emails", id], `emails has no dead letter "${id}".`],
    [["schedules", "pause", "nihgtly"], `Did you mean "nightly"?`],
    [["runs", "report"], `There is no pipeline "report"`],
    [["topics", "order.placed"], "a publish to it would add no task"],
  ]);
});

test("bad values are refused with what is allowed, before anything is changed", async () => {
  const { folder, dibs: library } = await storeOf("file");
  const { id } = await library.queue("emails").add(1);
  await expectRefusals(folder, EXIT.usage, [
    [["tasks", "emails", "--state", "redy"], `Did you mean "ready"?`],
    [["tasks", "emails", "--limit", "0"], "between 1 and 1000"],
    [["tasks", "emails", "--older-than", "soon"], "such as 90s"],
    [["tasks", "emails", "--after", "x"], "--after takes the cursor"],
    [["queue", "set", "emails", "leese=3"], `no field "leese". Did you mean "lease"?`],
    [["queue", "set", "emails", "lease"], "lease=30s"],
    [["queue", "set", "emails", "lease=-1"], "lease"],
    [["queue", "set", "emails", "backoff.dealy=1s"], `Did you mean "delay"?`],
    [["queue", "purge", "emails"], "confirm with --yes"],
    [["dead", "discard", "emails", "--yes"], "--all"],
    [["dead", "redrive", "emails", "--rate", "often"], "10/1s"],
    [["dead", "patterns", "emails", "--by", "x"], "header:NAME"],
    [["task", "signal", id, "go", "{"], "is not JSON"],
    [["schedules", "lst"], `Did you mean "ls"?`],
  ]);
  expect(await library.queue("emails").stats()).toMatchObject({ depth: { ready: 1 } });
});

test("payloads and errors with control characters are printed as the same JSON, without them", async () => {
  const store = await storeOf("file");
  // C1 controls begin a sequence in some terminals, and U+202E turns the text around. JSON escapes neither.
  const data = "\u001b[2J\u009b31m\u202e";
  await store.dibs.queue("emails").addMany([{ data }, { data, delay: "1h" }]);
  await killAll(store, "emails", "bad \u009b31m");
  for (const args of [
    ["tasks", "emails", "--json"],
    ["tasks", "emails"],
    ["dead", "ls", "emails"],
    ["dead", "patterns", "emails"],
    ["dead", "export", "emails"],
  ]) {
    const { code, stdout } = await dibs(store.folder, args);
    expect(code).toBe(EXIT.done);
    expect(stdout).not.toMatch(/(?!\n)\p{Cc}|\u202e/u);
    if (args.includes("export")) expect(JSON.parse(stdout)).toMatchObject({ state: "dead", data });
  }
});
