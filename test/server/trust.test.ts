import { describe, expect, test } from "vitest";
import { setUp, task, claimCall } from "./guarded.ts";

/** A server does not trust what a caller says about a task: its queue, its run. */
describe("what a server does not trust", () => {
  test("the queue that a caller names with a claim is not trusted: the backoff is that of the task's own queue", async () => {
    const { openAs, store } = await setUp();
    const fixed = (delay: number) => ({ type: "fixed", delay, max: 3_600_000, jitter: 0 }) as const;
    await store.declare("own", { backoff: fixed(0), elsewhere: 0 });
    await store.declare("foreign", { backoff: fixed(3_600_000) });
    await store.add([task("own")]);
    const port = await openAs("work:own");
    const [held] = (await port.claim(claimCall("own"))).tasks;
    const error = { name: "Error", message: "no", stack: null };
    await port.settle({ ...held!, queue: "foreign" }, { kind: "nack", error });
    expect((await port.claim({ ...claimCall("own"), wait: 10_000 })).tasks).toHaveLength(1);
  });

  test("a run or a stage that a caller names with an add is not trusted", async () => {
    const { openAs, store } = await setUp();
    const stages = [{ name: "a", joins: false }];
    const [first] = await store.add([{ ...task("foreign/a"), run: { pipeline: "foreign", stages } }]);
    const port = await openAs("add:own*", "work:own*");
    const run = { id: first!.id, pipeline: "foreign", stages };
    for (const queue of ["own/a", "foreign/a"])
      await expect(port.add([{ ...task(queue), run }])).rejects.toMatchObject({ code: "FORBIDDEN" });
    const ownRun = { ...run, pipeline: "own" };
    await expect(port.add([{ ...task("own/a"), run: ownRun }])).rejects.toMatchObject({ code: "INVALID" });
    await port.add([{ ...task("own/a"), run: { pipeline: "own", stages } }]);
    expect((await store.run(first!.id)).parts).toHaveLength(1);
  });

  test("the place in a run that a caller gives to a task, a message or what an ack adds is not trusted", async () => {
    const { openAs, store } = await setUp();
    const stages = [
      { name: "a", joins: false },
      { name: "b", joins: true },
    ];
    const [first] = await store.add([{ ...task("foreign/a"), run: { pipeline: "foreign", stages } }]);
    await store.subscribe("own", "group", {});
    const port = await openAs("add:own*", "work:own*", "add:topic/own");
    const at = { id: first!.id, stage: "a", part: [7], joins: false };
    const injected = { ...task("own"), at };
    const message = { topic: "own", data: "{}", at };
    await port.add([task("own"), task("own")]);
    const { tasks } = await port.claim({ ...claimCall("own"), max: 2 });
    const calls = [
      port.add([injected]),
      port.publish(message),
      port.settle(tasks[0]!, { kind: "ack", result: null, adds: [injected] }),
      port.settle(tasks[1]!, { kind: "ack", result: null, adds: [message] }),
    ];
    for (const call of await Promise.allSettled(calls))
      expect(call).toMatchObject({ status: "rejected", reason: { code: "INVALID" } });
    expect((await store.run(first!.id)).parts).toHaveLength(1);
  });
});
