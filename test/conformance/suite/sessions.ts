import { describe, expect, test } from "vitest";
import type { ClaimNotice } from "../../../src/core/port.ts";
import { govern } from "./governing.ts";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimNames,
  claimOne,
  HOUR,
  Inbox,
  joinWorker,
  MINUTE,
  nack,
  QUEUE,
  refused,
  SECOND,
  type Start,
  stateOf,
  waiting,
} from "./kit.ts";

const LEASE = 30 * SECOND;

export function sessions(start: Start): void {
  describe("the claims of a live worker", () => {
    test("last over any number of leases", async () => {
      const { port, clock } = await start();
      const worker = await joinWorker(port, "w");
      await addNamed(port, ["1", "2", "3"]);
      const held = await worker.claim({ max: 3 });
      await clock.advance(6 * LEASE);
      expect(await claim(port, { worker: "other" })).toEqual([]);
      for (const each of held) expect(await ack(port, each)).toBe("done");
      expect(worker.notices.all).toEqual([]);
    });

    test("last even where the queue's lease is shorter than the time between two signs of life", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { lease: SECOND });
      const worker = await joinWorker(port, "w", { lease: LEASE });
      await addOne(port);
      const held = await worker.claimOne();
      await clock.advance(4 * LEASE);
      expect(await ack(port, held)).toBe("done");
    });

    test("do not keep alive what somebody claimed by hand", async () => {
      const { port, clock } = await start();
      await joinWorker(port, "w");
      const { id } = await addOne(port);
      await claimOne(port, { worker: "w" });
      await clock.advance(LEASE);
      expect(await stateOf(port, id)).toBe("ready");
    });
  });

  describe("the claims of a worker that gives no sign of life", () => {
    test("are lost when its lease ends, and counted as failures", async () => {
      const { port, clock, hang } = await start();
      const worker = await joinWorker(port, "w");
      const [id] = await addNamed(port, ["1", "2"]);
      await worker.claim({ max: 2 });
      hang();
      await clock.advance(LEASE - 1);
      expect(await claim(port)).toEqual([]);
      await clock.advance(1);
      expect(await claimNames(port)).toEqual(["1", "2"]);
      expect(await port.history(id!)).toMatchObject([{ worker: "w", outcome: "lost", attempt: 1 }]);
    });

    test("wake those who wait for work", async () => {
      const { port, clock, hang } = await start();
      const worker = await joinWorker(port, "w");
      await addOne(port);
      await worker.claimOne();
      hang();
      const next = waiting(port);
      await clock.advance(LEASE);
      expect((await next)[0]!.attempt).toBe(2);
    });

    test("cannot be settled after that", async () => {
      const { port, clock, hang } = await start();
      const worker = await joinWorker(port, "w");
      await addOne(port);
      const held = await worker.claimOne();
      hang();
      await clock.advance(LEASE);
      await refused(() => ack(port, held), "CLAIM_LOST");
    });

    test("last if it comes back in time", async () => {
      const { port, clock, hang } = await start();
      const worker = await joinWorker(port, "w");
      await addOne(port);
      const held = await worker.claimOne();
      const goOn = hang();
      await clock.advance(LEASE - SECOND);
      goOn();
      await clock.advance(3 * LEASE);
      expect(await ack(port, held)).toBe("done");
    });
  });

  describe("a worker that was given up", () => {
    test("is told that it is gone, once it shows again", async () => {
      const { port, clock, hang } = await start();
      const worker = await joinWorker(port, "w");
      const goOn = hang();
      await clock.advance(2 * LEASE);
      goOn();
      expect(await worker.notices.next()).toMatchObject({ kind: "gone" });
    });

    test("gets no more tasks under its old session", async () => {
      const { port, clock, hang } = await start();
      const worker = await joinWorker(port, "w");
      hang();
      await clock.advance(2 * LEASE);
      const { id } = await addOne(port);
      await refused(() => worker.claim(), "CLAIM_LOST");
      expect(await stateOf(port, id)).toBe("ready");
    });

    test("may join again", async () => {
      const { port, clock, hang } = await start();
      const first = await joinWorker(port, "w");
      const goOn = hang();
      await clock.advance(2 * LEASE);
      goOn();
      const second = await joinWorker(port, "w");
      expect(second.session).not.toBe(first.session);
      await addOne(port);
      const held = await second.claimOne();
      await clock.advance(3 * LEASE);
      expect(await ack(port, held)).toBe("done");
    });
  });

  describe("a worker that leaves", () => {
    test("releases what it holds, and no attempt is used up", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      const [id] = await addNamed(port, ["1", "2", "3"]);
      const held = await worker.claim({ max: 2 });
      await port.leave(worker.session);
      await refused(() => ack(port, held[0]!), "CLAIM_LOST");
      expect(await port.task(id!)).toMatchObject({ state: "ready", attempt: 1 });
      expect(await port.history(id!)).toMatchObject([{ outcome: "released", worker: "w" }]);
      expect(await claimNames(port)).toEqual(["1", "2", "3"]);
    });

    test("wakes those who wait for work", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      await addNamed(port, ["1", "2"]);
      await worker.claim({ max: 2 });
      const next = [waiting(port), waiting(port)];
      await port.leave(worker.session);
      expect((await Promise.all(next)).flat()).toHaveLength(2);
    });

    test("gives back what it does not know of, as if never claimed", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      const other = await joinWorker(port, "other");
      await addNamed(port, ["1", "2", "3"]);
      const [known, lost] = await worker.claim({ max: 2 });
      const others = await other.claimOne();
      await port.reconcile(worker.session, [known!.fence]);
      expect(await port.task(lost!.id)).toMatchObject({ state: "ready", attempt: 1 });
      expect(await port.history(lost!.id)).toEqual([]);
      await refused(() => ack(port, lost!), "CLAIM_LOST");
      expect(await claimNames(port)).toEqual(["2"]);
      expect(await ack(port, known!)).toBe("done");
      expect(await ack(port, others)).toBe("done");
    });

    test("ends what was cancelled and it does not know of", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      const { id } = await addOne(port);
      await worker.claimOne();
      await port.cancel(id);
      await port.reconcile(worker.session, []);
      expect(await stateOf(port, id)).toBe("cancelled");
    });

    test("may leave twice", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      await port.leave(worker.session);
      await port.leave(worker.session);
      await refused(() => worker.claim(), "CLAIM_LOST");
    });
  });

  describe("a worker that takes no more", () => {
    test("leaves its groups to the others, and keeps what it holds", async () => {
      const { port } = await start();
      await govern(port, { concurrency: 2, sticky: true });
      const worker = await joinWorker(port, "w");
      const other = await joinWorker(port, "other");
      await addNamed(port, ["1", "2", "3"], { groupKey: "g" });
      const [held, done] = await worker.claim({ max: 2 });
      await ack(port, done!);
      expect(await other.claim()).toEqual([]);
      const next = other.claim({ wait: MINUTE });
      await port.retire(worker.session);
      expect(await next).toMatchObject([{ data: "3" }]);
      expect(await ack(port, held!)).toBe("done");
    });

    test("leaves them what comes up later, too", async () => {
      const { port } = await start();
      await govern(port, { sticky: true });
      const worker = await joinWorker(port, "w");
      const other = await joinWorker(port, "other");
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      const held = await worker.claimOne();
      await port.retire(worker.session);
      expect(await other.claim()).toEqual([]);
      await ack(port, held);
      expect((await other.claimOne()).data).toBe("2");
    });

    test("is not waited for by what others failed", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { elsewhere: HOUR });
      const worker = await joinWorker(port, "w");
      const other = await joinWorker(port, "other");
      await addOne(port);
      await port.retire(other.session);
      await nack(port, await worker.claimOne());
      expect(await worker.claim()).toHaveLength(1);
    });

    test("lives on, and loses what it held when it falls silent", async () => {
      const { port, clock, hang } = await start();
      const worker = await joinWorker(port, "w");
      const { id } = await addOne(port);
      const held = await worker.claimOne();
      await port.retire(worker.session);
      await clock.advance(MINUTE);
      expect(await stateOf(port, id)).toBe("claimed");
      expect((await port.workers()).map((one) => one.id)).toEqual(["w"]);
      hang();
      await clock.advance(31 * SECOND);
      await refused(() => ack(port, held), "CLAIM_LOST");
    });
  });

  describe("a worker that is given up", () => {
    test("loses what it holds, and that counts as failed", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      const [id] = await addNamed(port, ["1", "2", "3"]);
      const held = await worker.claim({ max: 2 });
      await port.leave(worker.session, { lost: true });
      await refused(() => ack(port, held[0]!), "CLAIM_LOST");
      expect(await port.task(id!)).toMatchObject({ state: "ready", attempt: 2 });
      expect(await port.history(id!)).toMatchObject([{ outcome: "lost", worker: "w" }]);
      expect(await port.workers()).toEqual([]);
      expect((await claimNames(port)).toSorted()).toEqual(["1", "2", "3"]);
    });

    test("wakes those who wait for work", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      await addNamed(port, ["1", "2"]);
      await worker.claim({ max: 2 });
      const next = [waiting(port), waiting(port)];
      await port.leave(worker.session, { lost: true });
      expect((await Promise.all(next)).flat()).toHaveLength(2);
    });
  });

  describe("a worker that joins again as the one it was", () => {
    test("keeps its claims, and its old session is gone", async () => {
      const { port, clock } = await start();
      const worker = await joinWorker(port, "w");
      await addNamed(port, ["1", "2", "3"]);
      const held = await worker.claim({ max: 2 });
      const fences = held.map(({ fence }) => fence);
      const { session, lost } = await port.rejoin(worker.session, fences, () => {});
      expect({ lost, isNew: session !== worker.session }).toEqual({ lost: [], isNew: true });
      await refused(() => worker.claim(), "CLAIM_LOST");
      await port.leave(worker.session, { lost: true });
      expect(await port.workers()).toMatchObject([{ id: "w", claims: 2 }]);
      await clock.advance(3 * LEASE);
      for (const each of held) expect(await ack(port, each)).toBe("done");
      expect(await claim(port, { worker: "w", session })).toHaveLength(1);
    });

    test("gives back what it does not know of, as if never claimed", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      const [, id] = await addNamed(port, ["known", "unknown"]);
      const [known] = await worker.claim({ max: 2 });
      const next = waiting(port);
      await port.rejoin(worker.session, [known!.fence], () => {});
      expect((await next)[0]).toMatchObject({ data: "unknown", attempt: 1 });
      expect(await port.history(id!)).toEqual([]);
      expect(await ack(port, known!)).toBe("done");
    });

    test("is told what it lost meanwhile", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      await addNamed(port, ["1", "2"]);
      const [first, second] = await worker.claim({ max: 2 });
      await ack(port, first!);
      const { lost } = await port.rejoin(worker.session, [first!.fence, second!.fence], () => {});
      expect(lost).toEqual([first!.fence]);
    });

    test("hears of its claims as before", async () => {
      const { port, clock } = await start();
      const worker = await joinWorker(port, "w");
      const { id } = await addOne(port);
      const { fence } = await worker.claimOne();
      const notices = new Inbox<ClaimNotice>();
      await port.rejoin(worker.session, [fence], (notice) => notices.push(notice));
      await port.cancel(id);
      await clock.advance(LEASE / 3);
      expect(await notices.next()).toMatchObject({ kind: "cancel", id, fence });
    });

    test("is refused where it was given up", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      await port.leave(worker.session);
      await refused(() => port.rejoin(worker.session, [], () => {}), "CLAIM_LOST");
    });

    test("names its claims by numbers", async () => {
      const { port } = await start();
      const { session } = await joinWorker(port, "w");
      await refused(() => port.rejoin(session, "1" as never, () => {}), "INVALID", "fences");
      await refused(() => port.rejoin(session, ["1" as never], () => {}), "INVALID", "fence");
      await refused(() => port.rejoin("s" as never, [], () => {}), "INVALID", "session");
      await refused(() => port.leave(null as never), "INVALID", "session");
    });
  });

  describe("an attempt that takes longer than the queue's timeout", () => {
    async function overdue(maxAttempts: number) {
      const world = await start();
      await world.port.declare(QUEUE, { timeout: 5 * MINUTE, maxAttempts });
      const worker = await joinWorker(world.port, "w");
      const { id } = await addOne(world.port);
      return Object.assign(world, { id, worker, held: await worker.claimOne() });
    }

    test("is ended at the next sign of life, and its worker is told", async () => {
      const { port, clock, worker, held } = await overdue(2);
      await clock.advance(5 * MINUTE - 1);
      expect(await stateOf(port, held.id)).toBe("claimed");
      await clock.advance(LEASE);
      expect(await worker.notices.next()).toMatchObject({ kind: "timeout", id: held.id, fence: held.fence });
      await refused(() => ack(port, held), "CLAIM_LOST");
      expect(await port.task(held.id)).toMatchObject({ state: "ready", attempt: 2 });
      expect(await port.history(held.id)).toMatchObject([
        { outcome: "timeout", error: { name: "TimeoutError" } },
      ]);
    });

    test("wakes those who wait for work", async () => {
      const { port, clock } = await overdue(2);
      await clock.advance(5 * MINUTE - SECOND);
      const next = waiting(port);
      await clock.advance(LEASE);
      expect((await next)[0]!.attempt).toBe(2);
    });

    test("is the task's death if it was the last", async () => {
      const { port, clock, id } = await overdue(1);
      const end = port.end(id);
      await clock.advance(5 * MINUTE + LEASE);
      expect(await end).toMatchObject({ state: "dead", error: { name: "TimeoutError" } });
    });

    test("is not one if it was extended", async () => {
      const { port, clock, held } = await overdue(1);
      await clock.advance(4 * MINUTE);
      await port.extend(held, 2 * MINUTE);
      await clock.advance(2 * MINUTE - 1);
      expect(await ack(port, held)).toBe("done");
    });

    test("does not end the worker's other claims", async () => {
      const { port, clock, worker } = await overdue(1);
      await clock.advance(4 * MINUTE);
      await addOne(port);
      const second = await worker.claimOne();
      await clock.advance(2 * MINUTE);
      expect(await ack(port, second)).toBe("done");
    });
  });
}
