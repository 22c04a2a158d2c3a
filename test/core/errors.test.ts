import { describe, expect, test } from "vitest";
import { isReject, Reject, requestedDelay, Retry } from "../../src/core/handler/control.ts";
import {
  claimLost,
  ClaimLostError,
  DibsError,
  ERROR_CODES,
  errorFrom,
  isDibsError,
} from "../../src/core/errors/errors.ts";
import { describeError } from "../../src/core/errors/task-error.ts";

describe("DibsError", () => {
  test.each(ERROR_CODES)("an error with code %s survives the conversion to plain data", (code) => {
    const { message, retryable } = new DibsError(code, "so it is");
    const back = errorFrom(structuredClone({ code, message, retryable }));
    expect(back).toMatchObject({ code, message, retryable });
    expect(isDibsError(back)).toBe(true);
    expect(back instanceof ClaimLostError).toBe(code === "CLAIM_LOST");
  });

  test("an error is retryable if a retry can help", () => {
    const retryable = ERROR_CODES.filter((code) => new DibsError(code, "").retryable);
    expect(retryable).toEqual(["QUEUE_FULL", "TIMEOUT", "UNAVAILABLE", "OUTCOME_UNKNOWN"]);
    expect(new DibsError("UNAVAILABLE", "", { retryable: false }).retryable).toBe(false);
  });

  test("an error keeps its cause", () => {
    const cause = new Error("the disk");
    expect(new DibsError("UNAVAILABLE", "no", { cause }).cause).toBe(cause);
    expect("cause" in new DibsError("UNAVAILABLE", "no")).toBe(false);
  });

  test("an error is recognised by its code, not by its class", () => {
    expect(isDibsError(Object.assign(new Error("x"), { code: "INVALID" }))).toBe(true);
    expect(isDibsError(Object.assign(new Error("x"), { code: "ENOENT" }))).toBe(false);
    expect(isDibsError(new Error("x"))).toBe(false);
    expect(isDibsError({ code: "INVALID" })).toBe(false);
    expect(isDibsError(null)).toBe(false);
  });

  test("the error of a lost claim says what to do", () => {
    expect(claimLost("the-id", 7).message).toMatch(
      /task the-id \(fence 7\) no longer holds.*Nothing was changed/,
    );
  });
});

describe("Retry and Reject", () => {
  test("Retry and Reject are recognised by their code, so that another copy of the library may throw them", () => {
    expect(isReject(new Reject("no use"))).toBe(true);
    expect(isReject({ code: "REJECT" })).toBe(true);
    expect(isReject(new Error("no use"))).toBe(false);
    expect(isReject(null)).toBe(false);
    expect(isReject("REJECT")).toBe(false);
  });

  test("a Retry may have a delay", () => {
    expect(requestedDelay(new Retry("later", { delay: "5s" }))).toBe(5_000);
    expect(requestedDelay(new Retry("later", { delay: 0 }))).toBe(0);
    expect(requestedDelay(new Retry())).toBeUndefined();
    expect(requestedDelay(new Error("later"))).toBeUndefined();
    expect(requestedDelay(undefined)).toBeUndefined();
    expect(() => new Retry("later", { delay: "soon" as "5s" })).toThrow("Retry's delay must be a duration");
    expect(() => new Retry("later", { dealy: "5s" } as never)).toThrow(
      'Unknown Retry option "dealy". Known: delay, key, cause.',
    );
    expect(() => new Retry("later", { key: "provider" as never })).toThrow(/key.*got "provider".*groupKey/);
    expect(() => new Retry("later", "5s" as never)).toThrow('The Retry options must be an object; got "5s"');
  });
});

describe("what the ledger stores of a failure", () => {
  test("an error is stored as name, message and stack, with its causes below", () => {
    const cause = new TypeError("inner");
    const kept = describeError(new Error("outer", { cause }));
    expect(kept).toMatchObject({ name: "Error", message: "outer" });
    expect(kept.stack).toMatch(/^Error: outer\n[^]*caused by TypeError: inner\n/);
  });

  test("circular causes end", () => {
    const error = new Error("round");
    error.cause = error;
    expect(describeError(error).stack!.match(/caused by/g)).toHaveLength(5);
  });

  test.each([
    ["a text", "a text"],
    [undefined, "undefined"],
    [null, "null"],
    [5n, "5"],
    [{ status: 500 }, '{"status":500}'],
    [Symbol("s"), "Symbol(s)"],
  ])("a thrown %o is stored as its text", (thrown, message) => {
    expect(describeError(thrown)).toEqual({ name: "Error", message, stack: null });
  });

  test("any thrown value is stored as text", () => {
    const circle = Object.create(null) as Record<string, unknown>;
    circle["itself"] = circle;
    const odd = Object.assign(new Error("x"), { message: { code: 5 }, name: 7, stack: 9 });
    const hostile = new Error("x");
    Object.defineProperty(hostile, "message", {
      get: () => {
        throw new Error("no message for you");
      },
    });
    for (const thrown of [circle, odd, hostile]) {
      const { name, message, stack } = describeError(thrown);
      expect([typeof name, typeof message]).toEqual(["string", "string"]);
      expect(stack === null || typeof stack === "string").toBe(true);
    }
  });
});
