import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import type { ClaimedTask, NewTask, TaskState } from "../../../src/core/task/task.ts";
import { NO_VERDICT, type Verified, verificationQueue } from "../../../src/core/handler/verification.ts";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimNames,
  claimOne,
  isPending,
  joinWorker,
  MINUTE,
  nack,
  newTask,
  QUEUE,
  refused,
  reject,
  release,
  SECOND,
  type Start,
  stateOf,
  waiting,
  type World,
} from "./kit.ts";

const VERIFIERS = verificationQueue(QUEUE);

/** A task whose result waits for a verdict, and the task that asks for it. */
async function verifying(port: Port, options: { result?: string | null; adds?: NewTask[] } = {}) {
  const held = await claimOne(port);
  expect(await ack(port, held, options.result ?? null, options.adds)).toBe("verifying");
  return { held, asking: await claimOne(port, { queues: [VERIFIERS] }) };
}

function verifiedBy(asking: ClaimedTask): Verified {
  return JSON.parse(asking.data as string) as Verified;
}

async function accept(port: Port, asking: ClaimedTask): Promise<TaskState> {
  return (await port.settle(asking, { kind: "accept", of: verifiedBy(asking) })).state;
}

async function refuse(
  port: Port,
  asking: ClaimedTask,
  feedback = "too short",
  attempt = 1,
): Promise<TaskState> {
  const of = { ...verifiedBy(asking), queue: QUEUE, attempt };
  return (await port.settle(asking, { kind: "refuse", of, feedback })).state;
}

export function verification(start: Start): void {
  async function verified(policy = {}): Promise<World> {
    const world = await start();
    await world.port.declare(QUEUE, {
      verified: true,
      backoff: { type: "fixed", delay: 0, max: 0, jitter: 0 },
      ...policy,
    });
    return world;
  }

  describe("forged tasks in a verification queue", () => {
    const FORGED = verificationQueue("other");
    test.each([FORGED, VERIFIERS])(
      "a task that a caller adds to a verification queue settles no result: in %s",
      async (queue) => {
        const { port } = await verified();
        const { id } = await addOne(port);
        const { held, asking } = await verifying(port, { result: "1" });
        const data = JSON.stringify({ id, fence: held.fence });
        const forged = newTask({ queue, data, maxAttempts: 1 });
        const ends: ((task: ClaimedTask) => Promise<unknown>)[] = [
          (task) => accept(port, task),
          (task) => refuse(port, task),
          (task) => ack(port, task),
          (task) => nack(port, task),
          (task) => reject(port, task),
          async (task) => {
            await port.cancel(task.id);
            await release(port, task);
          },
        ];
        for (const end of ends) {
          await port.add([forged]);
          await end(await claimOne(port, { queues: [queue] }));
          expect(await stateOf(port, id)).toBe("verifying");
        }
        await port.add([forged]);
        await port.purge(queue);
        expect(await stateOf(port, id)).toBe("verifying");
        expect(await accept(port, asking)).toBe("done");
        expect(await port.task(id)).toMatchObject({ state: "done", result: "1" });
      },
    );

    test("deleting the queue of a forged verification task settles no result", async () => {
      const { port } = await verified();
      const { id } = await addOne(port);
      const { held } = await verifying(port);
      await port.add([newTask({ queue: FORGED, data: JSON.stringify({ id, fence: held.fence }) })]);
      await port.drop(FORGED);
      expect(await stateOf(port, id)).toBe("verifying");
    });

    test("a verdict about a result that the verifier has not claimed has no effect", async () => {
      const { port } = await verified();
      await addOne(port);
      const first = await verifying(port);
      await addOne(port);
      const second = await verifying(port);
      await port.settle(first.asking, { kind: "accept", of: verifiedBy(second.asking) });
      expect(await stateOf(port, second.held.id)).toBe("verifying");
      expect(await stateOf(port, first.held.id)).not.toBe("done");
    });
  });

  test("deleting a verified queue deletes its verification queue", async () => {
    const { port } = await verified();
    await addOne(port);
    await verifying(port);
    await port.drop(QUEUE);
    expect((await port.queues()).items).toEqual([]);
    // A queue that only has such a name is kept.
    await port.declare(QUEUE, {});
    await port.declare(VERIFIERS, {});
    await port.drop(QUEUE);
    expect((await port.queues()).items.map(({ name }) => name)).toEqual([VERIFIERS]);
  });

  test("deleting a queue that is no longer verified deletes the requests for verdicts on its results", async () => {
    const { port } = await verified();
    await addOne(port);
    await verifying(port);
    await port.declare(QUEUE, { verified: false }, { force: true });
    await port.drop(QUEUE);
    expect((await port.queues()).items).toEqual([]);
  });

  describe("results in a verified queue", () => {
    test("a result and the tasks that it adds wait until a verifier accepts them", async () => {
      const { port } = await verified();
      const { id } = await addOne(port);
      const adds = [
        newTask({ queue: "next", data: "a" }),
        newTask({ queue: "next", data: new Uint8Array([0, 9]) }),
      ];
      const { held, asking } = await verifying(port, { result: '"letter"', adds });
      expect(await port.task(id)).toMatchObject({ state: "verifying", result: null, worker: "hand" });
      expect((await port.stats(QUEUE)).depth).toMatchObject({ verifying: 1, claimed: 0, done: 0 });
      expect(await claim(port, { queues: ["next"] })).toEqual([]);
      await refused(() => ack(port, held), "CLAIM_LOST");
      const of = verifiedBy(asking);
      expect(of).toEqual({ id, fence: held.fence });
      expect(await port.verifying(of)).toMatchObject({ result: '"letter"', task: { id, data: "{}" } });
      const end = port.end(id);
      expect(await accept(port, asking)).toBe("done");
      expect(await end).toMatchObject({ state: "done", result: '"letter"' });
      expect((await claim(port, { queues: ["next"], max: 5 })).map(({ data }) => data)).toEqual([
        "a",
        new Uint8Array([0, 9]),
      ]);
      expect(await port.history(id)).toMatchObject([{ outcome: "done", fence: held.fence, worker: "hand" }]);
      await refused(() => port.verifying(of), "TASK_NOT_FOUND");
    });

    test("a refused result is a failed attempt, and the next attempt gets the feedback", async () => {
      const { port } = await verified({ maxAttempts: 2 });
      const { id } = await addOne(port);
      const first = await verifying(port, { adds: [newTask({ queue: "next" })] });
      expect(await refuse(port, first.asking)).toBe("done");
      const again = await claimOne(port);
      expect(again).toMatchObject({ id, attempt: 2, feedback: "too short" });
      expect(await port.history(id)).toMatchObject([
        { outcome: "refused", worker: "hand", error: { name: "Refused", message: "too short" } },
      ]);
      expect(await claim(port, { queues: ["next"] })).toEqual([]);
      await ack(port, again);
      const asking = await claimOne(port, { queues: [VERIFIERS] });
      await refuse(port, asking, "still too short", 2);
      expect(await port.task(id)).toMatchObject({ state: "dead", error: { name: "Refused" } });
    });

    test("a refused task goes to another worker", async () => {
      const { port } = await verified();
      const [one, two] = [await joinWorker(port, "one"), await joinWorker(port, "two")];
      await addOne(port);
      await ack(port, await one.claimOne());
      await refuse(port, await claimOne(port, { queues: [VERIFIERS] }));
      expect(await one.claim()).toEqual([]);
      expect(await two.claimOne()).toMatchObject({ attempt: 2, feedback: "too short" });
    });

    test("a refusal with keepSteps keeps the steps", async () => {
      const { port } = await verified();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      await port.step(held, "plan", "1");
      await ack(port, held);
      const asking = await claimOne(port, { queues: [VERIFIERS] });
      const of = { id, fence: held.fence, queue: QUEUE, attempt: 1 };
      await port.settle(asking, { kind: "refuse", of, feedback: "too short", keepSteps: true });
      expect(await claimOne(port)).toMatchObject({ attempt: 2, feedback: "too short", stepped: true });
      expect(await port.steps(id)).toEqual([{ kind: "step", name: "plan", value: "1" }]);
    });

    test("a refusal removes the steps", async () => {
      const { port } = await verified();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      await port.step(held, "plan", "1");
      await ack(port, held);
      expect(await port.steps(id)).toHaveLength(1);
      await refuse(port, await claimOne(port, { queues: [VERIFIERS] }));
      expect(await port.steps(id)).toEqual([]);
      const again = await claimOne(port);
      expect(again.stepped).toBeUndefined();
      expect(again.feedback).toBe("too short");
      await port.step(again, "plan", "2");
      await nack(port, again);
      expect(await claimOne(port)).toMatchObject({ stepped: true, feedback: "too short" });
    });

    test("a refusal keeps the signals, because they are not sent again", async () => {
      const { port, clock } = await verified();
      const { id } = await addOne(port);
      await port.settle(await claimOne(port), { kind: "park", signal: "payment", timeout: SECOND });
      await clock.advance(SECOND);
      await port.signal(id, "approval", "yes");
      const { asking } = await verifying(port);
      await refuse(port, asking);
      expect(await port.steps(id)).toEqual([
        { kind: "signal", name: "approval", value: "yes" },
        { kind: "timeout", name: "payment", value: null },
      ]);
      expect(await claimOne(port)).toMatchObject({ stepped: true, feedback: "too short" });
    });

    test("a result waits for another verifier when one is lost or fails", async () => {
      const { port, clock } = await verified();
      const { id } = await addOne(port);
      await ack(port, await claimOne(port), '"x"');
      await claimOne(port, { queues: [VERIFIERS], lease: SECOND });
      await clock.advance(SECOND);
      await nack(port, await claimOne(port, { queues: [VERIFIERS] }));
      expect(await stateOf(port, id)).toBe("verifying");
      await accept(port, await claimOne(port, { queues: [VERIFIERS] }));
      expect(await port.end(id)).toMatchObject({ state: "done", result: '"x"' });
    });

    test("a verifying task blocks its group", async () => {
      const { port } = await verified();
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      const { asking } = await verifying(port);
      expect(await claimNames(port)).toEqual([]);
      const next = waiting(port);
      await accept(port, asking);
      expect((await next)[0]!.data).toBe("2");
    });

    test("a verifying task can be cancelled, and then no verdict counts", async () => {
      const { port } = await verified();
      const { id } = await addOne(port);
      const { asking } = await verifying(port, { result: "1", adds: [newTask({ queue: "next" })] });
      expect(await port.cancel(id)).toBe("cancelled");
      expect(await accept(port, asking)).toBe("done");
      expect(await port.task(id)).toMatchObject({ state: "cancelled", result: null });
      expect(await port.history(id)).toMatchObject([{ outcome: "cancelled" }]);
      expect(await claim(port, { queues: ["next"] })).toEqual([]);
    });

    test("a result is settled only by its own verdict", async () => {
      const { port } = await verified();
      const [first, second] = await addNamed(port, ["1", "2"]);
      const one = await verifying(port, { result: "1" });
      const two = await verifying(port, { result: "2" });
      const of = { id: first!, fence: two.held.fence };
      expect((await port.settle(one.asking, { kind: "accept", of })).state).toBe("done");
      // The verdict names another fence and has no effect. So the first result got no verdict.
      expect(await port.task(first!)).toMatchObject({ state: "ready", attempt: 2 });
      expect(await stateOf(port, second!)).toBe("verifying");
      await accept(port, two.asking);
      expect(await stateOf(port, second!)).toBe("done");
    });

    test("a result waits while the tasks that it adds do not fit, and the verifier gets the error", async () => {
      const { port } = await verified();
      await port.declare("next", { maxDepth: 1 });
      const { id } = await addOne(port);
      const { asking } = await verifying(port, { adds: [newTask({ queue: "next" })] });
      await addOne(port, { queue: "next" });
      await refused(() => accept(port, asking), "QUEUE_FULL");
      expect(await stateOf(port, id)).toBe("verifying");
      await port.purge("next");
      await accept(port, asking);
      expect(await stateOf(port, id)).toBe("done");
    });

    test("a limit of the verification queue does not refuse a result", async () => {
      const { port } = await verified();
      await port.declare(VERIFIERS, { maxDepth: 1, maxPayload: 1 });
      const ids = await addNamed(port, ["1", "2"]);
      for (const held of await claim(port, { max: 2 })) expect(await ack(port, held)).toBe("verifying");
      await refused(() => addOne(port, { queue: VERIFIERS, data: "x" }), "QUEUE_FULL");
      const asking = await claim(port, { queues: [VERIFIERS], max: 2 });
      await Promise.all(asking.map((each) => accept(port, each)));
      for (const id of ids) expect(await stateOf(port, id)).toBe("done");
    });

    test("a verifying task is listed, is not purged, and is removed with its queue", async () => {
      const { port } = await verified();
      const [id] = await addNamed(port, ["1"]);
      const { asking } = await verifying(port);
      expect(await port.purge(QUEUE)).toBe(0);
      const { tasks } = await port.list({ queue: QUEUE, state: "verifying", limit: 10 });
      expect(tasks.map((task) => task.id)).toEqual([id]);
      await port.drop(QUEUE);
      // The task that asked for the verdict was removed with it.
      await refused(() => accept(port, asking), "CLAIM_LOST");
      await refused(() => port.task(id!), "TASK_NOT_FOUND");
    });

    test.each([
      ["acked", (port: Port, asking: ClaimedTask) => ack(port, asking)],
      ["rejected", (port: Port, asking: ClaimedTask) => reject(port, asking)],
      [
        "purged",
        async (port: Port, asking: ClaimedTask) => {
          await release(port, asking);
          await port.purge(VERIFIERS);
        },
      ],
      ["dropped", (port: Port) => port.drop(VERIFIERS)],
    ])("a result is refused if the task that asks for its verdict was %s", async (_, end) => {
      const { port } = await verified();
      const { id } = await addOne(port);
      const { asking } = await verifying(port);
      const next = waiting(port);
      await end(port, asking);
      expect((await next)[0]).toMatchObject({
        id,
        attempt: 2,
        feedback: expect.stringMatching(/No verifier decided/),
      });
    });

    test("a verifying task does not expire", async () => {
      const { port, clock } = await verified();
      const { id } = await addOne(port, { ttl: MINUTE });
      const { asking } = await verifying(port);
      await clock.advance(2 * MINUTE);
      expect(await stateOf(port, id)).toBe("verifying");
      await refused(() => accept(port, asking), "CLAIM_LOST");
      await refuse(port, await claimOne(port, { queues: [VERIFIERS] }));
      expect(await stateOf(port, id)).toBe("expired");
    });

    test("a hundred results at the same moment all wait for verdicts", async () => {
      const { port } = await verified();
      await addNamed(
        port,
        Array.from({ length: 120 }, (_, i) => `${i}`),
      );
      await addNamed(port, ["plain"], { queue: "plain" });
      const held = [
        ...(await claim(port, { max: 200 })),
        ...(await claim(port, { queues: ["plain"], max: 1 })),
      ];
      const states = await Promise.all(held.map((each) => ack(port, each)));
      expect(states).toEqual([...Array.from({ length: 120 }, () => "verifying"), "done"]);
      expect((await port.stats(QUEUE)).depth).toMatchObject({ verifying: 120, done: 0 });
      const asking = await claim(port, { queues: [VERIFIERS], max: 200 });
      await Promise.all(asking.map((each) => accept(port, each)));
      expect((await port.stats(QUEUE)).depth).toMatchObject({ verifying: 0, done: 120 });
    });

    test("results whose verifiers end without a verdict fail, also at the same moment", async () => {
      const { port } = await verified();
      await addNamed(port, ["a", "b"]);
      for (const held of await claim(port, { max: 2 })) await ack(port, held);
      const asking = await claim(port, { queues: [VERIFIERS], max: 2 });
      await Promise.all(asking.map((each) => ack(port, each)));
      expect((await port.stats(QUEUE)).depth).toMatchObject({ verifying: 0, ready: 2, done: 0 });
      expect(await claimOne(port)).toMatchObject({ attempt: 2, feedback: NO_VERDICT });
    });

    test("a verifier that ends without a verdict may add tasks to a full queue", async () => {
      const { port } = await verified({ maxDepth: 1 });
      await addOne(port);
      const { asking } = await verifying(port);
      expect(await ack(port, asking, null, [newTask({ data: "2" })])).toBe("done");
      expect((await port.stats(QUEUE)).depth).toMatchObject({ ready: 2, verifying: 0 });
    });

    test("a caller that waits for a result is answered at once when the verifier ends without a verdict", async () => {
      const { port, clock } = await verified({ maxAttempts: 1 });
      const { id } = await addOne(port);
      const end = port.end(id);
      const { asking } = await verifying(port);
      expect(await isPending(clock, end)).toBe(true);
      await reject(port, asking);
      expect((await end).state).toBe("dead");
    });

    test("a verdict after the verifier's claim ended is refused", async () => {
      const { port } = await verified();
      const { id } = await addOne(port);
      const { asking } = await verifying(port);
      await nack(port, asking);
      await refused(() => accept(port, asking), "CLAIM_LOST");
      expect(await stateOf(port, id)).toBe("verifying");
    });

    test("results need no verdict after the queue is no longer verified", async () => {
      const { port } = await verified();
      const [first, second] = await addNamed(port, ["1", "2"]);
      const { asking } = await verifying(port);
      await port.declare(QUEUE, { verified: false }, { force: true });
      expect(await ack(port, await claimOne(port))).toBe("done");
      expect(await stateOf(port, second!)).toBe("done");
      await accept(port, asking);
      expect(await stateOf(port, first!)).toBe("done");
    });

    test("verifying a queue is refused if the name of its verification queue would be too long", async () => {
      const { port } = await start();
      await refused(() => port.declare("q".repeat(125), { verified: true }), "INVALID");
    });
  });
}
