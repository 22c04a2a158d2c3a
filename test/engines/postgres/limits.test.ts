import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Dibs } from "../../../src/index.ts";
import { ground } from "./kit.ts";

const QUICK = { backoff: { type: "fixed", delay: 5, jitter: 0 }, elsewhere: 0, maxAttempts: 100 } as const;

/** Counts the tasks that run at once in all processes. */
class Watch {
  readonly most = new Map<string, number>();
  readonly #running = new Map<string, number>();

  begin(what: string): void {
    const count = (this.#running.get(what) ?? 0) + 1;
    this.#running.set(what, count);
    this.most.set(what, Math.max(count, this.most.get(what) ?? 0));
  }

  end(what: string): void {
    this.#running.set(what, this.#running.get(what)! - 1);
  }
}

async function untilDone(dibs: Dibs, queue: string, count: number): Promise<void> {
  for (;;) {
    const { depth } = await dibs.queue(queue).stats();
    if (depth.done === count) return;
    await sleep(20);
  }
}

test("limits apply to several processes together, and no task is stuck", async () => {
  const { open, client, schema } = await ground();
  const all = await Promise.all(Array.from({ length: 4 }, () => open()));
  const policy = { ...QUICK, maxConcurrency: 6, groups: { concurrency: 2, fair: true, sticky: true } };
  for (const dibs of all) await dibs.queue("work", policy).stats();
  const watch = new Watch();
  const workers = all.map((dibs) =>
    dibs.queue<number>("work").work(
      async (task) => {
        const group = `group ${task.groupKey}`;
        for (const what of ["all", group]) watch.begin(what);
        await sleep(Math.random() * 4);
        for (const what of ["all", group]) watch.end(what);
        if (task.attempt === 1 && Math.random() < 0.1) throw new Error("once");
      },
      { concurrency: 5 },
    ),
  );
  const each = 40;
  await Promise.all(
    Array.from({ length: 8 }, async (_, p) => {
      const queue = all[p % all.length]!.queue<number>("work");
      for (let i = 0; i < each; i++)
        await queue.add(i, { groupKey: `g${i % 5}`, ...(i % 4 === 0 && { delay: 10 }) });
    }),
  );
  await untilDone(all[0]!, "work", 8 * each);
  await Promise.all(workers.map((worker) => worker.stop()));
  expect(watch.most.get("all")).toBeLessThanOrEqual(6);
  watch.most.delete("all");
  expect(Math.max(...watch.most.values())).toBeLessThanOrEqual(2);
  const { rows } = await (await client()).query<{ holders: number }>(`SELECT holders FROM ${schema}.lane`);
  expect(rows.every(({ holders }) => holders === 0)).toBe(true);
});

test("a rate is exact across processes", async () => {
  const { open } = await ground();
  const all = await Promise.all(Array.from({ length: 4 }, () => open()));
  const per = 250;
  for (const dibs of all)
    await dibs.queue("work", { rateLimit: { max: 7, per }, groups: { concurrency: 9 } }).stats();
  const queue = all[0]!.queue<number>("work");
  const tasks = await queue.addMany(
    Array.from({ length: 100 }, (_, n) => ({ data: n, ...(n % 2 === 0 && { groupKey: `g${n % 6}` }) })),
  );
  const workers = all.map((dibs) => dibs.queue<number>("work").work(async () => {}, { concurrency: 5 }));
  await untilDone(all[0]!, "work", 100);
  await Promise.all(workers.map((worker) => worker.stop()));
  const spans = new Map<number, number>();
  for (const { id } of tasks) {
    const [attempt] = await all[1]!.task(id).history();
    const span = Math.floor(attempt!.startedAt.getTime() / per);
    spans.set(span, (spans.get(span) ?? 0) + 1);
  }
  expect(Math.max(...spans.values())).toBeLessThanOrEqual(7);
});

test("acks in callers' transactions free their groups, and correct costs", async () => {
  const { open, client } = await ground();
  const dibs = await open();
  const queue = dibs.queue<number>("work", {
    maxConcurrency: 2,
    groups: { concurrency: 2, rateLimit: { max: 100, per: "1d", unit: "tokens" } },
  });
  await queue.addMany(Array.from({ length: 4 }, (_, n) => ({ data: n, groupKey: "g", cost: 60 })));
  const [first] = await queue.claim({ max: 5 });
  expect((await queue.stats()).depth).toMatchObject({ claimed: 1, waiting: 3 });
  const theirs = await client();
  await theirs.query("BEGIN");
  first!.spend(10);
  await first!.ack(undefined, { tx: theirs });
  expect(await queue.claim({ max: 5 })).toEqual([]);
  // Other tasks of the queue can be claimed meanwhile.
  await queue.add(9, { groupKey: "h" });
  const [other] = await queue.claim({ max: 5 });
  expect(other!.data).toBe(9);
  await theirs.query("COMMIT");
  const [second, ...more] = await queue.claim({ max: 5 });
  expect(second!.data).toBe(1);
  expect(more).toEqual([]);
});

test("tasks are claimed again once a hold has ended, by itself or by unhold()", async () => {
  const { open } = await ground();
  const [here, there] = [await open(), await open()];
  const queue = here.queue<number>("work");
  await queue.addMany([{ data: 1 }, { data: 2, groupKey: "g" }, { data: 3, groupKey: "g" }]);
  // First a hold of the whole queue, because the task has no group, then one of a group.
  for (const [data, group] of [[1], [2, "g"]] as const) {
    const [first] = await queue.claim();
    await first!.hold(new Error("429"), { delay: "10m" });
    expect(await there.queue("work").claim({ max: 5 })).toEqual([]);
    expect(await there.queue("work").unhold(group)).toBe(true);
    const [second] = await there.queue<number>("work").claim();
    expect(second!.data).toBe(data);
    await second!.hold(new Error("429"), { delay: 200 });
    const [third] = await queue.claim({ wait: "30s" });
    expect(third!.data).toBe(data);
    if (data === 2) await third!.ack();
  }
  expect((await queue.claim())[0]!.data).toBe(3);
});
