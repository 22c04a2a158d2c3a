import { expect, it } from "vitest";
import { ground } from "./kit.ts";
import { claimAll, failed, joinAs, run } from "./verbs.ts";

const NAMES = Array.from({ length: 40 }, (_, i) => `queue-${i}`);

/** Enough queues that the store first reads which of them have tasks. */
async function filled(each: number) {
  const { open } = await ground();
  const dibs = await open();
  for (const name of NAMES) {
    // Every third is empty, every third of the others is paused.
    const number = NAMES.indexOf(name);
    if (number % 3 === 0) continue;
    await dibs.queue(name).addMany(Array.from({ length: each }, (_, data) => ({ data })));
    if (number % 9 === 1) await dibs.queue(name).pause();
  }
  const served = NAMES.filter((_, i) => i % 3 !== 0 && i % 9 !== 1);
  return { dibs, served };
}

it("a claim serves many queues in rotation, and skips empty and paused ones", async () => {
  const { dibs, served } = await filled(3);
  const seen: string[] = [];
  const all = Promise.withResolvers<void>();
  const worker = dibs.work(
    NAMES,
    ({ queue }) => {
      if (seen.push(queue) === served.length * 3) all.resolve();
    },
    { order: "fair", concurrency: 40 },
  );
  await all.promise;
  await worker.stop();
  expect([...new Set(seen)].sort()).toEqual([...served].sort());
  // Each queue has its turn before any has its third.
  const third = seen.findIndex((name, i) => seen.slice(0, i).filter((other) => other === name).length === 2);
  expect(new Set(seen.slice(0, third)).size).toBe(served.length);
});

it("a claim serves many queues strictly in the order of the request", async () => {
  const { dibs, served } = await filled(2);
  const seen: string[] = [];
  const all = Promise.withResolvers<void>();
  const worker = dibs.work(
    NAMES,
    ({ queue }) => {
      if (seen.push(queue) === served.length * 2) all.resolve();
    },
    { order: "strict" },
  );
  await all.promise;
  await worker.stop();
  expect(seen).toEqual(served.flatMap((name) => [name, name]));
});

it("an add wakes a claim that waits for many queues", async () => {
  const dibs = await (await ground()).open();
  const got = Promise.withResolvers<unknown>();
  const worker = dibs.work(NAMES, ({ data }) => got.resolve(data), { order: "fair" });
  await worker.ready;
  await dibs.queue(NAMES[21]!).add("late");
  expect(await got.promise).toBe("late");
  await worker.stop();
});

/** Three queues, of which the second has a task that the worker "first" has failed, and another one behind it. */
async function withRetried() {
  const place = await ground();
  const engine = await place.engine();
  const queues = ["a", "b", "c"];
  await run(engine, { verb: "add", tasks: [{ queue: "b", data: "b1" }] });
  const worker = { name: "w", queues, concurrency: 1, host: "host", pid: 1 };
  const sessions: Record<string, number> = {};
  for (const id of ["first", "second"])
    sessions[id] = (await run(engine, { verb: "join", worker: { ...worker, id }, lease: 60_000 })).session;
  const [task] = await claimAll(engine, { queues, worker: "first", session: sessions["first"]! });
  await run(engine, failed(task!));
  await run(engine, { verb: "add", tasks: ["a1", "b2", "c1"].map((data) => ({ queue: data[0]!, data })) });
  return { place, engine, queues, sessions };
}

it("claims in the order of the queues if one between them has a retry-elsewhere line", async () => {
  const { engine, queues, sessions } = await withRetried();
  const tasks = await claimAll(engine, { queues, worker: "second", session: sessions["second"]! });
  expect(tasks.map(({ data }) => data)).toEqual(["a1", "b1", "b2", "c1"]);
  expect(tasks.map(({ fence }) => fence)).toEqual(tasks.map(({ fence }) => fence).toSorted((a, b) => a - b));
});

it("passes over the retry-elsewhere line of a queue whose tasks the worker has failed, and claims from the others", async () => {
  const { engine, queues, sessions } = await withRetried();
  const request = { queues, worker: "first", session: sessions["first"]!, max: 10 };
  const { tasks, passed } = await run(engine, { verb: "claim", ...request });
  expect(tasks.map(({ data }) => data)).toEqual(["a1", "b2", "c1"]);
  expect(passed).toBe(true);
});

it("gives the claims of one call the leases and timeouts of their queues", async () => {
  const place = await ground();
  const [engine, client, { schema }] = [await place.engine(), await place.client(), place];
  const policies = [
    { lease: 20_000, timeout: 100_000 },
    { lease: 30_000, timeout: 300_000 },
    { lease: 90_000, timeout: 200_000 },
  ];
  for (const [i, policy] of policies.entries())
    await run(engine, { verb: "declare", queue: `queue-${i}`, policy });
  const queues = policies.map((_, i) => `queue-${i}`);
  const session = await joinAs(engine, "w");
  const claims = async (by: { session?: number }) => {
    await run(engine, { verb: "add", tasks: queues.map((queue) => ({ queue, data: queue })) });
    const request = { queues, worker: "w", max: 10, ...by };
    const { tasks } = await run(engine, { verb: "claim", ...request });
    expect(tasks.map(({ queue }) => queue)).toEqual(queues);
    const { rows } = await client.query<{ lease: string; ends: string }>(
      `SELECT lease, round((deadline - started_at) / 1000.0) * 1000 AS ends FROM ${schema}.claim
       WHERE fence >= $1 ORDER BY fence`,
      [tasks[0]!.fence],
    );
    return rows.map(({ lease, ends }) => [Number(lease), Number(ends)]);
  };
  // A manual claim ends with its lease, one of a session with its timeout.
  expect(await claims({})).toEqual(policies.map(({ lease }) => [lease, lease]));
  const timeouts = policies.map(({ lease, timeout }) => [Math.max(lease, 60_000), timeout]);
  expect(await claims({ session })).toEqual(timeouts);
});
