import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { formatTaskId, isTaskId, parseTaskId, STORE_LIMIT } from "../../src/core/task/task-id.ts";

const LAST_MS = 2 ** 48 - 1;
const LAST_SEQ = 2 ** 48 - 1;

const ms = fc.integer({ min: 0, max: LAST_MS });
const seq = fc.oneof(fc.integer({ min: 1, max: LAST_SEQ }), fc.integer({ min: 1, max: 100_000 }));
const store = fc.integer({ min: 0, max: STORE_LIMIT - 1 });

test("a task id contains the sequence number and the creation time", () => {
  fc.assert(
    fc.property(ms, seq, store, (createdAt, n, salt) => {
      expect(parseTaskId(formatTaskId(createdAt, n, salt), salt)).toEqual({ seq: n, createdAt });
    }),
  );
});

test("a task id can hold the extremes of every part", () => {
  for (const createdAt of [0, LAST_MS]) {
    for (const n of [0, 1, 2 ** 22 - 1, 2 ** 22, 2 ** 36 - 1, 2 ** 36, LAST_SEQ]) {
      for (const salt of [0, STORE_LIMIT - 1]) {
        const id = formatTaskId(createdAt, n, salt);
        expect(isTaskId(id)).toBe(true);
        expect(parseTaskId(id, salt)).toEqual({ seq: n, createdAt });
      }
    }
  }
});

test("a task id is a UUID of version 7", () => {
  fc.assert(
    fc.property(ms, seq, store, (createdAt, n, salt) => {
      const id = formatTaskId(createdAt, n, salt);
      expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
      expect(Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16)).toBe(createdAt);
    }),
  );
});

test("the ids of one store sort in the order of arrival", () => {
  fc.assert(
    fc.property(ms, seq, ms, seq, store, (msA, seqA, msB, seqB, salt) => {
      // Time and sequence grow together: the engine's clock never goes back.
      const [early, late] = msA <= msB ? [msA, msB] : [msB, msA];
      const [first, second] = seqA <= seqB ? [seqA, seqB] : [seqB, seqA];
      if (first === second) return;
      expect(formatTaskId(early, first, salt) < formatTaskId(late, second, salt)).toBe(true);
    }),
  );
});

test("neighbouring ids differ in their last digits", () => {
  const from = 123_456;
  const ends = Array.from({ length: 65_536 }, (_, n) =>
    formatTaskId(1_768_000_000_000, from + n, 77).slice(-4),
  );
  expect(new Set(ends).size).toBe(65_536);
});

test("an id that was given out before ends were mixed is still valid", () => {
  const before = "019ba8a5-2400-7000-8000-0000080000bc";
  expect(parseTaskId(before, 0xbc)).toEqual({ seq: 2, createdAt: 0x019ba8a52400 });
});

test("a store does not recognise the ids of another store", () => {
  fc.assert(
    fc.property(ms, seq, store, store, (createdAt, n, salt, other) => {
      if (salt === other) return;
      expect(parseTaskId(formatTaskId(createdAt, n, salt), other)).toBeUndefined();
    }),
  );
});

describe("a text that is not a task id is refused", () => {
  const good = formatTaskId(1_768_000_000_000, 7, 5);
  test.each([
    ["", "nothing"],
    ["no id", "text"],
    [good.toUpperCase(), "upper case: it would be a second name for one task"],
    [`${good}0`, "one digit more"],
    [good.slice(1), "one digit less"],
    [` ${good}`, "a space before it"],
    [`${good}\n`, "a line break behind it"],
    [good.replace("-7", "-4"), "another version"],
    ["00000000-0000-7000-0000-000000000005", "another variant"],
  ])("%s (%s)", (text) => {
    expect(parseTaskId(text, 5)).toBeUndefined();
    expect(isTaskId(text)).toBe(false);
  });
});
