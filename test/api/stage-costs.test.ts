import { describe, expect, it } from "vitest";
import { each } from "../../src/index.ts";
import { openStore, STORES } from "../stores.ts";

const once = { maxAttempts: 1 } as const;

describe.each(STORES)("the cost of a stage on %s", (store) => {
  it("the cost of a stage is a number or a function of its input", async () => {
    const dibs = await openStore(store);
    const seen: [stage: string, cost: number][] = [];
    const note = (task: { cost: number; run: { stage: string } | null }): unknown =>
      seen.push([task.run!.stage, task.cost]);
    const costly = dibs
      .pipeline<{ size: number }>("costly")
      .stage(
        "split",
        (task) => {
          note(task);
          return each(Array.from({ length: task.data.size }, (_, n) => ({ tokens: n + 2 })));
        },
        { cost: (input) => input.size },
      )
      .stage(
        "double",
        (task) => {
          note(task);
          return task.data.tokens * 2;
        },
        { cost: (input) => input.tokens },
      )
      .stage(
        "parts",
        (task) => {
          note(task);
          return each([7, 8], { cost: (item) => item * 10 });
        },
        { cost: (input) => input },
      )
      .stage(
        "leaf",
        (task) => {
          note(task);
          return task.data;
        },
        { cost: 5 },
      )
      .join(
        "sum",
        (task) => {
          note(task);
          return task.data.length;
        },
        { cost: 3 },
      );
    costly.work();
    const run = await costly.add({ size: 2 });
    expect(await run.result({ timeout: "20s" })).toBe(4);
    const costs = Map.groupBy(seen, ([stage]) => stage);
    const of = (stage: string) =>
      costs
        .get(stage)!
        .map(([, cost]) => cost)
        .sort((a, b) => a - b);
    expect(["split", "double", "parts", "leaf", "sum"].map(of)).toEqual([
      [2],
      [2, 3],
      [4, 6],
      [70, 70, 80, 80],
      [3],
    ]);
  });

  it("the cost passed to add overrides the cost of the first stage", async () => {
    const dibs = await openStore(store);
    const pipeline = dibs
      .pipeline<{ tokens: number }>("costly")
      .stage("only", (task) => task.cost, { cost: (input) => input.tokens });
    pipeline.work();
    const own = await pipeline.add({ tokens: 4 });
    const given = await pipeline.add({ tokens: 4 }, { cost: 9 });
    expect([await own.result(), await given.result()]).toEqual([4, 9]);
  });

  it("the cost of a later stage counts in its rate limit", async () => {
    const dibs = await openStore(store);
    const rateLimit = { max: 10, per: "1h", unit: "tokens" } as const;
    const pipeline = dibs
      .pipeline<number[]>("costly")
      .stage("split", (task) => each(task.data))
      .stage("spend", (task) => task.data, { cost: (input) => input, rateLimit });
    const worker = pipeline.work({ stages: ["split"] });
    const run = await pipeline.add([4, 4, 4, 4]);
    await expect.poll(async () => (await run.status()).stages[1]!.parts.length).toBe(4);
    expect(await pipeline.queue("spend").claim({ max: 10 })).toHaveLength(2);
    await worker.stop();
  });

  it("manual claims of the pipeline's queues know the cost of the next stage; other claims must pass it", async () => {
    const dibs = await openStore(store);
    const pipeline = dibs
      .pipeline<number>("costly")
      .stage("first", (task) => task.data, once)
      .stage("second", (task) => task.cost, { cost: (input) => input });
    await pipeline.add(6);
    const [stranger] = await dibs.queue("costly/first").claim();
    await expect(stranger!.ack(6)).rejects.toThrow(/computes its cost from its input/);
    await stranger!.release();
    const [own] = await pipeline.queue("first").claim();
    await own!.ack(6);
    const [next] = await pipeline.queue("second").claim();
    expect(next!.cost).toBe(6);
  });

  it("a stage fails if the cost function of the next one returns no cost", async () => {
    const dibs = await openStore(store);
    const pipeline = dibs
      .pipeline<number>("costly")
      .stage("first", (task) => task.data, once)
      .stage("second", (task) => task.data, { cost: () => Number.NaN });
    pipeline.work();
    const run = await pipeline.add(1);
    await expect(run.result({ timeout: "20s" })).rejects.toThrow(
      /cost of stage "second" must be a whole number/,
    );
  });
});

it("a stage that joins refuses a function as its cost", async () => {
  const dibs = await openStore("memory");
  const pipeline = dibs.pipeline<number>("costly").stage("first", (task) => task.data);
  expect(() => pipeline.join("sum", () => 1, { cost: (() => 1) as never })).toThrow(/must be a number/);
});
