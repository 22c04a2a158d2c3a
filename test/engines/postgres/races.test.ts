import { expect, onTestFinished, test } from "vitest";
import type { AddedTask } from "../../../src/core/task.ts";
import type { ClaimOutcome, Engine, Op, Outcome } from "../../../src/engine/engine.ts";
import { openPostgres } from "../../../src/engines/postgres/engine.ts";
import { type Ground, ground, pauseIn, untilOneWaits } from "./kit.ts";

/** Two processes' engines, which do nothing by themselves. */
async function setUp(): Promise<{ place: Ground; here: Engine; there: Engine }> {
  const place = await ground();
  const make = async (): Promise<Engine> => {
    const engine = await openPostgres(place);
    onTestFinished(() => engine.close());
    return engine;
  };
  return { place, here: await make(), there: await make() };
}

async function ask<V extends Op["verb"]>(engine: Engine, op: Op<V>): Promise<unknown> {
  const [outcome] = (await engine.run([op])) as readonly Outcome[];
  if ("refused" in outcome!) throw new Error(outcome.refused.message);
  return outcome!.ok;
}

async function add(engine: Engine, count = 1, more: object = {}): Promise<string[]> {
  const tasks = Array.from({ length: count }, (_, n) => ({ queue: "work", data: String(n), ...more }));
  return ((await ask(engine, { verb: "add", tasks })) as { id: string }[]).map(({ id }) => id);
}

async function claim(engine: Engine, worker = "w", max = 10): Promise<ClaimOutcome> {
  return (await ask(engine, { verb: "claim", queues: ["work"], max, worker, lease: 60_000 })) as ClaimOutcome;
}

const signal = (id: string) => ({ verb: "signal", id, name: "go", value: null }) as const;
const done = ({ id, fence }: { id: string; fence: number }) =>
  ({ verb: "settle", id, fence, settlement: { kind: "done", result: null } }) as const;
const fail = ({ id, fence }: { id: string; fence: number }, delay = 0) => {
  const error = { name: "Error", message: "no", stack: null };
  return { verb: "settle", id, fence, settlement: { kind: "fail", error, delay } } as const;
};

/** The queue is known to both, and nothing is in it. */
async function warmUp(...engines: Engine[]): Promise<void> {
  for (const engine of engines) {
    await add(engine);
    const { tasks } = await claim(engine);
    await engine.run(tasks.map(done));
  }
}

test("a task is claimed once, also where it gets a signal while a claim has found it and not yet taken it", async () => {
  const { place, here, there } = await setUp();
  await warmUp(here, there);
  const [first, second] = await add(here, 2);
  const pause = await pauseIn(place, "WITH moment");
  const claiming = claim(here);
  await pause.reached();
  expect(await ask(there, signal(first!))).toEqual({ kept: true, state: "ready" });
  await pause.goOn();
  const tasks = [...(await claiming).tasks, ...(await claim(here)).tasks];
  expect(tasks.map(({ id }) => id)).toEqual([second, first]);
  expect(tasks[1]).toMatchObject({ stepped: true });
  await here.run(tasks.map(done));
  expect(await ask(here, { verb: "stats", queue: "work" })).toMatchObject({
    depth: { ready: 0, claimed: 0, done: 4 },
  });
});

test("a retried task keeps the signal that it gets while a claim has found it and not yet taken it", async () => {
  const { place, here, there } = await setUp();
  await ask(here, { verb: "declare", queue: "work", policy: { elsewhere: 60_000 } });
  for (const name of ["w", "other"]) {
    const worker = { id: name, name, queues: ["work"], concurrency: 1, host: "h", pid: 1 };
    await ask(here, { verb: "join", worker, lease: 600_000 });
  }
  const [id] = await add(here);
  await here.run((await claim(here)).tasks.map((task) => fail(task)));
  const pause = await pauseIn(place, "special, avoid FROM");
  const claiming = claim(here, "other");
  await pause.reached();
  expect(await ask(there, signal(id!))).toEqual({ kept: true, state: "ready" });
  await pause.goOn();
  const tasks = [...(await claiming).tasks, ...(await claim(here, "other")).tasks];
  expect(tasks).toMatchObject([{ id, attempt: 2, stepped: true }]);
});

test("a task keeps the signal that it gets while it becomes due", async () => {
  const { place, here, there } = await setUp();
  await warmUp(here, there);
  const [id] = await add(here);
  await here.run((await claim(here)).tasks.map((task) => fail(task, 1)));
  const pause = await pauseIn(place, "holds_group%FOR UPDATE OF scheduled");
  const claiming = claim(here);
  await pause.reached();
  expect(await ask(there, signal(id!))).toEqual({ kept: true, state: "scheduled" });
  await pause.goOn();
  const tasks = [...(await claiming).tasks, ...(await claim(here)).tasks];
  expect(tasks).toMatchObject([{ id, attempt: 2, stepped: true }]);
});

test("of what a claim found and left in line others are told: they have passed it over meanwhile", async () => {
  const { here } = await setUp();
  await ask(here, { verb: "declare", queue: "work", policy: { elsewhere: 60_000 } });
  for (const name of ["w", "other"]) {
    const worker = { id: name, name, queues: ["work"], concurrency: 1, host: "h", pid: 1 };
    await ask(here, { verb: "join", worker, lease: 600_000 });
  }
  await add(here, 3);
  await here.run((await claim(here)).tasks.map((task) => fail(task)));
  const hints: unknown[] = [];
  here.onHint((hint) => hints.push(hint.ready));
  expect((await claim(here, "other", 1)).tasks).toHaveLength(1);
  expect(hints).toContainEqual({ work: 2 });
});

test("a task that another's transaction has just brought can be cancelled and gets signals", async () => {
  const { place, here, there } = await setUp();
  await warmUp(here, there);
  for (const [verb, outcome] of [
    ["cancel", { state: "cancelled" }],
    ["signal", { kept: true, state: "ready" }],
  ] as const) {
    await add(here);
    const [held] = (await claim(here)).tasks;
    const client = await place.client();
    await client.query("BEGIN");
    await client.query(`SELECT 1 FROM ${place.schema}.claim FOR UPDATE`);
    const added = await there.runWithin!(client, { verb: "add", tasks: [{ queue: "work", data: "0" }] });
    const { id } = (added as { ok: AddedTask[] }).ok[0]!;
    // It has begun before that commit, and comes to the task after it.
    const op = verb === "cancel" ? ({ verb, id } as const) : signal(id);
    const running = here.run([
      { verb: "progress", id: held!.id, fence: held!.fence, value: 0.5, note: null },
      op,
    ]);
    await untilOneWaits(client, place.schema);
    await client.query("COMMIT");
    expect((await running)[1]).toEqual({ ok: outcome });
    await here.run([...(await claim(here)).tasks, held!].map(done));
  }
});

test("a queue is dropped with all that others' transactions have brought, and have not been taken up", async () => {
  const { place, here, there } = await setUp();
  await warmUp(here, there);
  const client = await place.client();
  await client.query("BEGIN");
  const tasks = Array.from({ length: 1_500 }, () => ({ queue: "work", data: "0" }));
  await there.runWithin!(client, { verb: "add", tasks });
  await client.query("COMMIT");
  expect(await ask(here, { verb: "drop", queue: "work", limit: 2_000 })).toEqual({
    removed: 1_502,
    more: false,
  });
  const { rows } = await client.query(`SELECT count(*)::int4 AS count FROM ${place.schema}.task`);
  expect(rows).toEqual([{ count: 0 }]);
});

test(
  "and with what one brought whose numbers are older than where the drop was looking",
  { timeout: 60_000 },
  async () => {
    const { place, here, there } = await setUp();
    await warmUp(here, there);
    const client = await place.client();
    await client.query("BEGIN");
    await there.runWithin!(client, { verb: "add", tasks: [{ queue: "work", data: "0", delay: 600_000 }] });
    const others = Array.from({ length: 10_000 }, () => ({ queue: "other", data: "0" }));
    for (let i = 0; i < 6; i++) await ask(here, { verb: "add", tasks: others });
    const drop = { verb: "drop", queue: "work", limit: 2_000 } as const;
    expect(await ask(here, drop)).toMatchObject({ more: true });
    await client.query("COMMIT");
    await ask(there, { verb: "tend" });
    while (((await ask(here, drop)) as { more: boolean }).more);
    const { rows } = await client.query(`SELECT count(*)::int4 AS count FROM ${place.schema}.scheduled`);
    expect(rows).toEqual([{ count: 0 }]);
  },
);
