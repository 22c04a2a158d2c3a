import { describe, expect, expectTypeOf, it } from "vitest";
import { Reject } from "../../src/index.ts";
import { openStore, STORES } from "../stores.ts";

const policy = { backoff: { type: "fixed", delay: 0, jitter: 0 } } as const;

describe.each(STORES)("a verified queue on %s", (store) => {
  it("a verified result shows, and its tasks are added, once a verifier has accepted it", async () => {
    const dibs = await openStore(store);
    const next = dibs.queue<string>("next");
    const letters = dibs.queue<{ to: string }, string>("letters", policy);
    const feedback: (string | undefined)[] = [];
    const seen: unknown[] = [];
    letters.verify((task, result) => {
      expectTypeOf(task.data).toEqualTypeOf<{ to: string }>();
      expectTypeOf(result).toBeString();
      seen.push([task.data.to, task.attempt, result]);
      return result.startsWith("Dear") || { refuse: "say hello first" };
    });
    letters.work(
      async (task) => {
        feedback.push(task.feedback);
        await task.add(next, `sent ${task.attempt}`);
        return task.feedback === undefined ? "Hey" : `Dear ${task.data.to}`;
      },
      { concurrency: 2 },
    );
    const task = await letters.add({ to: "Ada" });
    expect(await task.result({ timeout: "20s" })).toBe("Dear Ada");
    expect(feedback).toEqual([undefined, "say hello first"]);
    expect(seen).toEqual([
      ["Ada", 1, "Hey"],
      ["Ada", 2, "Dear Ada"],
    ]);
    const [added, ...others] = await next.claim({ max: 5 });
    expect([added!.data, others.length]).toEqual(["sent 2", 0]);
    expect((await task.history()).map(({ outcome }) => outcome)).toEqual(["refused", "done"]);
    expect((await dibs.queues()).find(({ name }) => name === "letters")!.policy.verified).toBe(true);
  });

  it("a queue stays unverified after an operator has ended verification, when its verifier starts again", async () => {
    const dibs = await openStore(store);
    const verified = async () =>
      (await dibs.queues()).find(({ name }) => name === "letters")!.policy.verified;
    const start = async (options: object) => {
      const worker = dibs.queue("letters", options).verify(() => true);
      await worker.ready;
      await worker.stop();
    };
    await start(policy);
    expect(await verified()).toBe(true);
    await dibs.queue("letters").configure({ verified: false });
    await start(policy);
    expect(await verified()).toBe(false);
    await dibs.queue("letters").configure({ verified: true });
    await start({ ...policy, verified: true });
    await dibs.queue("letters").configure({ verified: false });
    await start({ ...policy, verified: true });
    expect(await verified()).toBe(false);
    // Another program, which declares nothing but its verifier.
    await start({});
    expect(await verified()).toBe(false);
  });

  it("a refused task gets the feedback, also from a verifier that gives none, or rejects", async () => {
    const dibs = await openStore(store);
    const letters = dibs.queue<number>("letters", { ...policy, elsewhere: 0 });
    letters.verify((task) => {
      if (task.attempt === 1) return { refuse: "" };
      if (task.attempt === 2) throw new Reject("too short");
      return true;
    });
    const feedback: (string | undefined)[] = [];
    letters.work((task) => void feedback.push(task.feedback));
    await (await letters.add(1)).result({ timeout: "20s" });
    expect(feedback).toEqual([undefined, "The verifier refused it, and did not say why.", "too short"]);
  });

  it("an accepted result that can never be stored is refused", async () => {
    const dibs = await openStore(store);
    const letters = dibs.queue<number>("letters", { ...policy, maxAttempts: 1 });
    const small = dibs.queue<string>("small");
    letters.verify(async () => {
      await small.configure({ maxPayload: 3 });
      return true;
    });
    letters.work((task) => task.add(small, "more than three bytes"));
    await expect((await letters.add(1)).result({ timeout: "20s" })).rejects.toThrow(
      /cannot be stored: .*maxPayload/,
    );
  });

  it("a failing verifier is retried, and its failures do not count against the task", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number, number>("work", { maxAttempts: 1 });
    await dibs.queue("work/verify", policy).ready;
    let tries = 0;
    queue.verify(() => {
      if (++tries === 1) throw new Error("not now");
      if (tries === 2) return "fine" as never;
      return true;
    });
    queue.work((task) => task.data);
    expect(await (await queue.add(7)).result({ timeout: "20s" })).toBe(7);
    expect(tries).toBe(3);
    const verdicts = await dibs.queue("work/verify").tasks({ state: "done" });
    expect((await dibs.task(verdicts.tasks[0]!.id).history()).map(({ error }) => error?.message)).toEqual([
      "not now",
      'A verifier returns true, false or { refuse: "why" }; got "fine".',
      undefined,
    ]);
  });

  it("a verifier skips a task that was cancelled meanwhile", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number, number>("work");
    await queue.configure({ verified: true });
    queue.work((task) => task.data);
    const task = await queue.add(1);
    await expect.poll(async () => (await task.info()).state).toBe("verifying");
    await task.cancel();
    let judged = 0;
    queue.verify(() => ++judged > 0);
    await expect.poll(async () => (await dibs.queue("work/verify").stats()).depth.done).toBe(1);
    expect(judged).toBe(0);
    await expect(task.result()).rejects.toMatchObject({ code: "TASK_CANCELLED" });
  });

  it("verify refuses an argument that is not a function", async () => {
    const dibs = await openStore(store);
    expect(() => dibs.queue("work").verify(5 as never)).toThrow("verify() takes a function first; got 5.");
  });
});
