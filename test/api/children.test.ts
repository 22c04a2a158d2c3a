import { describe, expect, it } from "vitest";
import { ChildFailedError, DibsError, Retry } from "../../src/index.ts";
import { latch, openStore, STORES } from "../stores.ts";

const policy = { backoff: { type: "fixed", delay: 0, jitter: 0 }, elsewhere: 0 } as const;

describe.each(STORES)("children on %s", (store) => {
  it("a handler spawns children, and gets their results in the order of the spawns", async () => {
    const dibs = await openStore(store);
    const parts = dibs.queue<number, { square: number }>("parts");
    const sums = dibs.queue<number[], number>("sums");
    let calls = 0;
    sums.work(async (task) => {
      calls++;
      const spawned = await Promise.all(task.data.map((n) => task.spawn(parts, n)));
      expect(spawned.map(({ queue, name }) => [queue, name])).toEqual(task.data.map(() => ["parts", null]));
      const results = await task.waitForChildren(spawned);
      return results.reduce((sum, { square }) => sum + square, 0);
    });
    // The last child ends first.
    parts.work(({ data }) => ({ square: data * data }), { concurrency: 3 });
    const task = await sums.add([3, 2, 1]);
    expect(await task.result({ timeout: "20s" })).toBe(14);
    expect(calls).toBe(2);
    const info = await task.info();
    expect(info.children).toEqual({ total: 3, pending: 0 });
    const { children, next } = await task.children();
    expect(children.map(({ n, state }) => [n, state])).toEqual([1, 2, 3].map((n) => [n, "done"]));
    expect(next).toBeNull();
    expect(children[0]!.createdAt).toBeInstanceOf(Date);
    expect((await dibs.task(children[0]!.id).info()).parent).toEqual({ id: task.id, queue: "sums" });
    expect((await task.history()).map(({ outcome }) => outcome)).toEqual(["parked", "done"]);
  });

  it("an attempt that fails does not spawn its children again", async () => {
    const dibs = await openStore(store);
    const parts = dibs.queue<string, string>("parts");
    const parents = dibs.queue<number, string[]>("parents", policy);
    const existing: boolean[] = [];
    parents.work(async (task) => {
      const named = await task.spawn(parts, "named", { name: "one", priority: 1 });
      const first = await task.spawn(parts, "first");
      existing.push(named.existing, first.existing);
      if (task.attempt < 3) throw new Retry("again", { delay: 0 });
      await task.spawn(parts, "second");
      return (await task.waitForChildren()) as string[];
    });
    parts.work(({ data }) => data.toUpperCase());
    const task = await parents.add(1);
    expect(await task.result({ timeout: "20s" })).toEqual(["NAMED", "FIRST", "SECOND"]);
    expect(existing).toEqual([false, false, true, true, true, true, true, true]);
    expect((await parts.stats()).depth.done).toBe(3);
  });

  it("a handler may wait several times, and for some of its children", async () => {
    const dibs = await openStore(store);
    const parts = dibs.queue<string, string>("parts");
    const parents = dibs.queue<number>("parents");
    const go = latch();
    parents.work(async (task) => {
      const slow = await task.spawn(parts, "slow");
      const fast = await task.spawn(parts, "fast");
      const [first] = await task.waitForChildren([fast]);
      go.open();
      const late = await task.spawn(parts, "late");
      return [first, ...(await task.waitForChildren([late, slow]))];
    });
    parts.work(
      async ({ data }) => {
        if (data === "slow") await go.promise;
        return data;
      },
      { concurrency: 2 },
    );
    const task = await parents.add(1);
    expect(await task.result({ timeout: "20s" })).toEqual(["fast", "late", "slow"]);
  });

  it("a dead child makes its parent a dead letter, and a redrive of both continues", async () => {
    const dibs = await openStore(store);
    let isBroken = true;
    const parts = dibs.queue<string, string>("parts", { ...policy, maxAttempts: 1 });
    const parents = dibs.queue<number, string[]>("parents", policy);
    parents.work(async (task) => {
      for (const part of ["a", "b"]) await task.spawn(parts, part, { name: part });
      return (await task.waitForChildren()) as string[];
    });
    parts.work(({ data }) => {
      if (data === "b" && isBroken) throw new Error("no luck");
      return data;
    });
    const task = await parents.add(1);
    await expect(task.result({ timeout: "20s" })).rejects.toMatchObject({
      code: "TASK_DEAD",
      message: expect.stringContaining('Child "b"'),
    });
    expect((await task.info()).error).toMatchObject({
      name: "ChildFailedError",
      message: expect.stringContaining("no luck"),
    });
    // No further attempt: it would find the same.
    expect((await task.history()).map(({ outcome }) => outcome)).toEqual(["parked", "rejected"]);
    isBroken = false;
    await parts.dead.redrive();
    await parents.dead.redrive();
    expect(await task.result({ timeout: "20s" })).toEqual(["a", "b"]);
  });

  it("the outcome of each child says how it ended", async () => {
    const dibs = await openStore(store);
    const parts = dibs.queue<string, string>("parts", { ...policy, maxAttempts: 1 });
    const parents = dibs.queue<number>("parents");
    parents.work(async (task) => {
      for (const part of ["fine", "bad", "gone"]) await task.spawn(parts, part, { name: part });
      await task.step("cancel", async () => {
        const { children } = await dibs.task(task.id).children();
        await dibs.task(children[2]!.id).cancel();
      });
      const failure = await task.waitForChildren().catch((error: unknown) => {
        if (!(error instanceof DibsError)) throw error;
        return error;
      });
      expect(failure).toBeInstanceOf(ChildFailedError);
      expect((failure as ChildFailedError).child).toMatchObject({
        name: "bad",
        queue: "parts",
        state: "dead",
      });
      const outcomes = await task.waitForChildOutcomes();
      return outcomes.map((outcome) =>
        outcome.state === "done" ? outcome.result : `${outcome.name} ${outcome.state} ${outcome.error.code}`,
      );
    });
    const task = await parents.add(1);
    // Once the last one is cancelled.
    while ((await parts.stats()).depth.cancelled === 0) await new Promise((resolve) => setImmediate(resolve));
    parts.work(({ data }) => {
      if (data === "bad") throw new Error("no");
      return data;
    });
    expect(await task.result({ timeout: "20s" })).toEqual([
      "fine",
      "bad dead TASK_DEAD",
      "gone cancelled TASK_CANCELLED",
    ]);
  });

  it("a handler may return without awaiting its spawns", async () => {
    const dibs = await openStore(store);
    const parts = dibs.queue<number>("parts");
    const parents = dibs.queue<number>("parents");
    parents.work((task) => {
      for (let n = 0; n < 20; n++) void task.spawn(parts, n);
    });
    const task = await parents.add(1);
    await task.result({ timeout: "20s" });
    expect((await task.info()).children).toEqual({ total: 20, pending: 20 });
    // They go on without their parent.
    expect((await parts.stats()).depth.ready).toBe(20);
  });

  it("a handler may wait for a signal of a child without awaiting the spawn", async () => {
    const dibs = await openStore(store);
    const parts = dibs.queue<string>("parts");
    const parents = dibs.queue<number, string>("parents");
    parents.work((task) => {
      void task.spawn(parts, task.id);
      return task.waitFor<string>("greeting");
    });
    parts.work(({ data }) => void dibs.task(data).signal("greeting", "hello"));
    expect(await (await parents.add(1)).result({ timeout: "10s" })).toBe("hello");
  });

  it("waiting for children throws TIMEOUT after its timeout", async () => {
    const dibs = await openStore(store);
    const parts = dibs.queue<number>("parts");
    const parents = dibs.queue<number, string>("parents");
    parents.work(async (task) => {
      const child = await task.spawn(parts, 1);
      return task
        .waitForChildren([child], { timeout: "10ms" })
        .then(String)
        .catch((error: unknown) => {
          if ((error as { code?: string }).code === "TIMEOUT") return "too late";
          throw error;
        });
    });
    expect(await (await parents.add(1)).result({ timeout: "20s" })).toBe("too late");
  });

  it("a handler that no longer spawns in the same queue is refused", async () => {
    const dibs = await openStore(store);
    const parents = dibs.queue<number, string>("parents", policy);
    const targets = ["before", "after"].map((name) => dibs.queue<number>(name));
    parents.work(async (task) => {
      await task.spawn(targets[task.attempt - 1]!, 1);
      throw new Error("again");
    });
    const task = await parents.add(1, { maxAttempts: 2 });
    await task.result({ timeout: "20s" }).catch(() => {});
    expect((await task.info()).error!.message).toMatch(/Child 1 of this task was spawned in queue "before"/);
    expect((await targets[1]!.stats()).exists).toBe(false);
  });

  it("spawning and waiting refuse bad arguments", async () => {
    const dibs = await openStore(store);
    const parts = dibs.queue<number>("parts");
    const pipeline = dibs.pipeline<number>("line").stage("one", ({ data }) => data);
    const parents = dibs.queue<number, string[]>("parents");
    parents.work(async (task) => {
      const messages: string[] = [];
      for (const attempt of [
        () => task.spawn(5 as never, 1),
        () => task.spawn(pipeline as never, 1),
        () => task.spawn(parts, Number.NaN),
        () => task.spawn(parts, 1, { name: "" }),
        () => task.spawn(parts, 1, { name: "spawn:1" }),
        () => task.spawn(parts, 1, { nmae: "x" } as never),
        () => task.spawn(parts, 1, { unique: { key: "k" } } as never),
        () => task.waitForChildren([dibs.task("01980000-0000-7000-8000-000000000000")]),
        () => task.waitForChildren(undefined, { patience: 1 } as never),
      ])
        await attempt().then(
          () => messages.push("accepted"),
          (error: unknown) => messages.push((error as Error).message),
        );
      return messages;
    });
    expect(await (await parents.add(1)).result({ timeout: "20s" })).toEqual([
      expect.stringContaining("task.spawn() takes a queue handle first"),
      expect.stringContaining("task.spawn() takes a queue handle first"),
      expect.stringContaining("JSON cannot carry"),
      expect.stringContaining("A child's name must be a text"),
      expect.stringContaining('Names that begin with "spawn:"'),
      expect.stringContaining('Unknown add option "nmae"'),
      expect.stringContaining("is unique"),
      expect.stringContaining("waitForChildren() takes children that this call of the handler has spawned"),
      expect.stringContaining('Unknown waitForChildren option "patience"'),
    ]);
    expect((await parts.stats()).depth.ready).toBe(0);
  });
});

it("spawns that are sent together may be larger than one message to a server", async () => {
  const dibs = await openStore("server");
  const parts = dibs.queue<string>("parts");
  const parents = dibs.queue<number, number>("parents");
  parents.work(async (task) => {
    const large = "x".repeat(200_000);
    return (await Promise.all(Array.from({ length: 200 }, () => task.spawn(parts, large)))).length;
  });
  const task = await parents.add(1, { maxAttempts: 1 });
  expect(await task.result({ timeout: "20s" })).toBe(200);
  expect((await task.info()).children).toEqual({ total: 200, pending: 200 });
});
