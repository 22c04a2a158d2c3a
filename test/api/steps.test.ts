import { describe, expect, expectTypeOf, it } from "vitest";
import { type Dibs, Reject } from "../../src/index.ts";
import { latch, makeStore, openStore, STORES } from "../stores.ts";

const policy = { backoff: { type: "fixed", delay: 0, jitter: 0 }, elsewhere: 0 } as const;

describe.each(STORES)("steps on %s", (store) => {
  it("a step runs once, whatever happens after it", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number>("work", policy);
    const taken: string[] = [];
    queue.work(async (task) => {
      const when = await task.step("when", () => {
        taken.push("when");
        return new Date(0);
      });
      const nothing = await task.step("nothing", () => void taken.push("nothing"));
      if (task.attempt === 1) throw new Error("not yet");
      const both = await Promise.all([
        task.step("slow", () => taken.push("slow")),
        task.step("slow", () => taken.push("never")),
      ]);
      return [when, nothing === undefined, both];
    });
    const task = await queue.add(1);
    // Every attempt gets the value through JSON: a date is a text.
    expect(await task.result({ timeout: "20s" })).toEqual(["1970-01-01T00:00:00.000Z", true, [3, 3]]);
    expect(taken).toEqual(["when", "nothing", "slow"]);
  });

  it("a step that fails runs again, also in the same attempt", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number, number>("work", policy);
    let tries = 0;
    queue.work(async (task) => {
      const attempt = () =>
        task.step("shaky", () => {
          if (++tries < 3) throw new Error(`try ${tries}`);
          return tries;
        });
      return attempt().catch(attempt);
    });
    const task = await queue.add(1);
    expect(await task.result({ timeout: "20s" })).toBe(3);
    expect(await task.history()).toHaveLength(2);
  });

  it("a step refuses values that cannot be stored", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number, string[]>("work");
    queue.work(async (task) => {
      const messages: string[] = [];
      for (const attempt of [
        () => task.step("a", () => Number.NaN),
        () => task.step("b", 5 as never),
        () => task.step("", () => 1),
        () => task.waitFor("c", { timeout: "soon" as never }),
        () => task.waitFor("c", { patience: 1 } as never),
      ])
        await attempt().catch((error: unknown) => messages.push((error as Error).message));
      return messages;
    });
    expect(await (await queue.add(1)).result({ timeout: "20s" })).toEqual([
      expect.stringContaining('JSON cannot carry the step "a": NaN'),
      expect.stringContaining("step() takes a name and a function; got 5"),
      expect.stringContaining("A step's name must be a text"),
      expect.stringContaining("timeout must be a duration"),
      expect.stringContaining('Unknown waitFor option "patience"'),
    ]);
  });

  it("a step with an invalid name does not run", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number>("work", { ...policy, maxAttempts: 1 });
    let taken = 0;
    queue.work((task) => task.step("x".repeat(300), () => ++taken));
    await expect((await queue.add(1)).result({ timeout: "20s" })).rejects.toThrow(/A step's name/);
    expect(taken).toBe(0);
  });

  it("a handler may wait for several signals, one after the other, without awaiting the first", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number, unknown[]>("work", policy);
    queue.work(async (task) => {
      const [a, b] = [task.waitFor("a"), task.waitFor("b")];
      void task.progress(7);
      return [await a, await b];
    });
    const task = await queue.add(1);
    while (!(await task.signal("a", 1))) await new Promise((resolve) => setTimeout(resolve, 5));
    await task.signal("b", 2);
    expect(await task.result({ timeout: "20s" })).toEqual([1, 2]);
  });

  it("a dead letter keeps its steps, unless it is redriven with fresh", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number, number>("work");
    let taken = 0;
    let isOpen = false;
    queue.work(async (task) => {
      const n = await task.step("count", () => ++taken);
      if (!isOpen) throw new Reject("closed");
      return n;
    });
    const tasks = await queue.addMany([{ data: 1 }, { data: 2 }]);
    await Promise.allSettled(tasks.map((task) => task.result({ timeout: "20s" })));
    isOpen = true;
    await queue.dead.redrive({ ids: [tasks[0]!.id] });
    await queue.dead.redrive({ ids: [tasks[1]!.id], fresh: true });
    expect(await Promise.all(tasks.map((task) => task.result({ timeout: "20s" })))).toEqual([1, 3]);
    await expect(queue.dead.redrive({ fresh: 1 as never })).rejects.toThrow(
      "fresh must be true or false; got 1",
    );
  });
});

describe.each(STORES)("waiting for a signal on %s", (store) => {
  async function parked(dibs: Dibs, id: string): Promise<void> {
    await expect.poll(async () => (await dibs.task(id).info()).state).toBe("parked");
  }

  it("waiting for a signal parks the task and frees its worker", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<string>("work", { maxAttempts: 1 });
    let runs = 0;
    queue.work(async (task) => {
      if (task.data === "other") return "done meanwhile";
      runs++;
      // A handler that swallows the error is parked all the same.
      const answer = await task.waitFor<{ by: string }>("approval").catch(() => undefined);
      return answer?.by;
    });
    const waits = await queue.add("waits");
    await parked(dibs, waits.id);
    expect(await (await queue.add("other")).result({ timeout: "20s" })).toBe("done meanwhile");
    expect(await waits.info()).toMatchObject({ waitsFor: "approval", attempt: 1, dueAt: null });
    expect(await waits.signal("approval", { by: "ada" })).toBe(true);
    expect(await waits.signal("approval", { by: "eve" })).toBe(false);
    expect(await waits.result({ timeout: "20s" })).toBe("ada");
    expect(runs).toBe(2);
    expect(await waits.signal("approval")).toBe(false);
  });

  it("waiting for a signal that arrived early returns at once", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number>("work");
    const task = await queue.add(1);
    await task.signal("go");
    let runs = 0;
    queue.work(async (held) => {
      runs++;
      return (await held.waitFor("go")) === undefined;
    });
    expect(await task.result({ timeout: "20s" })).toBe(true);
    expect(runs).toBe(1);
  });

  it("waiting for a signal ends with TIMEOUT", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number, string>("work", { maxAttempts: 1 });
    queue.work(async (held) => {
      try {
        return await held.waitFor<string>("go", { timeout: "50ms" });
      } catch (error) {
        if ((error as { code?: string }).code === "TIMEOUT") return (error as Error).message;
        throw error;
      }
    });
    expect(await (await queue.add(1)).result({ timeout: "20s" })).toMatch(/^No signal "go" arrived for task/);
  });

  it("sleeping parks the task, and each sleep happens once", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<string>("work", { ...policy, maxAttempts: 2 });
    const calls: number[] = [];
    queue.work(async (task) => {
      if (task.data === "other") return "done meanwhile";
      calls.push(task.attempt);
      void task.log(`call ${calls.length}`);
      await task.sleep("50ms");
      if (calls.length === 2) throw new Error("after the first sleep");
      await task.sleep("1d");
      return "woken";
    });
    const sleeps = await queue.add("sleeps");
    await expect.poll(async () => (await sleeps.info()).waitsFor).toBe("sleep:2");
    const { state, dueAt } = await sleeps.info();
    expect(state).toBe("parked");
    expect(dueAt!.getTime()).toBeGreaterThan(Date.now() + 23 * 3_600_000);
    expect(await (await queue.add("other")).result({ timeout: "20s" })).toBe("done meanwhile");
    expect(await sleeps.signal("sleep:2")).toBe(true);
    expect(await sleeps.result({ timeout: "20s" })).toBe("woken");
    expect(calls).toEqual([1, 1, 2, 2]);
    const ledger = await sleeps.history();
    expect(ledger.map(({ outcome }) => outcome)).toEqual(["parked", "failed", "parked", "done"]);
    expect(ledger.map(({ log }) => log.map(({ text }) => text))).toEqual([
      ["call 1"],
      ["call 2"],
      ["call 3"],
      ["call 4"],
    ]);
  });

  it("a redriven task does not sleep again", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number>("work", { ...policy, maxAttempts: 1 });
    let calls = 0;
    queue.work(async (task) => {
      await task.sleep(1);
      if (++calls === 1) throw new Error("dead after the sleep");
      return task.attempt;
    });
    const task = await queue.add(1);
    await expect(task.result({ timeout: "20s" })).rejects.toMatchObject({ code: "TASK_DEAD" });
    await queue.dead.redrive();
    expect(await task.result({ timeout: "20s" })).toBe(1);
    expect((await task.history()).map(({ outcome }) => outcome)).toEqual(["parked", "failed", "done"]);
  });

  it("sleeping and logging refuse what they cannot use", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number>("work");
    queue.work(async (task) => {
      const messages: string[] = [];
      for (const call of [
        () => task.sleep("soon" as never),
        () => task.log(7 as never),
        () => task.waitFor("sleep:1"),
      ])
        await call().catch((error: unknown) => messages.push((error as Error).message));
      return messages;
    });
    expect(await (await queue.add(1)).result({ timeout: "20s" })).toEqual([
      expect.stringContaining("soon"),
      expect.stringContaining("task.log() takes a text"),
      expect.stringContaining("belong to task.sleep()"),
    ]);
  });

  it("waiting for a signal in a batch parks one task and releases the others", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number, number>("work", { maxAttempts: 1 });
    const tasks = await queue.addMany([{ data: 1 }, { data: 2 }]);
    queue.workBatch(
      async (batch) => {
        for (const task of batch) if (task.data === 1) await task.waitFor("go");
        return batch.map((task) => task.data);
      },
      { max: 2 },
    );
    expect(await tasks[1]!.result({ timeout: "20s" })).toBe(2);
    await parked(dibs, tasks[0]!.id);
    await tasks[0]!.signal("go");
    expect(await tasks[0]!.result({ timeout: "20s" })).toBe(1);
  });

  it("step and waitFor return typed promises", async () => {
    const dibs = await openStore("memory");
    dibs.queue<number>("work").work(async (task) => {
      expectTypeOf(task.step("a", () => 1)).resolves.toBeNumber();
      expectTypeOf(task.step("b", async () => "x")).resolves.toBeString();
      expectTypeOf(task.waitFor<{ by: string }>("go")).resolves.toEqualTypeOf<{ by: string }>();
      expectTypeOf(task.waitFor("go")).resolves.toBeUnknown();
    });
  });
});

/** Concurrent, because each takes seconds: a stopping worker aborts its handlers after 80 % of its timeout. */
describe.concurrent("waiting for a signal while its worker stops", () => {
  it.for(STORES)("a stopping worker parks the task on %s", async (store, { onTestFinished }) => {
    const { dibs, remove } = await makeStore(store);
    onTestFinished(remove);
    const queue = dibs.queue<number>("work");
    const started = latch();
    const worker = queue.work(async (held) => {
      started.open();
      await new Promise((resolve) => held.signal.addEventListener("abort", resolve));
      await held.waitFor("go");
    });
    const task = await queue.add(1);
    await started.promise;
    await worker.stop({ timeout: "10s" });
    expect((await task.info()).state).toBe("parked");
  });
});
