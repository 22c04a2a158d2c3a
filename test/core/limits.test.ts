import * as fc from "fast-check";
import { expect, test } from "vitest";
import { byteLength, isLarger, LIMITS, queueFull, tooLarge } from "../../src/core/input/limits.ts";

const KIB = 1024;

// The other tests take the limits from the sources, and would not notice a changed one.
test("the limits are those in the documentation", () => {
  expect(LIMITS).toMatchObject({
    ...{ addBatch: 10_000, claimBatch: 1_000, claimWaitMs: 60_000, page: 1_000, priority: 1_000 },
    ...{ groupKey: 512, idempotencyKey: 512, progressNote: 4_096, previewAbove: KIB, preview: 256 },
    ...{ stepBytes: 256 * KIB, steps: 1_000, allStepBytes: 4 * KIB * KIB, gatheredBytes: 16 * KIB * KIB },
    ...{ headerBytes: 16 * KIB, answerBytes: 4 * KIB * KIB },
  });
});

const body = fc.oneof(fc.string({ unit: "binary" }), fc.string(), fc.uint8Array());

test("the size of a body is its size in bytes", () => {
  fc.assert(
    fc.property(body, (data) => {
      expect(byteLength(data)).toBe(Buffer.from(data as string).byteLength);
    }),
  );
});

test("isLarger is exact, with and without counting bytes", () => {
  fc.assert(
    fc.property(body, fc.integer({ min: -3, max: 3 }), (data, off) => {
      const most = Math.max(0, byteLength(data) + off);
      expect(isLarger(data, most)).toBe(byteLength(data) > most);
    }),
  );
  expect(isLarger("é".repeat(50), 100)).toBe(false);
  expect(isLarger("é".repeat(50), 99)).toBe(true);
  expect(isLarger("", 0)).toBe(false);
});

test("a size error names the size, the limit and what to do", () => {
  const large = tooLarge("The payload", "é", 1, "emails");
  expect(large).toMatchObject({ code: "PAYLOAD_TOO_LARGE", retryable: false });
  expect(large.message).toContain('The payload has 2 bytes; queue "emails" takes at most 1 (maxPayload)');
  const full = queueFull("emails", 10, 3, 12);
  expect(full).toMatchObject({ code: "QUEUE_FULL", retryable: true });
  expect(full.message).toContain('Queue "emails" holds 10 tasks of at most 12 (maxDepth); 3 more do not fit');
});

test("QUEUE_FULL is retryable, except for a batch that can never fit", () => {
  expect(queueFull("q", 2, 2, 3)).toMatchObject({ code: "QUEUE_FULL", retryable: true });
  expect(queueFull("q", 0, 4, 3)).toMatchObject({ code: "QUEUE_FULL", retryable: false });
});
