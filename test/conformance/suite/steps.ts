import { describe, expect, test } from "vitest";
import { LIMITS } from "../../../src/core/input/limits.ts";
import type { Port } from "../../../src/core/port.ts";
import type { ClaimedTask, TaskState } from "../../../src/core/task/task.ts";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimNames,
  claimOne,
  DAY,
  failure,
  HOUR,
  joinWorker,
  MINUTE,
  nack,
  passLong,
  QUEUE,
  refused,
  reject,
  release,
  SECOND,
  type Start,
  stateOf,
  waiting,
} from "./kit.ts";

async function park(
  port: Port,
  held: ClaimedTask,
  signal = "approval",
  timeout: number | null = null,
): Promise<TaskState> {
  return (await port.settle(held, { kind: "park", signal, timeout })).state;
}

export function steps(start: Start): void {
  describe("steps", () => {
    test("steps are stored by name for later attempts", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      expect(held.stepped).toBeUndefined();
      expect(await port.steps(id)).toEqual([]);
      await port.step(held, "plan", "[1,2]");
      await port.step(held, "bytes", new Uint8Array([0, 255]));
      await port.step(held, "nothing", null);
      await port.step(held, "plan", "[3] 草稿");
      await nack(port, held);
      const again = await claimOne(port);
      expect(again.stepped).toBe(true);
      expect(await port.steps(id)).toEqual([
        { kind: "step", name: "bytes", value: new Uint8Array([0, 255]) },
        { kind: "step", name: "nothing", value: null },
        { kind: "step", name: "plan", value: "[3] 草稿" },
      ]);
      expect(await ack(port, again)).toBe("done");
    });

    test("steps survive a release, a lost lease, and a death with redrive", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { maxAttempts: 2 });
      const { id } = await addOne(port);
      const held = await claimOne(port, { lease: SECOND });
      await port.step(held, "a", "1");
      await release(port, held);
      await claimOne(port, { lease: SECOND });
      await clock.advance(SECOND);
      const last = await claimOne(port);
      expect(last.stepped).toBe(true);
      await reject(port, last);
      expect(await port.redrive(QUEUE, {}, 0)).toBe(1);
      expect((await claimOne(port)).stepped).toBe(true);
      expect(await port.steps(id)).toEqual([{ kind: "step", name: "a", value: "1" }]);
    });

    test("a redrive with fresh removes the steps", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      await port.step(held, "a", "1");
      await reject(port, held);
      await port.redrive(QUEUE, {}, 0, { fresh: true });
      expect((await claimOne(port)).stepped).toBeUndefined();
      expect(await port.steps(id)).toEqual([]);
    });

    test("steps are removed when the task is done, cancelled or expired", async () => {
      const { port, clock } = await start();
      const [done, cancelled, expired] = await addNamed(port, ["1", "2", "3"], { ttl: MINUTE });
      for (const held of await claim(port, { max: 3 })) {
        await port.step(held, "a", "1");
        if (held.id === done) await ack(port, held);
        else await release(port, held);
      }
      await port.cancel(cancelled!);
      await clock.advance(MINUTE);
      expect(await stateOf(port, expired!)).toBe("expired");
      for (const id of [done!, cancelled!, expired!]) expect(await port.steps(id)).toEqual([]);
    });

    test("a step after the claim ended is refused", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      await release(port, held);
      await refused(() => port.step(held, "a", "1"), "CLAIM_LOST");
      await claimOne(port);
      await refused(() => port.step(held, "a", "1"), "CLAIM_LOST");
      expect(await port.steps(id)).toEqual([]);
    });

    test("steps above the limits are refused and not stored", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      const large = "x".repeat(LIMITS.stepBytes);
      await refused(() => port.step(held, "large", `${large}x`), "PAYLOAD_TOO_LARGE");
      await refused(() => port.step(held, "", "1"), "INVALID");
      await refused(() => port.step(held, "n".repeat(257), "1"), "INVALID");
      const room = LIMITS.allStepBytes / LIMITS.stepBytes;
      for (let n = 0; n < room; n++) await port.step(held, `large-${n}`, large);
      await refused(() => port.step(held, "one more", "x"), "PAYLOAD_TOO_LARGE");
      await refused(() => port.signal(id, "one more", "x"), "PAYLOAD_TOO_LARGE");
      // Replacing a step of the same name needs no room.
      await port.step(held, "large-0", large);
      expect(await port.steps(id)).toHaveLength(room);
    });

    test("the steps of an unknown task are TASK_NOT_FOUND", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      await port.drop(QUEUE);
      await refused(() => port.steps(id), "TASK_NOT_FOUND");
      await refused(() => port.signal(id, "approval", null), "TASK_NOT_FOUND");
    });
  });

  describe("parked tasks", () => {
    test("a parked task occupies no worker, counts no attempt, and continues when its signal arrives", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      const { id } = await addOne(port);
      expect(await park(port, await worker.claimOne())).toBe("parked");
      expect(await port.task(id)).toMatchObject({
        state: "parked",
        waitsFor: "approval",
        dueAt: null,
        attempt: 1,
      });
      expect((await port.stats(QUEUE)).depth).toMatchObject({ parked: 1, ready: 0, claimed: 0 });
      expect((await port.workers()).items[0]!.claims).toBe(0);
      expect(await claim(port)).toEqual([]);
      expect(await port.signal(id, "approval", '{"by":"ada"}')).toBe(true);
      const again = await claimOne(port);
      expect(again).toMatchObject({ id, attempt: 1, stepped: true });
      expect(await port.task(id)).toMatchObject({ waitsFor: null });
      expect(await port.steps(id)).toEqual([{ kind: "signal", name: "approval", value: '{"by":"ada"}' }]);
      expect(await ack(port, again)).toBe("done");
      expect(await port.history(id)).toMatchObject([{ outcome: "parked" }, { outcome: "done" }]);
    });

    test("a signal wakes a waiting claim", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      await park(port, await claimOne(port));
      const next = waiting(port);
      await port.signal(id, "approval", null);
      expect((await next)[0]!.id).toBe(id);
    });

    test("a parked task continues after its timeout, and learns that no signal arrived", async () => {
      const { port, clock, startedAt } = await start();
      const { id } = await addOne(port);
      await park(port, await claimOne(port), "approval", MINUTE);
      expect((await port.task(id)).dueAt).toBe(startedAt + MINUTE);
      await clock.advance(MINUTE - 1);
      expect(await stateOf(port, id)).toBe("parked");
      const next = waiting(port);
      await clock.advance(1);
      expect((await next)[0]!.id).toBe(id);
      expect(await port.steps(id)).toEqual([{ kind: "timeout", name: "approval", value: null }]);
      // Too late: the handler already knows of the timeout.
      expect(await port.signal(id, "approval", null)).toBe(false);
    });

    test("a parked task waits only for its own signal, without a time limit", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port);
      await park(port, await claimOne(port));
      expect(await port.signal(id, "payment", "1")).toBe(true);
      await passLong(clock, 30 * DAY);
      expect(await stateOf(port, id)).toBe("parked");
      await port.signal(id, "approval", "2");
      expect((await port.steps(id)).map(({ name }) => name)).toEqual(["approval", "payment"]);
      expect(await stateOf(port, id)).toBe("ready");
    });

    test("a task is not parked if its signal has already arrived", async () => {
      const { port } = await start();
      const [early, running] = await addNamed(port, ["1", "2"]);
      expect(await port.signal(early!, "approval", "1")).toBe(true);
      expect(await port.signal(early!, "approval", "2")).toBe(false);
      const [first, second] = await claim(port, { max: 2 });
      expect(first!.stepped).toBe(true);
      expect(await port.signal(running!, "approval", "3")).toBe(true);
      expect(await park(port, first!)).toBe("ready");
      expect(await park(port, second!)).toBe("ready");
      expect(await port.steps(early!)).toEqual([{ kind: "signal", name: "approval", value: "1" }]);
      for (const again of await claim(port, { max: 2 })) expect(again.stepped).toBe(true);
    });

    test("a parked task keeps its position and blocks its group", async () => {
      const { port } = await start();
      const [head] = await addNamed(port, ["1", "2"], { groupKey: "g" });
      await addNamed(port, ["other"]);
      await park(port, await claimOne(port));
      expect(await claimNames(port)).toEqual(["other"]);
      await addNamed(port, ["late"]);
      await port.signal(head!, "approval", null);
      expect(await claimNames(port)).toEqual(["1", "late"]);
    });

    test("a parked task can be cancelled, expires, and can be purged", async () => {
      const { port, clock } = await start();
      const [cancelled, next] = await addNamed(port, ["1", "2"], { groupKey: "g" });
      await park(port, await claimOne(port));
      expect(await port.cancel(cancelled!)).toBe("cancelled");
      expect(await port.signal(cancelled!, "approval", null)).toBe(false);
      expect(await stateOf(port, next!)).toBe("ready");
      await park(port, await claimOne(port));
      expect(await port.purge(QUEUE)).toBe(1);
      const { id } = await addOne(port, { ttl: MINUTE });
      await park(port, await claimOne(port), "approval", 2 * MINUTE);
      const end = port.end(id);
      await clock.advance(MINUTE);
      expect((await end).state).toBe("expired");
      expect((await port.stats(QUEUE)).depth).toMatchObject({ parked: 0, cancelled: 1, expired: 1 });
    });

    test("a task that died after a signal timeout waits again after a redrive", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      await port.step(held, "plan", "1");
      await park(port, held, "approval", SECOND);
      await clock.advance(SECOND);
      await reject(port, await claimOne(port));
      await port.redrive(QUEUE, {}, 0);
      expect(await port.steps(id)).toEqual([{ kind: "step", name: "plan", value: "1" }]);
      expect(await park(port, await claimOne(port))).toBe("parked");
      expect(await port.signal(id, "approval", null)).toBe(true);
    });

    test("parking a task that was cancelled ends it cancelled", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      await port.cancel(id);
      expect(await park(port, held)).toBe("cancelled");
    });

    test("parked tasks are listed by the time of their timeout", async () => {
      const { port } = await start();
      const ids = await addNamed(port, ["1", "2", "3", "4"]);
      const held = await claim(port, { max: 4 });
      await park(port, held[0]!);
      await park(port, held[1]!, "approval", HOUR);
      await park(port, held[2]!, "approval", MINUTE);
      await nack(port, held[3]!, HOUR);
      const list = async (after?: string) => port.list({ queue: QUEUE, state: "parked", limit: 2, after });
      const page = await list();
      expect(page.tasks.map(({ id }) => id)).toEqual([ids[2], ids[1]]);
      const rest = await list(page.next!);
      expect(rest.tasks.map(({ id }) => id)).toEqual([ids[0]]);
      expect(rest.next).toBeNull();
      const scheduled = await port.list({ queue: QUEUE, state: "scheduled", limit: 10 });
      expect(scheduled.tasks.map(({ id }) => id)).toEqual([ids[3]]);
    });

    test("parking after the claim ended is refused", async () => {
      const { port } = await start();
      await addOne(port);
      const held = await claimOne(port);
      await nack(port, held, 0, failure());
      await refused(() => park(port, held), "CLAIM_LOST");
      await refused(async () => park(port, await claimOne(port), ""), "INVALID");
    });
  });
}
