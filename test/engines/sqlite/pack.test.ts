import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DEFAULT_POLICY } from "../../../src/core/queue/policy.ts";
import { JSON_TYPE } from "../../../src/core/task/task.ts";
import type { Op, Outcome } from "../../../src/engine/engine.ts";
import { packOps, packOutcomes, unpackOps, unpackOutcomes } from "../../../src/engines/sqlite/thread/pack.ts";

const body = fc.oneof(fc.string(), fc.uint8Array());
const queue = fc.constantFrom("a", "b");
const settled = (settlement: fc.Arbitrary<Extract<Op, { verb: "settle" }>["settlement"]>) =>
  fc.record({ verb: fc.constant("settle" as const), id: fc.uuid(), fence: fc.nat(), settlement });
const plain = fc.record({ queue, data: body });
const topic = fc.constantFrom("t", "t.u");
const published = (message: fc.Arbitrary<Extract<Op, { verb: "publish" }>["message"]>) =>
  fc.record({ verb: fc.constant("publish" as const), message });

const headers = fc.oneof(
  fc.constantFrom({}, { a: "1" }, { a: "2" }, { a: "1", b: "2" }, { b: "1" }),
  fc.dictionary(fc.oneof(fc.string(), fc.constant("__proto__")), fc.string(), { noNullPrototype: true }),
);
const headed = fc.record(
  { queue, data: body, contentType: fc.constantFrom("text/plain", "x/y"), headers },
  { requiredKeys: ["queue", "data"] },
);

const op: fc.Arbitrary<Op> = fc.oneof(
  fc.record({ verb: fc.constant("add" as const), tasks: fc.tuple(plain) }),
  fc.record({ verb: fc.constant("add" as const), tasks: fc.array(plain, { minLength: 1, maxLength: 3 }) }),
  fc.record({ verb: fc.constant("add" as const), tasks: fc.tuple(headed) }),
  fc.record({ verb: fc.constant("add" as const), tasks: fc.array(headed, { minLength: 1, maxLength: 5 }) }),
  fc.record({
    verb: fc.constant("add" as const),
    tasks: fc.tuple(fc.record({ queue, data: body, priority: fc.integer() })),
  }),
  published(fc.record({ topic, data: body })),
  published(fc.record({ topic, data: body, priority: fc.integer() })),
  settled(fc.record({ kind: fc.constant("done" as const), result: fc.oneof(body, fc.constant(null)) })),
  settled(
    fc.record({
      kind: fc.constant("done" as const),
      result: fc.constant(null),
      adds: fc.array(plain, { minLength: 1 }),
    }),
  ),
  settled(fc.record({ kind: fc.constant("release" as const), started: fc.boolean() })),
  fc.record({
    verb: fc.constant("settle" as const),
    id: fc.uuid(),
    fence: fc.nat(),
    settlement: fc.constant({ kind: "done" as const, result: null }),
    spent: fc.nat(),
  }),
  fc.record({
    verb: fc.constant("add" as const),
    tasks: fc.tuple(fc.record({ queue, data: body, cost: fc.nat(), urgent: fc.boolean() })),
  }),
  fc.record({
    verb: fc.constant("claim" as const),
    queues: fc.array(queue),
    max: fc.nat(),
    worker: fc.string(),
  }),
  fc.constant<Op>({ verb: "housekeep" }),
  fc.constant<Op>({ verb: "listen", listener: "l", after: 1, limit: 10 }),
);

const refused = fc.constant<Outcome>({ refused: { code: "CLAIM_LOST", message: "gone" } });
const fields = {
  id: fc.uuid(),
  fence: fc.nat(),
  queue,
  data: body,
  contentType: fc.constantFrom(JSON_TYPE, "text/plain"),
  headers,
  attempt: fc.nat(),
  maxAttempts: fc.constantFrom(DEFAULT_POLICY.maxAttempts, 2),
  priority: fc.constantFrom(0, 5),
  groupKey: fc.constantFrom(null, "g"),
  createdAt: fc.nat(),
};
const claimed = fc.oneof(fc.record(fields), fc.record({ ...fields, cost: fc.nat() }));

/** An outcome such as the operation could have. */
function outcomeOf(of: Op): fc.Arbitrary<Outcome> {
  if (of.verb === "settle") {
    return fc.oneof(
      fc.record({ ok: fc.record({ state: fc.constantFrom("done", "ready", "cancelled") }) }),
      refused,
    );
  }
  if (of.verb === "add") {
    const added = of.tasks.map((task) =>
      fc.record({
        id: fc.uuid(),
        queue: fc.constant(task.queue),
        state: fc.constantFrom("ready", "done"),
        existing: fc.boolean(),
      }),
    );
    return fc.oneof(fc.record({ ok: fc.tuple(...added) }), refused);
  }
  if (of.verb === "publish") {
    const added = fc.record({
      id: fc.uuid(),
      queue,
      // Mostly the usual, so that several in a row are.
      state: fc.constantFrom("ready", "ready", "ready", "scheduled"),
      existing: fc.constantFrom(false, false, false, true),
    });
    return fc.oneof(fc.record({ ok: fc.array(added, { maxLength: 3 }) }), refused);
  }
  if (of.verb === "claim") {
    const policies = { a: DEFAULT_POLICY, b: DEFAULT_POLICY };
    const ok = fc.record({
      tasks: fc.array(claimed),
      policies: fc.constant(policies),
      passed: fc.boolean(),
      more: fc.boolean(),
    });
    return fc.oneof(fc.record({ ok }), refused);
  }
  if (of.verb === "listen") {
    const event = fc.record({
      type: fc.constant("task.added" as const),
      at: fc.nat(),
      queue,
      taskId: fc.uuid(),
    });
    const text = event.map((each) => JSON.stringify(each));
    const ok = fc.record({ events: fc.array(text), cursor: fc.nat(), missed: fc.nat() });
    return fc.oneof(fc.record({ ok }), refused);
  }
  return fc.constant<Outcome>({ ok: { next: null, now: 1, due: [] } });
}

describe("packing", () => {
  it("packed operations are unchanged after unpacking, also in another thread", () => {
    fc.assert(
      fc.property(fc.array(op), (ops) => {
        expect(unpackOps(structuredClone(packOps(ops)))).toEqual(ops);
      }),
    );
  });

  it("packed outcomes are unchanged after unpacking, also in another thread", () => {
    const pairs = fc.array(op.chain((of) => outcomeOf(of).map((outcome) => ({ of, outcome }))));
    fc.assert(
      fc.property(pairs, (answered) => {
        const ops = answered.map(({ of }) => of);
        const outcomes = answered.map(({ outcome }) => outcome);
        expect(unpackOutcomes(structuredClone(packOutcomes(outcomes, ops)), ops)).toEqual(outcomes);
      }),
    );
  });
});
