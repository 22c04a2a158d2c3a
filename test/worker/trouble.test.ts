import { expect, onTestFinished, test } from "vitest";
import { Dibs } from "../../src/api/dibs.ts";
import { createBroker } from "../../src/broker/broker.ts";
import { DibsError } from "../../src/core/errors/errors.ts";
import type { Engine, Op, Outcome, Outcomes } from "../../src/engine/engine.ts";
import { systemClock } from "../../src/engine/system-clock.ts";
import { openMemory } from "../../src/engines/memory/engine.ts";
import { latch } from "../stores.ts";

type Fault = (ops: readonly Op[], outcomes: readonly Outcome[]) => boolean;

/** A store that loses some answers after the operation has happened, or fails before anything has happened. */
function openLossy() {
  const engine = openMemory({ clock: systemClock });
  let isLost: Fault = () => false;
  let breaks: Fault = () => false;
  const lossy: Engine = {
    depth: engine.depth,
    onHint: (listener) => engine.onHint(listener),
    close: () => engine.close(),
    async execute<const Ops extends readonly Op[]>(ops: Ops): Promise<Outcomes<Ops>> {
      if (breaks(ops, [])) {
        breaks = () => false;
        throw new TypeError("a fault in the store");
      }
      const outcomes = await engine.execute(ops);
      if (!isLost(ops, outcomes)) return outcomes;
      isLost = () => false;
      throw new DibsError("OUTCOME_UNKNOWN", "The answer was lost.");
    },
  };
  const warnings: string[] = [];
  const logger = {
    warn: (text: string) => void warnings.push(text),
    error: () => {},
    info: () => {},
    debug: () => {},
  };
  const dibs = new Dibs(createBroker(lossy, { clock: systemClock }), logger);
  onTestFinished(() => dibs.close());
  return {
    dibs,
    warnings,
    loseOnce: (fault: Fault) => void (isLost = fault),
    breakOnce: (fault: Fault) => void (breaks = fault),
  };
}

const isClaimOf =
  (count: number): Fault =>
  (ops, outcomes) =>
    ops.some(({ verb }, index) => {
      const outcome = outcomes[index]!;
      return (
        verb === "claim" && "ok" in outcome && (outcome.ok as { tasks: unknown[] }).tasks.length >= count
      );
    });

test("tasks of a claim whose answer was lost are released without counting an attempt", async () => {
  const { dibs, warnings, loseOnce } = openLossy();
  const queue = dibs.queue<number, number>("work", { maxAttempts: 1 });
  loseOnce(isClaimOf(1));
  const tasks = await queue.addMany([
    { data: 1, groupKey: "a" },
    { data: 2, groupKey: "a" },
  ]);
  queue.work((task) => task.data * 10);
  expect(await Promise.all(tasks.map((task) => task.result({ timeout: "20s" })))).toEqual([10, 20]);
  expect(await tasks[0]!.history()).toMatchObject([{ attempt: 1, outcome: "done" }]);
  expect(warnings).toEqual([expect.stringContaining("The answer was lost.")]);
});

test("a reconcile keeps the claims that the worker knows of", async () => {
  const { dibs, loseOnce } = openLossy();
  const queue = dibs.queue<number, number>("work", { maxAttempts: 1 });
  const started = latch();
  const goOn = latch();
  queue.work(
    async (task) => {
      started.open();
      if (task.data === 1) await goOn.promise;
      return task.data;
    },
    { concurrency: 2 },
  );
  const first = await queue.add(1);
  await started.promise;
  loseOnce(isClaimOf(1));
  const second = await queue.add(2);
  expect(await second.result({ timeout: "20s" })).toBe(2);
  goOn.open();
  expect(await first.result({ timeout: "20s" })).toBe(1);
  for (const task of [first, second]) expect(await task.history()).toHaveLength(1);
});

test("a settlement that a fault of the store prevented is retried, so that a done task does not run again", async () => {
  const { dibs, warnings, breakOnce } = openLossy();
  const queue = dibs.queue<number, number>("work");
  breakOnce((ops) => ops.some(({ verb }) => verb === "settle"));
  const task = await queue.add(1);
  queue.work(({ data }) => data * 10);
  expect(await task.result({ timeout: "20s" })).toBe(10);
  expect(await task.history()).toMatchObject([{ attempt: 1, outcome: "done" }]);
  expect(warnings[0]).toContain("Could not settle");
});

test("a result that its own toJSON cannot encode fails the attempt", async () => {
  const { dibs } = openLossy();
  const queue = dibs.queue<number>("work", { maxAttempts: 1 });
  const task = await queue.add(1);
  const toJSON = (): never => {
    throw new TypeError("cannot be written");
  };
  queue.work(() => ({ toJSON }));
  await expect(task.result({ timeout: "20s" })).rejects.toMatchObject({ code: "TASK_DEAD" });
});

test("a worker that stops retries leaving until the store answers", async () => {
  const { dibs, loseOnce } = openLossy();
  const queue = dibs.queue<number>("work");
  const task = await queue.add(1);
  const started = latch();
  const worker = queue.work(() => {
    started.open();
    return new Promise(() => {});
  });
  await started.promise;
  let asked = 0;
  loseOnce((ops) => ops.some(({ verb }) => verb === "leave") && ++asked === 1);
  await worker.stop({ timeout: 0 });
  expect(asked).toBe(1);
  expect(await task.info()).toMatchObject({ state: "ready", attempt: 1 });
  expect(await dibs.workers()).toEqual([]);
});
