import { describe, expect, test } from "vitest";
import type { Port } from "../../../src/core/port.ts";
import { type Stage, stageQueue } from "../../../src/core/run/run.ts";
import type { NextCosts, StageCost } from "../../../src/core/run/stage-cost.ts";
import type { ClaimedTask, NewTask } from "../../../src/core/task/task.ts";
import { verificationQueue } from "../../../src/core/handler/verification.ts";
import { ack, addOne, claim, claimOne, refused, SECOND, type Start, stateOf } from "./kit.ts";

const PIPELINE = "report";
const queueOf = (stage: string): string => stageQueue(PIPELINE, stage);

/** Stages `a`, `b` and so on, with these costs. */
function stagesWith(...costs: (StageCost | undefined)[]): Stage[] {
  return costs.map((cost, index) => ({
    name: "abcdef"[index]!,
    joins: false,
    ...(cost !== undefined && { cost }),
  }));
}

async function begin(port: Port, stages: Stage[], fields: Partial<NewTask> = {}): Promise<ClaimedTask> {
  const run = { pipeline: PIPELINE, stages };
  await port.add([{ queue: queueOf("a"), data: '"in"', run, ...fields }]);
  return claimOne(port, { queues: [queueOf("a")] });
}

async function ackWith(port: Port, held: ClaimedTask, result: string, next?: NextCosts, each?: true) {
  return port.settle(held, { kind: "ack", result, ...(next && { next }), ...(each && { each }) });
}

/** The costs of the tasks of a stage, from the store's records and from the claims. */
async function costsAt(port: Port, stage: string): Promise<number[]> {
  const tasks = await claim(port, { queues: [queueOf(stage)], max: 100 });
  const records = await Promise.all(tasks.map(({ id }) => port.task(id)));
  expect(tasks.map(({ cost }) => cost ?? 1)).toEqual(records.map(({ cost }) => cost));
  return records.map(({ cost }) => cost);
}

export function stageCosts(start: Start): void {
  describe("the cost of a stage", () => {
    test("a task gets the cost of its stage, whatever the previous one cost", async () => {
      const { port } = await start();
      const first = await begin(port, stagesWith(undefined, 5, undefined), { cost: 9 });
      await ack(port, first, "1");
      const second = await claimOne(port, { queues: [queueOf("b")] });
      expect(second.cost).toBe(5);
      await ack(port, second, "2");
      expect(await costsAt(port, "c")).toEqual([1]);
    });

    test("each part gets the cost of its stage", async () => {
      const { port } = await start();
      const first = await begin(port, stagesWith(undefined, 4));
      await ackWith(port, first, "[1,2,3]", undefined, true);
      expect(await costsAt(port, "b")).toEqual([4, 4, 4]);
    });

    test("the task of a join gets the cost of its stage", async () => {
      const { port } = await start();
      const stages = [...stagesWith(undefined, 2), { name: "sum", joins: true, cost: 7 }];
      await ackWith(port, await begin(port, stages), "[1,2]", undefined, true);
      for (const part of await claim(port, { queues: [queueOf("b")], max: 10 })) await ack(port, part, "0");
      expect(await costsAt(port, "sum")).toEqual([7]);
    });

    test("the cost of a stage counts in its queue's rate limit with a unit", async () => {
      const { port, clock } = await start();
      await port.declare(queueOf("b"), {
        rateLimit: [{ max: 10, per: SECOND, pace: false, unit: "tokens" }],
      });
      const first = await begin(port, stagesWith(undefined, "input"));
      const next = { costs: Array.from({ length: 16 }, () => 4) };
      await ackWith(port, first, JSON.stringify(next.costs), next, true);
      expect(await claim(port, { queues: [queueOf("b")], max: 16 })).toHaveLength(2);
      await clock.advance(SECOND);
      expect(await claim(port, { queues: [queueOf("b")], max: 16 })).toHaveLength(2);
    });

    test("a run with an invalid stage cost is refused", async () => {
      const { port } = await start();
      const begun = (cost: unknown, joins = false) => {
        const stages = [...stagesWith(undefined), { name: "b", joins, cost } as Stage];
        return port.add([{ queue: queueOf("a"), data: "1", run: { pipeline: PIPELINE, stages } }]);
      };
      await refused(() => begun(-1), "INVALID", "cost of stage");
      await refused(() => begun("2"), "INVALID", "cost of stage");
      await refused(() => begun("input", true), "INVALID", "task.spend()");
      expect(await claim(port, { queues: [queueOf("a")] })).toEqual([]);
    });
  });

  describe("costs given with an ack", () => {
    test("the costs given with an ack apply to the parts in order", async () => {
      const { port } = await start();
      const first = await begin(port, stagesWith(undefined, 4));
      await ackWith(port, first, "[1,2,3]", { costs: [3, 0, 8] }, true);
      expect(await costsAt(port, "b")).toEqual([3, 0, 8]);
    });

    test("costs apply only to the stage that they name", async () => {
      const { port } = await start();
      const first = await begin(port, stagesWith(undefined, 4, 2));
      await ackWith(port, first, "1", { stage: "another", costs: [3, 4] });
      const second = await claimOne(port, { queues: [queueOf("b")] });
      expect(second.cost).toBe(4);
      await ackWith(port, second, "1", { stage: "c", costs: [6] });
      expect(await costsAt(port, "c")).toEqual([6]);
    });

    test("costs are stored with the result until the verdict", async () => {
      const { port } = await start();
      await port.declare(queueOf("a"), { verified: true });
      const first = await begin(port, stagesWith(undefined, "input"));
      expect(await ackWith(port, first, "[1,2]", { costs: [3, 5] }, true)).toEqual({ state: "verifying" });
      const asking = await claimOne(port, { queues: [verificationQueue(queueOf("a"))] });
      await port.settle(asking, { kind: "accept", of: { id: first.id, fence: first.fence } });
      expect(await costsAt(port, "b")).toEqual([3, 5]);
    });

    test("an ack with a wrong number of costs is refused, and the claim stays valid", async () => {
      const { port } = await start();
      const first = await begin(port, stagesWith(undefined, 4));
      await refused(() => ackWith(port, first, "[1,2]", { costs: [1] }, true), "INVALID", "1 costs");
      await refused(() => ackWith(port, first, "1", { costs: [1, 2] }), "INVALID", "2 costs");
      expect(await stateOf(port, first.id)).toBe("claimed");
      await ackWith(port, first, "1", { costs: [2] });
      expect(await costsAt(port, "b")).toEqual([2]);
    });

    test("an ack with costs is refused if nothing follows, or the task has no run", async () => {
      const { port } = await start();
      const last = await begin(port, stagesWith(undefined));
      await refused(() => ackWith(port, last, "1", { costs: [1] }), "INVALID", "no task follows");
      await addOne(port);
      const held = await claimOne(port);
      await refused(() => ackWith(port, held, "1", { costs: [1] }), "INVALID", "does not belong to a run");
      expect(await ack(port, held)).toBe("done");
    });

    test("an ack with invalid costs is refused", async () => {
      const { port } = await start();
      const held = await begin(port, stagesWith(undefined, 1));
      for (const next of [{ costs: [-1] }, { costs: [0.5] }, { costs: "1" }, { stage: 1, costs: [1] }, 5])
        await refused(() => ackWith(port, held, "1", next as never), "INVALID");
      expect(await ack(port, held)).toBe("done");
    });
  });

  describe("a stage whose cost is a function of its input", () => {
    test("an ack without the required cost of the next stage is refused", async () => {
      const { port } = await start();
      const first = await begin(port, stagesWith(undefined, "input"));
      await refused(() => ackWith(port, first, "1"), "INVALID", "computes its cost from its input");
      await refused(() => ackWith(port, first, "[1]", undefined, true), "INVALID", "no cost was given");
      expect(await stateOf(port, first.id)).toBe("claimed");
      // No part, no cost.
      await ackWith(port, first, "[]", undefined, true);
      expect(await stateOf(port, first.id)).toBe("done");
    });

    test("a run whose first stage requires a cost is refused without one", async () => {
      const { port } = await start();
      await refused(() => begin(port, stagesWith("input")), "INVALID", "computes its cost");
      expect((await begin(port, stagesWith("input"), { cost: 3 })).cost).toBe(3);
    });
  });
}
