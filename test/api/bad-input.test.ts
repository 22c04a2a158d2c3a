import { beforeAll, describe, expect, it } from "vitest";
import { type AddOptions, type Dibs, open, type QueueOptions } from "../../src/index.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { makeStore, openStore, STORES } from "../stores.ts";

/** What a user may write without a type checker, or with a typo. */
const BAD_ADDS: [string, unknown, object | undefined, RegExp][] = [
  ["no payload", undefined, {}, /cannot carry data: undefined/],
  ["a function", { f() {} }, {}, /data\.f: a function/],
  ["a bigint", [1n], {}, /data\[0\]: 1n/],
  ["a symbol", Symbol("x"), {}, /a symbol/],
  ["not a number", { a: { b: Number.NaN } }, {}, /data\.a\.b: NaN/],
  ["infinity", -Infinity, {}, /-Infinity/],
  ["a Map", { m: new Map() }, {}, /data\.m: an instance of Map/],
  ["bytes", Buffer.from("x"), {}, /instance of Buffer/],
  ["an invalid date", new Date("x"), {}, /invalid Date/],
  ["a hole in an array", [1, undefined], {}, /data\[1\]: undefined/],
  ["a circle", circle(), {}, /contains itself/],
  ["an unknown option", 1, { dealy: "1s" }, /Unknown add option "dealy".*delay/],
  ["options that are not an object", 1, "1s" as never, /must be an object; got "1s"/],
  ["a duration without unit", 1, { delay: "10" }, /delay must be a duration.*"10"/],
  ["a negative delay", 1, { delay: -1 }, /delay must be between.*-1/],
  ["a delay above the limit", 1, { delay: "100000d" }, /3650 days/],
  ["both delay and runAt", 1, { delay: 1, runAt: new Date() }, /not both/],
  ["runAt as text", 1, { runAt: "tomorrow" }, /runAt must be a valid Date; got "tomorrow"/],
  [
    "a priority out of range",
    1,
    { priority: 1001 },
    /priority must be a whole number from -1000 to 1000; got 1001/,
  ],
  ["a fractional priority", 1, { priority: 0.5 }, /got 0.5/],
  ["an empty groupKey", 1, { groupKey: "" }, /groupKey must be a text/],
  ["a groupKey that is not a text", 1, { groupKey: 42 }, /groupKey.*got 42/],
  ["an idempotencyKey that is too long", 1, { idempotencyKey: "k".repeat(513) }, /512 characters/],
  ["a control character in a key", 1, { idempotencyKey: "a\nb" }, /control characters/],
  ["a ttl of zero", 1, { ttl: 0 }, /ttl must be between 1 ms/],
  ["headers that are not texts", 1, { headers: { n: 1 } }, /Header "n" must be a text; got 1/],
  ["headers that are too large", 1, { headers: { big: "x".repeat(20_000) } }, /16384 bytes/],
  ["no attempts", 1, { maxAttempts: 0 }, /maxAttempts must be a whole number from 1/],
];

const BAD_POLICIES: [object, RegExp][] = [
  [{ leese: "1s" }, /Unknown queue policy option "leese"/],
  [{ lease: "1 minute" }, /lease must be a duration/],
  [{ lease: 5 }, /lease must be between 100 ms/],
  [{ timeout: 0 }, /timeout/],
  [{ maxAttempts: 1.5 }, /maxAttempts/],
  [{ backoff: "1s" }, /backoff must be an object/],
  [{ backoff: { type: "linear" } }, /"fixed" or "exponential"; got "linear"/],
  [{ backoff: { jitter: 2 } }, /jitter must be a number from 0 to 1/],
  [{ backoff: { delay: "2m", max: "1m" } }, /must not be below/],
  [{ maxDepth: -1 }, /maxDepth/],
  [{ retention: { days: 1 } }, /Unknown retention option "days"/],
  [{ schema: {} }, /Standard Schema/],
];

const BAD_NAMES = ["", " ", "a b", ".a", "a-", "ä", "x".repeat(129), "a\n", 42, null, undefined, {}];

describe.each(STORES)("bad input on %s", (store) => {
  /** One store for all refusals: if one of them stored something, the next one would find it. */
  let shared: Dibs;
  beforeAll(async () => {
    const made = await makeStore(store);
    shared = made.dibs;
    return made.remove;
  });

  it.each(BAD_ADDS)("add refuses %s", async (_what, data, options, message) => {
    const dibs = shared;
    const queue = dibs.queue("strict");
    await expect(queue.add(data, options as AddOptions)).rejects.toMatchObject({
      code: "INVALID",
      retryable: false,
      message: expect.stringMatching(message),
    });
    await expectNothingStored(dibs);
  });

  it("a batch with one bad task is refused as a whole, and the error names the task", async () => {
    const dibs = shared;
    const queue = dibs.queue("strict");
    const batch = [{ data: 1 }, { data: 2, priority: 5000 }, { data: 3 }];
    await expect(queue.addMany(batch)).rejects.toMatchObject({
      code: "INVALID",
      message: expect.stringMatching(/^Task 1 of the batch: priority/),
    });
    await expect(queue.addMany([{ data: 1 }, { data: Number.NaN }])).rejects.toThrow(
      /^Task 1 of the batch: JSON/,
    );
    await expect(queue.addMany([{ data: 1 }, {} as never])).rejects.toThrow(
      /^Task 1 of the batch: A task of addMany/,
    );
    await expectNothingStored(dibs);
  });

  it("an empty batch, one that is too long, and a value that is not a batch are refused", async () => {
    const dibs = shared;
    const queue = dibs.queue("strict");
    await expect(queue.addMany([])).rejects.toThrow(/batch is empty/);
    await expect(queue.addMany({} as never)).rejects.toThrow(/takes an array/);
    await expect(queue.addMany(Array.from({ length: 10_001 }, () => ({ data: 1 })))).rejects.toThrow(
      /at most 10000 tasks; got 10001/,
    );
    await expectNothingStored(dibs);
  });

  it("a payload with one byte too many is refused, counted in bytes, not in characters", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("small", { maxPayload: 12 });
    await expect(queue.add("ääääää")).rejects.toMatchObject({
      code: "PAYLOAD_TOO_LARGE",
      message: expect.stringMatching(/14 bytes.*at most 12/),
    });
    await queue.add("ääääa");
    await expect(queue.addMany([{ data: 1 }, { data: "x".repeat(11) }])).rejects.toMatchObject({
      code: "PAYLOAD_TOO_LARGE",
      message: expect.stringContaining("task 1"),
    });
    expect((await queue.stats()).depth.ready).toBe(1);
  });

  it("adding above maxDepth is refused", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("shallow", { maxDepth: 2 });
    await queue.add(1);
    await expect(queue.addMany([{ data: 2 }, { data: 3 }])).rejects.toMatchObject({
      code: "QUEUE_FULL",
      retryable: true,
      message: expect.stringMatching(/holds 1 tasks of at most 2.*2 more/),
    });
    await queue.add(2);
    await expect(queue.add(3)).rejects.toMatchObject({ code: "QUEUE_FULL" });
    await queue.claim();
    await queue.add(3);
  });

  it.each(BAD_POLICIES)("the policy %o is refused", async (policy, message) => {
    const dibs = shared;
    expect(() => dibs.queue("q", policy as QueueOptions)).toThrow(
      expect.objectContaining({ code: "INVALID", message: expect.stringMatching(message) }),
    );
  });

  it.each(BAD_NAMES)("the queue name %o is refused", async (name) => {
    const dibs = shared;
    expect(() => dibs.queue(name as string)).toThrow(expect.objectContaining({ code: "INVALID" }));
  });

  it("bad arguments of the other calls are refused", async () => {
    const dibs = shared;
    const queue = dibs.queue("strict");
    const refused = { code: "INVALID" };
    await expect(queue.claim({ max: 0 })).rejects.toMatchObject(refused);
    await expect(queue.claim({ max: 1001 })).rejects.toMatchObject(refused);
    await expect(queue.claim({ wait: "2m" })).rejects.toMatchObject(refused);
    await expect(queue.claim({ wiat: 1 } as never)).rejects.toThrow(/Unknown claim option "wiat"/);
    await expect(queue.dead.discard({})).rejects.toThrow(/all: true/);
    await expect(queue.dead.patterns({ by: "colour" as never })).rejects.toThrow(/header:NAME/);
    await expect(queue.tasks({ state: "lost" as never })).rejects.toThrow(/must be one of/);
    await expect(dibs.task("42").result()).rejects.toMatchObject(refused);
    await expect(dibs.task("01980000-0000-7000-8000-000000000000").info()).rejects.toMatchObject({
      code: "TASK_NOT_FOUND",
    });
    expect(() => queue.work("no" as never)).toThrow(/handler function/);
    expect(() => queue.work(() => {}, { concurrency: 0 })).toThrow(/concurrency/);
    expect(() => queue.work(() => {}, { order: "random" as never })).toThrow(/"strict" or "fair"/);
    expect(() => dibs.work([], () => {})).toThrow(/at least one/);
    await expect(queue.add(1, { tx: {} })).rejects.toMatchObject({
      code: store === "postgres" ? "INVALID" : "UNSUPPORTED",
    });
  });

  it("calls after close are refused with CLOSED", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue("closed");
    await dibs.close();
    await dibs.close();
    await expect(queue.add(1)).rejects.toMatchObject({
      code: "CLOSED",
      message: expect.stringContaining("open()"),
    });
  });
});

describe("open", () => {
  it("open names the addresses and options that it accepts", async () => {
    await expect(open("redis://localhost")).rejects.toMatchObject({ code: "UNSUPPORTED" });
    await expect(open("")).rejects.toMatchObject({ code: "INVALID" });
    await expect(open("postgres://localhost/none", { clock: new ManualClock() })).rejects.toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("its server's"),
    });
    await expect(open(":memory:", { durable: true } as never)).rejects.toThrow(
      /Unknown open option "durable"/,
    );
    await expect(open(":memory:", { durability: "most" } as never)).rejects.toThrow(/"full" or "relaxed"/);
  });
});

async function expectNothingStored(dibs: Dibs): Promise<void> {
  expect((await dibs.queue("strict").stats()).depth).toMatchObject({ ready: 0, scheduled: 0, waiting: 0 });
}

function circle(): object {
  const round: { self?: object } = {};
  round.self = round;
  return round;
}
