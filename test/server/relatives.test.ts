import { expect, test } from "vitest";
import { forbidden, setUp, task } from "./guarded.ts";

/** What a token learns of a task's parent and children in queues that it may not see: nothing. */

test("a spawn needs add on the queue of the child", async () => {
  const { store, openAs } = await setUp();
  const worker = await openAs("work:sums");
  await store.add([task("sums")]);
  const { tasks } = await worker.claim({ queues: ["sums"], max: 1, worker: "w", wait: 0 });
  await forbidden(worker.spawn(tasks[0]!, [{ name: "a", task: task("parts") }]), "add");
  expect(await store.children(tasks[0]!.id)).toEqual({ children: [], next: null });
});

test("relatives in queues that a token may not see are left out", async () => {
  const { store, openAs } = await setUp();
  await store.add([task("sums")]);
  const { tasks } = await store.claim({ queues: ["sums"], max: 1, worker: "w", wait: 0 });
  const parent = tasks[0]!;
  const [open, hidden] = await store.spawn(parent, [
    { name: "open", task: task("parts") },
    { name: "hidden", task: task("secrets") },
  ]);
  const reader = await openAs("read:sums", "read:parts");
  expect((await reader.children(parent.id)).children.map(({ id }) => id)).toEqual([open!.id]);
  expect((await reader.children(parent.id, { ends: true })).children).toHaveLength(1);
  expect((await reader.steps(parent.id)).map(({ name }) => name)).toEqual(["open"]);
  expect((await reader.task(open!.id)).parent).toEqual({ id: parent.id, queue: "sums" });
  const ofParts = await openAs("read:parts");
  expect("parent" in (await ofParts.task(open!.id))).toBe(false);
  await expect(ofParts.children(parent.id)).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
  await expect(ofParts.task(hidden!.id)).rejects.toMatchObject({ code: "TASK_NOT_FOUND" });
});

test("a worker sees the results of children only where it may add or read", async () => {
  const { store, openAs } = await setUp();
  await store.add([task("sums")]);
  const { tasks } = await store.claim({ queues: ["sums"], max: 1, worker: "w", wait: 0 });
  await store.spawn(tasks[0]!, [{ name: "a", task: task("parts") }]);
  const { id } = tasks[0]!;
  const childrenFor = async (...scopes: string[]) =>
    (await (await openAs(...scopes)).children(id, { ends: true })).children.length;
  expect(await childrenFor("work:sums")).toBe(0);
  expect(await childrenFor("work:sums", "work:parts")).toBe(0);
  expect(await childrenFor("work:sums", "add:parts")).toBe(1);
});
