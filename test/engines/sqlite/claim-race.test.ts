import { expect, test, vi } from "vitest";
import type { SqliteStore } from "../../../src/engines/sqlite/batch/store.ts";
import type * as claiming from "../../../src/engines/sqlite/verbs/claim.ts";
import { ask, newTask, openStore, QUEUE, tempPath } from "./kit.ts";

/** Called once, when a claim has seen that there are tasks, and has not locked the store yet. */
let onSeen: () => void = () => {};

vi.mock("../../../src/engines/sqlite/verbs/claim.ts", async (original) => {
  const actual = await original<typeof claiming>();
  return {
    ...actual,
    claimNothing: (...args: Parameters<typeof actual.claimNothing>) => {
      const nothing = actual.claimNothing(...args);
      const seen = onSeen;
      onSeen = () => {};
      seen();
      return nothing;
    },
  };
});

function claimOne(store: SqliteStore) {
  return ask(store, { verb: "claim", queues: [QUEUE], max: 1, worker: "w" }).tasks[0];
}

test("a claim starts again if another process commits after it has seen a task", () => {
  const path = tempPath();
  const [store, other] = [openStore(path), openStore(path)];
  const added = ask(store, { verb: "add", tasks: [newTask(), newTask()] });
  let first: ReturnType<typeof claimOne>;
  onSeen = () => (first = claimOne(other));
  const second = claimOne(store);
  expect([first!.id, second!.id]).toEqual(added.map(({ id }) => id));
  expect(second!.fence).toBeGreaterThan(first!.fence);
});

test("a claim finds nothing if another process took the task that it has seen", () => {
  const path = tempPath();
  const [store, other] = [openStore(path), openStore(path)];
  ask(store, { verb: "add", tasks: [newTask()] });
  onSeen = () => expect(claimOne(other)).toBeDefined();
  expect(claimOne(store)).toBeUndefined();
});
