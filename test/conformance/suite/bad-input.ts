import { describe, expect, test } from "vitest";
import type { QueuePolicy } from "../../../src/core/queue/policy.ts";
import type { ClaimCall } from "../../../src/core/task/claim-call.ts";
import type { Port } from "../../../src/core/port.ts";
import type { NewTask } from "../../../src/core/task/task.ts";
import { ack, addOne, claimOne, failure, joinWorker, newTask, QUEUE, refused, type Start } from "./kit.ts";

/** Passes a value of a type that the compiler refuses: a door or a plain script may send it all the same. */
const no = (value: unknown): never => value as never;

const HALF = "\ud83d";
const NO_TASK = "01980000-0000-7000-8000-000000000000";
const RUN = { pipeline: "p", stages: [{ name: "a", joins: false }] };

export function badInput(start: Start): void {
  describe("bad tasks", () => {
    const cases: [string, Partial<NewTask>, string[]][] = [
      ["a queue without a name", { queue: "" }, ["queue name", '""']],
      ["a queue name with a space", { queue: "a b" }, ["letters", "digits", '"a b"']],
      ["a queue name that starts with a dot", { queue: ".a" }, ['".a"']],
      ["a queue name that is too long", { queue: "q".repeat(129) }, ["128"]],
      ["a queue name that is not a text", { queue: no(7) }, ["queue name", "7"]],
      ["a payload that is an object", { data: no({ a: 1 }) }, ["text or bytes", "an object"]],
      ["no payload", { data: no(undefined) }, ["text or bytes", "undefined"]],
      ["a payload with half a surrogate pair", { data: `a${HALF}b` }, ["well-formed"]],
      ["a priority that is too high", { priority: 1_001 }, ["priority", "-1000 to 1000", "1001"]],
      ["a priority that is too low", { priority: -1_001 }, ["priority", "-1001"]],
      ["a priority with a fraction", { priority: 0.5 }, ["whole number", "0.5"]],
      ["a priority that is not a number", { priority: Number.NaN }, ["priority", "NaN"]],
      ["a delay that is negative", { delay: -1 }, ["delay", "-1"]],
      ["a delay that is infinite", { delay: Number.POSITIVE_INFINITY }, ["delay", "Infinity"]],
      ["a delay that is a text", { delay: no("1m") }, ["delay", '"1m"']],
      ["a time-to-live of zero", { ttl: 0 }, ["ttl", "0"]],
      ["no attempts", { maxAttempts: 0 }, ["maxAttempts", "1 to 1000", "0"]],
      ["an empty groupKey", { groupKey: "" }, ["groupKey", "512"]],
      ["a groupKey that is too long", { groupKey: "g".repeat(513) }, ["groupKey", "512"]],
      ["a groupKey with half a surrogate pair", { groupKey: HALF }, ["groupKey"]],
      ["a groupKey with a control character", { groupKey: "a\nb" }, ["groupKey", "control"]],
      ["a groupKey with a C1 control character", { groupKey: "a\u009bb" }, ["groupKey", "control"]],
      ["an idempotencyKey that is not a text", { idempotencyKey: no(5) }, ["idempotencyKey", "5"]],
      ["an idempotencyKey that is too long", { idempotencyKey: "k".repeat(513) }, ["idempotencyKey", "512"]],
      ["an empty content type", { contentType: "" }, ["contentType"]],
      ["headers that are a list", { headers: no(["a"]) }, ["headers", "an array of 1"]],
      ["a header that is a number", { headers: no({ retries: 3 }) }, ['"retries"', "3"]],
      ["headers that are too large", { headers: { h: "x".repeat(16 * 1024 - 7) } }, ["16384", "16385"]],
      ["headers that are too large in bytes", { headers: { h: "é".repeat(8 * 1024) } }, ["16384", "16392"]],
      ["a field that does not exist", no({ prio: 1 }), ["no field", '"prio"', "priority"]],
      ["a place in a run", no({ at: { id: NO_TASK, stage: "a", part: [], joins: false } }), ['"at"']],
      ["a run with a number of its own", no({ run: { ...RUN, seq: 1 } }), ['"seq"']],
      ["being null", no(null), []],
    ];
    const together = start.together();

    test.each(cases)("a task is refused for %s", async (_, fields, words) => {
      const { port } = together();
      const bad = fields === null ? no(null) : newTask(fields);
      await refused(() => port.add([bad]), "INVALID", ...words);
      await refused(() => port.add([newTask(), newTask(), bad]), "INVALID", "Task 2 of the batch", ...words);
      expect((await port.queues()).items).toEqual([]);
    });

    test("an empty batch and one with too many tasks are refused", async () => {
      const { port } = await start();
      await refused(() => port.add([]), "INVALID", "empty");
      await refused(() => port.add(no(undefined)), "INVALID");
      await refused(
        () => port.add(Array.from({ length: 10_001 }, () => newTask())),
        "INVALID",
        "10000",
        "10001",
      );
      expect((await port.queues()).items).toEqual([]);
    });

    test("the refusal of a payload does not contain the payload", async () => {
      const { port } = await start();
      const secret = "s3cr3t".repeat(100);
      const error = (await port
        .add([newTask({ data: secret + HALF })])
        .catch((error: unknown) => error)) as Error;
      expect(error.message).not.toContain("s3cr3t");
    });
  });

  describe("bad claims", () => {
    const cases: [string, Partial<ClaimCall>, string[]][] = [
      ["no queue", { queues: [] }, ["at least one queue", "got an array of 0"]],
      ["an invalid queue name", { queues: [QUEUE, "a b"] }, ['"a b"']],
      ["no tasks", { max: 0 }, ["max", "1 to 1000", "0"]],
      ["too many tasks", { max: 1_001 }, ["max", "1001"]],
      ["a fraction of a task", { max: 1.5 }, ["max", "1.5"]],
      ["a wait that is negative", { wait: -1 }, ["wait", "-1"]],
      ["a wait that is too long", { wait: 60_001 }, ["wait", "60000", "60001"]],
      ["a worker without a name", { worker: "" }, ["worker"]],
      ["a lease of zero", { lease: 0 }, ["lease", "0"]],
      ["a share of zero", { share: 0 }, ["share", "0"]],
    ];
    const together = start.together();

    test.each(cases)("a claim is refused for %s", async (_, request, words) => {
      const { port } = together();
      await addOne(port);
      const whole = { queues: [QUEUE], max: 1, worker: "w", wait: 0, ...request };
      await refused(() => port.claim(whole), "INVALID", ...words);
      expect((await port.stats(QUEUE)).depth.claimed).toBe(0);
    });

    test("a worker may wait longer than a manual claim, up to its own limit", async () => {
      const { port } = together();
      const { session } = await joinWorker(port, "patient");
      const request = { queues: ["none"], max: 1, worker: "patient", session };
      await refused(() => port.claim({ ...request, wait: 300_001 }), "INVALID", "wait", "300000", "300001");
      const stop = new AbortController();
      const waiting = port.claim({ ...request, wait: 300_000, signal: stop.signal });
      stop.abort();
      await expect(waiting).rejects.toBe(stop.signal.reason);
      await port.leave(session);
    });
  });

  describe("bad requests of verifiers", () => {
    const together = start.together();

    test.each([undefined, null, "1", -1, 0.5])(
      "reading a result to verify is refused for the fence %j",
      async (fence) => {
        const { port } = together();
        const [added] = await port.add([{ queue: QUEUE, data: "1" }]);
        const asked = { id: added!.id, fence: no(fence) };
        await refused(() => port.verifying(asked), "INVALID", "fence");
        await port.drop(QUEUE);
      },
    );
  });

  describe("bad policies", () => {
    const cases: [string, Partial<QueuePolicy>, string[]][] = [
      ["a lease that is too short", { lease: 99 }, ["lease", "100"]],
      ["a timeout of zero", { timeout: 0 }, ["timeout"]],
      ["no attempts", { maxAttempts: 0 }, ["maxAttempts"]],
      ["a backoff of an unknown type", { backoff: no({ type: "linear" }) }, ["backoff.type", '"linear"']],
      ["a jitter above one", { backoff: { type: "fixed", delay: 1, max: 1, jitter: 2 } }, ["jitter", "2"]],
      [
        "a maximum backoff below the delay",
        { backoff: { type: "fixed", delay: 2, max: 1, jitter: 0 } },
        ["backoff.max"],
      ],
      ["a negative elsewhere", { elsewhere: -1 }, ["elsewhere", "-1"]],
      ["a negative depth", { maxDepth: -1 }, ["maxDepth", "-1"]],
      ["a maxPayload above the limit", { maxPayload: 1e12 }, ["maxPayload"]],
      ["a retention that is a number", { retention: no(5) }, ["retention", "5"]],
      ["a ttl of zero", { ttl: 0 }, ["ttl"]],
      ["an unknown field", no({ leese: 5 }), ["leese", "lease"]],
    ];
    const together = start.together();

    test.each(cases)("a policy is refused for %s", async (_, policy, words) => {
      const { port } = together();
      await refused(() => port.declare(QUEUE, policy), "INVALID", ...words);
      expect((await port.queues()).items).toEqual([]);
    });
  });

  describe("bad calls of a holder", () => {
    const cases: [
      string,
      (port: Port, held: Awaited<ReturnType<typeof claimOne>>) => Promise<unknown>,
      string[],
    ][] = [
      ["a lease of zero", (port, held) => port.extend(held, 0), ["lease", "0"]],
      ["a lease that is not a number", (port, held) => port.extend(held, no("1m")), ["lease", '"1m"']],
      ["a missing fence", (port, held) => port.extend(no({ id: held.id }), 1_000), ["fence"]],
      [
        "a missing fence with an invalid task id",
        (port) => port.progress(no({ id: "01980000-0000-7000-8000-000000000000" }), 0.5, null),
        ["fence"],
      ],
      [
        "a settlement without a fence",
        (port, held) => port.settle(no({ ...held, fence: undefined }), { kind: "ack", result: null }),
        ["fence"],
      ],
      [
        "a stack that is not a text",
        (port, held) => port.settle(held, { kind: "nack", error: no({ ...failure(), stack: 7 }) }),
        ["stack", "7"],
      ],
      ["progress above one", (port, held) => port.progress(held, 1.1, null), ["0 to 1", "1.1"]],
      ["progress that is not a number", (port, held) => port.progress(held, Number.NaN, null), ["NaN"]],
      ["a note that is too long", (port, held) => port.progress(held, 1, "x".repeat(4_097)), ["4096"]],
      [
        "a negative delay",
        (port, held) => port.settle(held, { kind: "nack", error: failure(), delay: -1 }),
        ["delay", "-1"],
      ],
      [
        "an error that is not an object",
        (port, held) => port.settle(held, { kind: "nack", error: no("oops") }),
        ["error", '"oops"'],
      ],
      [
        "an error without a message",
        (port, held) => port.settle(held, { kind: "reject", error: no({}) }),
        ["message"],
      ],
      [
        "a result that is an object",
        (port, held) => port.settle(held, { kind: "ack", result: no({}) }),
        ["result", "an object"],
      ],
      ["an ack with an invalid task id", (port, held) => ack(port, { ...held, id: "7" }), ["task id", '"7"']],
      [
        "a release with an invalid delay",
        (port, held) => port.settle(held, { kind: "release", started: true, delay: -1 }),
        ["delay", "-1"],
      ],
      [
        "a release with an invalid task id",
        (port, held) => port.settle({ ...held, id: "" }, { kind: "release", started: true }),
        ["task id", '""'],
      ],
      [
        "a nack with an invalid task id",
        (port, held) => port.settle({ ...held, id: `${held.id}0` }, { kind: "nack", error: failure() }),
        ["task id"],
      ],
      [
        "an extension with an invalid task id",
        (port, held) => port.extend({ ...held, id: "7" }, 60_000),
        ["task id"],
      ],
      [
        "progress with an invalid task id",
        (port, held) => port.progress({ ...held, id: "7" }, 1, null),
        ["task id"],
      ],
      [
        "a step with an invalid task id",
        (port, held) => port.step({ ...held, id: "7" }, "a", null),
        ["task id"],
      ],
      ["an unknown settlement", (port, held) => port.settle(held, no({ kind: "maybe" })), ['"maybe"', "ack"]],
    ];
    const together = start.together();

    test.each(cases)("a holder's call is refused for %s", async (_, say, words) => {
      const { port } = together();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      const before = await port.task(id);
      await refused(() => say(port, held), "INVALID", ...words);
      expect(await port.task(id)).toEqual(before);
    });
  });

  describe("bad queries and operator calls", () => {
    const cases: [string, (port: Port) => Promise<unknown>, string[]][] = [
      ["an invalid task id", (port) => port.task("7"), ["task id", '"7"']],
      ["waiting for an invalid task id", (port) => port.end("7"), ["task id", '"7"']],
      ["a pause that is not a boolean", (port) => port.pause(QUEUE, no("yes")), ["paused", '"yes"']],
      [
        "an invalid timeout of a wait",
        (port) => port.end("01980000-0000-7000-8000-000000000000", { timeout: Number.NaN }),
        ["timeout", "NaN"],
      ],
      ["the history of an invalid task id", (port) => port.history(no(7)), ["task id", "7"]],
      ["cancelling an invalid task id", (port) => port.cancel(""), ["task id"]],
      ["an invalid queue name", (port) => port.stats("a b"), ['"a b"']],
      ["pausing an invalid queue name", (port) => port.pause("a b", true), ['"a b"']],
      ["purging an invalid queue name", (port) => port.purge("a b"), ['"a b"']],
      [
        "a page limit of zero",
        (port) => port.list({ queue: QUEUE, state: "dead", limit: 0 }),
        ["limit", "0"],
      ],
      [
        "a page limit that is too high",
        (port) => port.list({ queue: QUEUE, state: "dead", limit: 1_001 }),
        ["1000"],
      ],
      [
        "an unknown state",
        (port) => port.list({ queue: QUEUE, state: no("lost"), limit: 1 }),
        ["state", '"lost"', "ready"],
      ],
      [
        "a filter of tasks that are not dead",
        (port) => port.list({ queue: QUEUE, state: "done", filter: {}, limit: 1 }),
        ["dead", '"done"'],
      ],
      [
        "an invalid page cursor",
        (port) => port.list({ queue: QUEUE, state: "dead", limit: 1, after: "x" }),
        ["after", '"x"'],
      ],
      [
        "a filter with an unknown field",
        (port) => port.discard(QUEUE, no({ worker: "w" })),
        ["worker", "pattern"],
      ],
      [
        "a filter by an error that is too long",
        (port) => port.redrive(QUEUE, { error: "e".repeat(1_025) }, 0),
        ["error", "1024"],
      ],
      [
        "a filter by a pattern that is too long",
        (port) =>
          port.list({ queue: QUEUE, state: "dead", filter: { pattern: "p".repeat(1_025) }, limit: 1 }),
        ["pattern", "1024"],
      ],
      [
        "a search for a groupKey that is too long",
        (port) => port.list({ queue: QUEUE, match: { groupKey: "g".repeat(513) }, limit: 1 }),
        ["groupKey", "512"],
      ],
      [
        "a search for a uniqueKey that is too long",
        (port) => port.list({ queue: QUEUE, match: { uniqueKey: "u".repeat(513) }, limit: 1 }),
        ["uniqueKey", "512"],
      ],
      [
        "a search for headers that are too long",
        (port) => port.list({ queue: QUEUE, match: { headers: { a: "h".repeat(20_000) } }, limit: 1 }),
        ["headers", "16384"],
      ],
      ["invalid task ids", (port) => port.redrive(QUEUE, { ids: ["7"] }, 0), ['"7"']],
      ["ids that are not a list", (port) => port.redrive(QUEUE, { ids: no("7") }, 0), ["ids", '"7"']],
      ["a spacing that is negative", (port) => port.redrive(QUEUE, {}, -1), ["spacing", "-1"]],
      [
        "patterns by an unknown key",
        (port) => port.patterns(QUEUE, no("colour"), 1),
        ['"colour"', "fingerprint"],
      ],
      ["a limit of zero patterns", (port) => port.patterns(QUEUE, "worker", 0), ["limit"]],
      ["a worker without a name", (port) => joinWorker(port, "", { name: "x" }), ["worker"]],
      ["a worker without queues", (port) => joinWorker(port, "w", { queues: [] }), ["at least one queue"]],
      ["a worker without a lease", (port) => joinWorker(port, "w", { lease: 0 }), ["lease", "0"]],
    ];
    const together = start.together();

    test.each(cases)("a call is refused for %s", async (_, ask, words) => {
      const { port } = together();
      await refused(() => ask(port), "INVALID", ...words);
    });
  });
}
