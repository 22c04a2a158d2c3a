import { expect } from "vitest";
import { DEFAULT_POLICY, type NamedPolicy } from "../../../src/core/queue/policy.ts";
import type { Port } from "../../../src/core/port.ts";
import type { StoreRecord } from "../../../src/core/record/record.ts";
import { stageQueue } from "../../../src/core/run/run.ts";
import { END_STATES, PENDING_STATES, type TaskRecord } from "../../../src/core/task/task.ts";
import { verificationQueue } from "../../../src/core/handler/verification.ts";
import { importRecords } from "../../../src/transfer/run.ts";
import type { TransferStore } from "../../../src/engine/transfer.ts";
import { rate } from "./governing.ts";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimOne,
  failure,
  HOUR,
  MINUTE,
  nack,
  numbered,
  QUEUE,
  reject,
  release,
  SECOND,
  type World,
} from "./kit.ts";

/** Fills a store with some of everything, and takes a snapshot of all that a reader can see. */

export const CHECKED = "checked";
export const PIPELINE = "report";
const STAGES = [
  { name: "split", joins: false },
  { name: "work", joins: false },
  { name: "join", joins: true },
];

export const stage = (name: string): string => stageQueue(PIPELINE, name);

const groups = (more: Partial<typeof DEFAULT_POLICY.groups>): NamedPolicy => ({
  groups: { ...DEFAULT_POLICY.groups, ...more },
});

/** Tasks of all states except claimed, in all kinds of queues, by every path that leads there. */
export async function fillStore({ port, clock }: World): Promise<void> {
  await fillPlainQueue(port);
  await fillKeys(port);
  await fillLimitedQueues(port);
  await fillVerifiedQueue(port);
  await fillRuns(port);
  await port.subscribe("orders.#", "audit", {});
  await port.subscribe("orders.*.placed", "mail", { maxAttempts: 3 });
  await port.publish({ topic: "orders.de.placed", data: '"published"', headers: { kind: "order" } });
  const task = { queue: "scheduled-by", data: '"fired"' };
  await port.schedule("hourly", { missed: "once", task, every: HOUR });
  await port.declare("declared", { maxDepth: 7, lease: MINUTE });
  await port.pause("declared", true);
  // Tasks with a time-to-live expire, and tasks with a short delay become due.
  await clock.advance(2 * SECOND);
  await claim(port, { queues: ["declared"] });
}

async function fillPlainQueue(port: Port): Promise<void> {
  await addOne(port, { data: "done" });
  await ack(port, await claimOne(port), new Uint8Array([0, 255]));
  await addOne(port, { data: "dead", headers: { a: "\u0000" } });
  await reject(port, await claimOne(port), failure("broken \u0000 \u0001", "TypeError"));
  await addOne(port, { data: "redriven", maxAttempts: 1 });
  await nack(port, await claimOne(port));
  await port.redrive(QUEUE, { error: "it broke" }, 0);
  await addNamed(port, numbered(3, "plain "));
  await addNamed(port, ["urgent"], { urgent: true });
  await addNamed(port, ["high"], { priority: 7 });
  await addNamed(port, ["low"], { priority: -7 });
  await addNamed(port, numbered(3, "in group "), { groupKey: "g" });
  await addNamed(port, ["later", "later still"], { delay: HOUR });
  await addNamed(port, ["later in group"], { delay: HOUR, groupKey: "g" });
  await addOne(port, { data: new Uint8Array([1, 2, 0, 254]), contentType: "application/x-bytes", cost: 3 });
  await addNamed(port, ["expires"], { queue: "expiring", ttl: SECOND });
  await addNamed(port, ["lives on"], { queue: "expiring", ttl: HOUR });
  await port.cancel((await addOne(port, { data: "cancelled", groupKey: "g" })).id);
  // The head of its group has failed and waits for its next attempt.
  await addNamed(port, ["failed", "behind it"], { queue: "retried", groupKey: "r" });
  await nack(port, await claimOne(port, { queues: ["retried"] }), HOUR);
  await addNamed(port, ["released"], { queue: "retried" });
  await release(port, await claimOne(port, { queues: ["retried"] }));
  await addNamed(port, ["parked", "behind parked"], { queue: "parked", groupKey: "p" });
  const held = await claimOne(port, { queues: ["parked"] });
  await port.step(held, "plan", '{"a":1}');
  await port.step(held, "bytes", new Uint8Array([7]));
  await port.progress(held, null, null, "planned 页");
  await port.signal(held.id, "early", '"bird"');
  await port.settle(held, { kind: "park", signal: "approval", timeout: null });
  await addNamed(port, ["parked for an hour"], { queue: "parked" });
  const other = await claimOne(port, { queues: ["parked"] });
  await port.settle(other, { kind: "park", signal: "soon", timeout: HOUR });
}

async function fillKeys(port: Port): Promise<void> {
  const queue = "keyed";
  await addOne(port, { queue, data: "ended", idempotencyKey: "ended" });
  await ack(port, await claimOne(port, { queues: [queue] }), '"result"');
  await addOne(port, { queue, data: "pending", idempotencyKey: "pending" });
}

async function fillLimitedQueues(port: Port): Promise<void> {
  await port.declare("fair", groups({ fair: true, concurrency: 2, weight: { b: 2 } }));
  for (const groupKey of ["a", "b", "c"])
    await addNamed(port, numbered(3, groupKey), { queue: "fair", groupKey });
  await ack(port, await claimOne(port, { queues: ["fair"] }));
  await port.declare("rated", { ...groups({ rateLimit: [rate(1, HOUR)] }), rateLimit: [rate(100, HOUR)] });
  await addNamed(port, numbered(3, "rated "), { queue: "rated", groupKey: "x" });
  await ack(port, await claimOne(port, { queues: ["rated"] }));
  await port.declare("several", { ...groups({ concurrency: 2 }), maxConcurrency: 5 });
  await addNamed(port, numbered(4, "several "), { queue: "several", groupKey: "s" });
  await addNamed(port, ["held back", "behind held back"], { queue: "held", groupKey: "h" });
  const held = await claimOne(port, { queues: ["held"] });
  await port.settle(held, { kind: "hold", error: failure("429"), delay: HOUR });
}

async function fillVerifiedQueue(port: Port): Promise<void> {
  await port.declare(CHECKED, { verified: true });
  await addNamed(port, ["to be judged", "behind to be judged"], { queue: CHECKED, groupKey: "v" });
  const held = await claimOne(port, { queues: [CHECKED] });
  await ack(port, held, '"result"', [{ queue: "added-by", data: "added by accept" }]);
  await addNamed(port, ["refused"], { queue: CHECKED });
  const refusedOne = await claimOne(port, { queues: [CHECKED] });
  await ack(port, refusedOne, '"bad"');
  const verdicts = await claim(port, { queues: [verificationQueue(CHECKED)], max: 10 });
  const verdict = verdicts[1]!;
  await release(port, verdicts[0]!, { started: false });
  const of = { id: refusedOne.id, fence: refusedOne.fence, queue: CHECKED, attempt: 1 };
  await port.settle(verdict, { kind: "refuse", of, feedback: "not good" });
}

async function fillRuns(port: Port): Promise<void> {
  await port.definePipeline(PIPELINE, STAGES);
  const run = { pipeline: PIPELINE, stages: STAGES };
  await port.add([
    { queue: stage("split"), data: '"first"', run },
    { queue: stage("split"), data: '"second"', run },
  ]);
  const first = await claimOne(port, { queues: [stage("split")] });
  await port.settle(first, { kind: "ack", result: "[1,2,3]", each: true });
  const [one, two] = await claim(port, { queues: [stage("work")], max: 2 });
  await ack(port, one!, '"one"');
  await reject(port, two!);
}

/** Everything that a reader can see. Equal for two stores with the same content. */
export async function snapshotOf(port: Port): Promise<unknown> {
  const queues = (await port.queues()).items;
  const tasks: TaskRecord[] = [];
  const stats: unknown[] = [];
  for (const { name: queue } of queues) {
    stats.push(await port.stats(queue));
    for (const state of [...PENDING_STATES, ...END_STATES]) {
      for (let after: string | undefined; ;) {
        const page = await port.list({ queue, state, limit: 3, payloads: "full", ...(after && { after }) });
        tasks.push(...page.tasks);
        if (page.next === null) break;
        after = page.next;
      }
    }
  }
  const details = [];
  for (const { id } of tasks)
    details.push({ id, history: await port.history(id), steps: await port.steps(id) });
  const runs = [];
  for (const id of new Set(tasks.flatMap(({ run }) => run?.id ?? []))) runs.push(await port.run(id));
  const dead = [];
  for (const { name } of queues) dead.push(await port.patterns(name, "fingerprint", 10));
  return {
    ...{ queues, stats, tasks, details, runs, dead },
    subscriptions: (await port.subscriptions()).items,
    schedules: (await port.schedules()).items,
    pipelines: (await port.pipelines()).items,
  };
}

/** Copies one store into another, directly or through lines of JSON. Returns the number of tasks. */
export async function copyStore(
  from: TransferStore,
  to: TransferStore,
  through: (pages: AsyncIterable<StoreRecord[]>) => AsyncIterable<StoreRecord[]> = (pages) => pages,
): Promise<number> {
  return (await importRecords(through(from.read()), to)).tasks;
}

/** All tasks that can be claimed now, by queue, in the order of the claims. */
export async function claimAll(port: Port): Promise<Record<string, unknown[]>> {
  const order: Record<string, unknown[]> = {};
  for (const { name } of (await port.queues()).items) {
    const tasks = await claim(port, { queues: [name], max: 1_000 });
    order[name] = tasks.map(({ id, attempt, stepped, feedback, run }) => ({
      id,
      attempt,
      stepped,
      feedback,
      run,
    }));
  }
  expect(Object.values(order).flat().length).toBeGreaterThan(10);
  return order;
}
