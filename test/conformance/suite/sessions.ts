import { describe, expect, test } from "vitest";
import type { ClaimNotice } from "../../../src/core/task/claim-call.ts";
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
  describe("claims of a live worker", () => {
    test("claims of a live worker last longer than any number of leases", async () => {
      const { port, clock } = await start();
      const worker = await joinWorker(port, "w");
      await addNamed(port, ["1", "2", "3"]);
      const held = await worker.claim({ max: 3 });
      await clock.advance(6 * LEASE);
      expect(await claim(port, { worker: "other" })).toEqual([]);
      for (const each of held) expect(await ack(port, each)).toBe("done");
      expect(worker.notices.all).toEqual([]);
    });

    test("claims of a live worker last even if the queue's lease is shorter than the time between two heartbeats", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { lease: SECOND });
      const worker = await joinWorker(port, "w", { lease: LEASE });
      await addOne(port);
      const held = await worker.claimOne();
      await clock.advance(4 * LEASE);
      expect(await ack(port, held)).toBe("done");
    });

    test("a worker's heartbeats do not keep manual claims alive", async () => {
      const { port, clock } = await start();
      await joinWorker(port, "w");
      const { id } = await addOne(port);
      await claimOne(port, { worker: "w" });
      await clock.advance(LEASE);
      expect(await stateOf(port, id)).toBe("ready");
    });
  });

  describe("claims of a worker without heartbeats", () => {
    test("claims without heartbeats are lost when the lease ends, and count as failures", async () => {
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

    test("claims that are lost wake waiting claims", async () => {
      const { port, clock, hang } = await start();
      const worker = await joinWorker(port, "w");
      await addOne(port);
      await worker.claimOne();
      hang();
      const next = waiting(port);
      await clock.advance(LEASE);
      expect((await next)[0]!.attempt).toBe(2);
    });

    test("settling after the session's lease ended is refused", async () => {
      const { port, clock, hang } = await start();
      const worker = await joinWorker(port, "w");
      await addOne(port);
      const held = await worker.claimOne();
      hang();
      await clock.advance(LEASE);
      await refused(() => ack(port, held), "CLAIM_LOST");
    });

    test("claims stay valid if heartbeats resume in time", async () => {
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

  describe("a session that has expired", () => {
    test("a worker whose session expired is notified when its heartbeats resume", async () => {
      const { port, clock, hang } = await start();
      const worker = await joinWorker(port, "w");
      const goOn = hang();
      await clock.advance(2 * LEASE);
      goOn();
      expect(await worker.notices.next()).toMatchObject({ kind: "gone" });
    });

    test("an expired session gets no more tasks", async () => {
      const { port, clock, hang } = await start();
      const worker = await joinWorker(port, "w");
      hang();
      await clock.advance(2 * LEASE);
      const { id } = await addOne(port);
      await refused(() => worker.claim(), "CLAIM_LOST");
      expect(await stateOf(port, id)).toBe("ready");
    });

    test("a worker may join again after its session expired", async () => {
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
    test("leaving releases the worker's claims without counting an attempt", async () => {
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

    test("leaving wakes waiting claims", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      await addNamed(port, ["1", "2"]);
      await worker.claim({ max: 2 });
      const next = [waiting(port), waiting(port)];
      await port.leave(worker.session);
      expect((await Promise.all(next)).flat()).toHaveLength(2);
    });

    test("reconcile releases claims that the worker does not know of, as if never claimed", async () => {
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

    test("reconcile ends cancelled tasks that the worker does not know of", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      const { id } = await addOne(port);
      await worker.claimOne();
      await port.cancel(id);
      await port.reconcile(worker.session, []);
      expect(await stateOf(port, id)).toBe("cancelled");
    });

    test("a worker may leave twice", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      await port.leave(worker.session);
      await port.leave(worker.session);
      await refused(() => worker.claim(), "CLAIM_LOST");
    });
  });

  describe("a worker that retires", () => {
    test("a retired worker gives up its sticky groups, and keeps its claims", async () => {
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

    test("a retired worker gets no tasks of its sticky groups that are promoted later", async () => {
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

    test("a failed task does not wait for a retired worker", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { elsewhere: HOUR });
      const worker = await joinWorker(port, "w");
      const other = await joinWorker(port, "other");
      await addOne(port);
      await port.retire(other.session);
      await nack(port, await worker.claimOne());
      expect(await worker.claim()).toHaveLength(1);
    });

    test("a retired worker stays alive, and loses its claims when its heartbeats stop", async () => {
      const { port, clock, hang } = await start();
      const worker = await joinWorker(port, "w");
      const { id } = await addOne(port);
      const held = await worker.claimOne();
      await port.retire(worker.session);
      await clock.advance(MINUTE);
      expect(await stateOf(port, id)).toBe("claimed");
      expect((await port.workers()).items.map((one) => one.id)).toEqual(["w"]);
      hang();
      await clock.advance(31 * SECOND);
      await refused(() => ack(port, held), "CLAIM_LOST");
    });
  });

  describe("a worker that leaves as lost", () => {
    test("leaving as lost makes the worker's claims count as failed", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      const [id] = await addNamed(port, ["1", "2", "3"]);
      const held = await worker.claim({ max: 2 });
      await port.leave(worker.session, { lost: true });
      await refused(() => ack(port, held[0]!), "CLAIM_LOST");
      expect(await port.task(id!)).toMatchObject({ state: "ready", attempt: 2 });
      expect(await port.history(id!)).toMatchObject([{ outcome: "lost", worker: "w" }]);
      expect((await port.workers()).items).toEqual([]);
      expect((await claimNames(port)).toSorted()).toEqual(["1", "2", "3"]);
    });

    test("leaving as lost wakes waiting claims", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      await addNamed(port, ["1", "2"]);
      await worker.claim({ max: 2 });
      const next = [waiting(port), waiting(port)];
      await port.leave(worker.session, { lost: true });
      expect((await Promise.all(next)).flat()).toHaveLength(2);
    });
  });

  describe("a worker that rejoins", () => {
    test("a rejoined worker keeps its claims, and its old session is gone", async () => {
      const { port, clock } = await start();
      const worker = await joinWorker(port, "w");
      await addNamed(port, ["1", "2", "3"]);
      const held = await worker.claim({ max: 2 });
      const fences = held.map(({ fence }) => fence);
      const { session, lost } = await port.rejoin(worker.session, fences, () => {});
      expect({ lost, isNew: session !== worker.session }).toEqual({ lost: [], isNew: true });
      await refused(() => worker.claim(), "CLAIM_LOST");
      await port.leave(worker.session, { lost: true });
      expect((await port.workers()).items).toMatchObject([{ id: "w", claims: 2 }]);
      await clock.advance(3 * LEASE);
      for (const each of held) expect(await ack(port, each)).toBe("done");
      expect(await claim(port, { worker: "w", session })).toHaveLength(1);
    });

    test("rejoining releases claims that the worker does not know of, as if never claimed", async () => {
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

    test("rejoining returns the claims that were lost meanwhile", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      await addNamed(port, ["1", "2"]);
      const [first, second] = await worker.claim({ max: 2 });
      await ack(port, first!);
      const { lost } = await port.rejoin(worker.session, [first!.fence, second!.fence], () => {});
      expect(lost).toEqual([first!.fence]);
    });

    test("a rejoined worker gets notices about its claims as before", async () => {
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

    test("rejoining is refused if the session has expired", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      await port.leave(worker.session);
      await refused(() => port.rejoin(worker.session, [], () => {}), "CLAIM_LOST");
    });

    test.each([
      ["id", { id: "" }],
      ["name", { name: "n".repeat(1_000) }],
      ["host", { host: 7 as never }],
      ["pid", { pid: -1 }],
      ["concurrency", { concurrency: 0 }],
      ["queue", { queues: [] }],
    ])("a worker with a wrong %s cannot join", async (word, wrong) => {
      const { port } = await start();
      const worker = { id: "w", name: "w", queues: [QUEUE], concurrency: 1, host: "host", pid: 1, ...wrong };
      await refused(() => port.join(worker, LEASE, () => {}), "INVALID", word);
    });

    test("rejoining with fences that are not numbers is refused", async () => {
      const { port } = await start();
      const { session } = await joinWorker(port, "w");
      await refused(() => port.rejoin(session, "1" as never, () => {}), "INVALID", "fences");
      await refused(() => port.rejoin(session, ["1" as never], () => {}), "INVALID", "fence");
      await refused(() => port.rejoin("s" as never, [], () => {}), "INVALID", "session");
      await refused(() => port.leave(null as never), "INVALID", "session");
    });
  });

  describe("an attempt that exceeds the queue's timeout", () => {
    async function overdue(maxAttempts: number) {
      const world = await start();
      await world.port.declare(QUEUE, { timeout: 5 * MINUTE, maxAttempts });
      const worker = await joinWorker(world.port, "w");
      const { id } = await addOne(world.port);
      return Object.assign(world, { id, worker, held: await worker.claimOne() });
    }

    test("an attempt past its timeout ends at the next heartbeat, and its worker gets a notice", async () => {
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

    test("an attempt past its timeout wakes waiting claims", async () => {
      const { port, clock } = await overdue(2);
      await clock.advance(5 * MINUTE - SECOND);
      const next = waiting(port);
      await clock.advance(LEASE);
      expect((await next)[0]!.attempt).toBe(2);
    });

    test("a timeout on the last attempt makes the task dead", async () => {
      const { port, clock, id } = await overdue(1);
      const end = port.end(id);
      await clock.advance(5 * MINUTE + LEASE);
      expect(await end).toMatchObject({ state: "dead", error: { name: "TimeoutError" } });
    });

    test("an extended attempt does not time out", async () => {
      const { port, clock, held } = await overdue(1);
      await clock.advance(4 * MINUTE);
      await port.extend(held, 2 * MINUTE);
      await clock.advance(2 * MINUTE - 1);
      expect(await ack(port, held)).toBe("done");
    });

    test("a timeout does not end the worker's other claims", async () => {
      const { port, clock, worker } = await overdue(1);
      await clock.advance(4 * MINUTE);
      await addOne(port);
      const second = await worker.claimOne();
      await clock.advance(2 * MINUTE);
      expect(await ack(port, second)).toBe("done");
    });
  });
}
