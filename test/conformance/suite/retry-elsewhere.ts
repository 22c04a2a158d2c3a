import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import {
  addNamed,
  addOne,
  claim,
  isPending,
  type Joined,
  joinWorker,
  MINUTE,
  nack,
  namesOf,
  numbered,
  QUEUE,
  release,
  SECOND,
  type Start,
} from "./kit.ts";

/** The default of `elsewhere`. */
const ELSEWHERE = 5 * SECOND;
const LEASE = 30 * SECOND;

function joinAll(port: Port, ...ids: string[]): Promise<Joined[]> {
  return Promise.all(ids.map((id) => joinWorker(port, id)));
}

export function retryElsewhere(start: Start): void {
  describe("retry elsewhere", () => {
    test("a failed task goes each time to a worker that has not failed it", async () => {
      const { port } = await start();
      const [a, b, c] = await joinAll(port, "a", "b", "c");
      await addOne(port);
      await nack(port, await a!.claimOne());
      expect(await a!.claim()).toEqual([]);
      await nack(port, await b!.claimOne());
      expect(await a!.claim()).toEqual([]);
      expect(await b!.claim()).toEqual([]);
      await nack(port, await c!.claimOne());
      // All workers have failed it, so no better one exists.
      expect((await b!.claimOne()).attempt).toBe(4);
    });

    test("a worker that failed a task still gets tasks of other queues, however many queues it claims from", async () => {
      const { port } = await start();
      const [a] = await joinAll(port, "a", "b");
      await addOne(port);
      await nack(port, await a!.claimOne());
      const behind = numbered(6, "behind-");
      await port.add([{ queue: behind.at(-1)!, data: "{}" }]);
      const claimed = await a!.claim({ queues: [QUEUE, ...behind], max: 1 });
      expect(claimed.map(({ queue }) => queue)).toEqual([behind.at(-1)]);
    });

    test("a failed task returns to its worker if no other takes it in time", async () => {
      const { port, clock } = await start();
      const [a] = await joinAll(port, "a", "b");
      await addOne(port);
      await nack(port, await a!.claimOne());
      await clock.advance(ELSEWHERE - 1);
      expect(await a!.claim()).toEqual([]);
      await clock.advance(1);
      expect((await a!.claimOne()).attempt).toBe(2);
    });

    test("the worker's waiting claim wakes when the failed task returns to it", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { elsewhere: 3_300 });
      const [a] = await joinAll(port, "a", "b");
      await addOne(port);
      await nack(port, await a!.claimOne());
      const answer = a!.claim({ wait: MINUTE });
      await clock.advance(3_299);
      expect(await isPending(clock, answer)).toBe(true);
      await clock.advance(1);
      expect(await answer).toHaveLength(1);
    });

    test("a failed task goes to another waiting worker, even if its own has waited longer", async () => {
      const { port, clock } = await start();
      const [a, b] = await joinAll(port, "a", "b");
      await addOne(port);
      const held = await a!.claimOne();
      const own = a!.claim({ wait: MINUTE });
      expect(await isPending(clock, own)).toBe(true);
      const other = b!.claim({ wait: MINUTE });
      expect(await isPending(clock, other)).toBe(true);
      await nack(port, held);
      expect((await other)[0]!.attempt).toBe(2);
      expect(await isPending(clock, own)).toBe(true);
    });

    test("a failed task wakes another waiting worker while its own takes another task", async () => {
      const { port, clock } = await start();
      const [a, b] = await joinAll(port, "a", "b");
      const { id } = await addOne(port);
      const held = await a!.claimOne();
      const own = a!.claim({ wait: MINUTE, max: 10 });
      expect(await isPending(clock, own)).toBe(true);
      const other = b!.claim({ wait: MINUTE });
      expect(await isPending(clock, other)).toBe(true);
      await Promise.all([nack(port, held), addNamed(port, ["fresh"])]);
      expect(namesOf(await own)).toEqual(["fresh"]);
      expect((await other)[0]!.id).toBe(id);
    });

    test("a failed task is offered to other workers from its due time, not from its failure", async () => {
      const { port, clock } = await start();
      const [a, b] = await joinAll(port, "a", "b");
      await addOne(port);
      await nack(port, await a!.claimOne(), MINUTE);
      await clock.advance(MINUTE);
      expect(await a!.claim()).toEqual([]);
      await clock.advance(ELSEWHERE - 1);
      expect(await a!.claim()).toEqual([]);
      expect(await b!.claim()).toHaveLength(1);
    });

    test("a manual claim with another worker name may take a failed task", async () => {
      const { port } = await start();
      const [a] = await joinAll(port, "a", "b");
      await addOne(port);
      await nack(port, await a!.claimOne());
      expect(await claim(port, { worker: "a" })).toEqual([]);
      expect(await claim(port, { worker: "somebody" })).toHaveLength(1);
    });

    test("a failed task blocks no other task", async () => {
      const { port } = await start();
      const [a] = await joinAll(port, "a", "b");
      await addNamed(port, ["1", "2"]);
      await nack(port, await a!.claimOne());
      expect(namesOf(await a!.claim({ max: 9 }))).toEqual(["2"]);
    });

    test("a failed task goes to another instance with the same name", async () => {
      const { port } = await start();
      const a = await joinWorker(port, "a", { name: "mailer" });
      const b = await joinWorker(port, "b", { name: "mailer" });
      await addOne(port);
      await nack(port, await a.claimOne());
      expect(await a.claim()).toEqual([]);
      expect(await b.claim()).toHaveLength(1);
    });

    test("a failed task returns at once if the policy's elsewhere is zero", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { elsewhere: 0 });
      const [a] = await joinAll(port, "a", "b");
      await addOne(port);
      await nack(port, await a!.claimOne());
      expect(await a!.claim()).toHaveLength(1);
    });

    test("a redriven task may go to any worker", async () => {
      const { port } = await start();
      const [a] = await joinAll(port, "a", "b");
      await addOne(port, { maxAttempts: 1 });
      await nack(port, await a!.claimOne());
      await port.redrive(QUEUE, {}, 0);
      expect(await a!.claim()).toHaveLength(1);
    });
  });

  describe("a failed task does not wait for other workers", () => {
    test("a failed task returns at once if there is no other worker", async () => {
      const { port } = await start();
      const [a] = await joinAll(port, "a");
      await addOne(port);
      await nack(port, await a!.claimOne());
      expect((await a!.claimOne()).attempt).toBe(2);
    });

    test("a failed task does not wait for a worker of other queues", async () => {
      const { port } = await start();
      const [a] = await joinAll(port, "a");
      await joinWorker(port, "b", { queues: ["other"] });
      await addOne(port);
      await nack(port, await a!.claimOne());
      expect(await a!.claim()).toHaveLength(1);
    });

    test("a failed task does not wait for a worker that has left", async () => {
      const { port } = await start();
      const [a, b] = await joinAll(port, "a", "b");
      await port.leave(b!.session);
      await addOne(port);
      await nack(port, await a!.claimOne());
      expect(await a!.claim()).toHaveLength(1);
    });

    test("a failed task does not wait for a worker without heartbeats", async () => {
      const { port, clock, hang } = await start();
      await joinWorker(port, "b");
      const goOn = hang();
      await clock.advance(LEASE);
      goOn();
      const [a] = await joinAll(port, "a");
      await addOne(port);
      await nack(port, await a!.claimOne());
      expect(await a!.claim()).toHaveLength(1);
    });
  });

  describe("what counts as a worker's failure", () => {
    test("a lost lease counts as a worker's failure", async () => {
      const { port, clock } = await start();
      const [a, b] = await joinAll(port, "a", "b");
      await addOne(port);
      await claim(port, { worker: "a", lease: SECOND });
      await clock.advance(SECOND);
      expect(await a!.claim()).toEqual([]);
      expect(await b!.claim()).toHaveLength(1);
    });

    test("a timeout counts as a worker's failure", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { timeout: 10 * SECOND });
      const [a, b] = await joinAll(port, "a", "b");
      await addOne(port);
      await a!.claimOne();
      await clock.advance(10 * SECOND);
      await a!.notices.next();
      expect(await a!.claim()).toEqual([]);
      expect(await b!.claim()).toHaveLength(1);
    });

    test("a release does not count as a worker's failure", async () => {
      const { port } = await start();
      const [a] = await joinAll(port, "a", "b");
      await addOne(port);
      await release(port, await a!.claimOne());
      expect((await a!.claimOne()).attempt).toBe(1);
    });

    test("releasing a task that another worker failed does not count as a failure", async () => {
      const { port } = await start();
      const [a, b] = await joinAll(port, "a", "b");
      await addOne(port);
      await nack(port, await a!.claimOne());
      await release(port, await b!.claimOne());
      expect(await a!.claim()).toEqual([]);
      expect(await b!.claim()).toHaveLength(1);
    });
  });

  test("a worker that failed thousands of tasks continues with others, and other workers get the failed ones", async () => {
    const { port } = await start();
    const [a, b] = await joinAll(port, "a", "b");
    const names = numbered(2_000);
    await addNamed(port, names);
    for (let taken = 0; taken < 2_000; taken += 1_000) {
      const held = await a!.claim({ max: 1_000 });
      await Promise.all(held.map((each) => nack(port, each)));
      if (taken === 0) expect(held).toHaveLength(1_000);
    }
    await addNamed(port, ["new"]);
    expect(namesOf(await a!.claim({ max: 1_000 }))).toEqual(["new"]);
    const taken: string[] = [];
    for (let round = 0; round < 100 && taken.length < 2_000; round++) {
      taken.push(...namesOf(await b!.claim({ max: 1_000 })));
    }
    expect(taken).toEqual(names);
  });
}
