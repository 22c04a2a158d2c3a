import { expect, it } from "vitest";
import { ground } from "./kit.ts";

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
