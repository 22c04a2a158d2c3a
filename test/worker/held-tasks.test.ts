import { expect, test } from "vitest";
import { DibsError } from "../../src/core/errors/errors.ts";
import { DEFAULT_POLICY } from "../../src/core/queue/policy.ts";
import type { Port } from "../../src/core/port.ts";
import type { ClaimedTask } from "../../src/core/task/task.ts";
import { ManualClock } from "../../src/testing/index.ts";
import { Ahead } from "../../src/worker/ahead.ts";
import { HeldTasks } from "../../src/worker/held-tasks.ts";
import type { Observer } from "../../src/worker/observer.ts";

test("an answer that was lost while a reconcile was in progress needs another reconcile", async () => {
  const reconciles: { fences: number[]; answer: () => void }[] = [];
  const port = {
    settle: () => Promise.reject(new DibsError("OUTCOME_UNKNOWN", "The answer was lost.")),
    reconcile: (_session: number, fences: number[]) =>
      new Promise<void>((answer) => void reconciles.push({ fences, answer })),
  } as unknown as Port;
  const ahead = new Ahead(new ManualClock(), Number.POSITIVE_INFINITY, () => {});
  const lostAgain = Promise.withResolvers<void>();
  const held = new HeldTasks(port, ahead, {} as Observer, null, {
    onRoom: lostAgain.resolve,
    onNoneLeft: () => {},
  });
  const claimed = { id: "t1", fence: 7, queue: "jobs" } as ClaimedTask;
  const tasks = held.add([claimed], { jobs: DEFAULT_POLICY }, 1, 0);
  held.answerWasLost();
  const first = held.reconcile(1);
  held.giveBack(tasks);
  await lostAgain.promise;
  reconciles[0]!.answer();
  await first;
  expect(held.needsReconcile).toBe(true);
  const second = held.reconcile(1);
  reconciles[1]!.answer();
  await second;
  expect(held.needsReconcile).toBe(false);
  expect(reconciles.map(({ fences }) => fences)).toEqual([[7], []]);
});
