import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fingerprint } from "../../src/core/errors/fingerprint.ts";
import { describeError } from "../../src/core/errors/task-error.ts";
import { FAMILIES } from "./error-families.ts";
import { cpuTimeOf } from "./cpu-time.ts";

function of(message: string, name = "Error"): string {
  return fingerprint({ name, message });
}

describe("a fingerprint replaces what varies", () => {
  test.each([
    ["timeout after 30 ms", "timeout after 45 ms", "Error: timeout after <n> ms"],
    [
      "user 019bc188-3c70-7000-8000-00000b3a8ceb gone",
      "user 11111111-2222-4333-8444-555555555555 gone",
      "Error: user <id> gone",
    ],
    ["no user 'ada'", 'no user "grace hopper"', "Error: no user <text>"],
    ["GET https://a.example/x?y=1 failed", "GET http://b.example failed", "Error: GET <url> failed"],
    [
      "cannot reach postgres://me:secret@host/db",
      "cannot reach postgresql://other/db",
      "Error: cannot reach <url>",
    ],
    ["at 0xdeadbeef", "at 0x1", "Error: at <hex>"],
    ["object deadbeef01 is locked", "object 9f8e7d6c5b is locked", "Error: object <id> is locked"],
    ["connect 127.0.0.1:5432", "connect 10.1.2.3:80", "Error: connect <address>"],
    ["connect to db-1.internal failed", "connect to cache failed", "Error: connect to <address> failed"],
    ["connect to port 5432 failed", "connect to port 80 failed", "Error: connect to port <n> failed"],
    ["took 1.5 of 3,000", "took 27 of 9", "Error: took <n> of <n>"],
    ["failed\nat line 5", "failed\nelsewhere", "Error: failed"],
  ])("%j and %j have the same fingerprint", (one, other, kind) => {
    expect(of(one)).toBe(kind);
    expect(of(other)).toBe(kind);
  });
});

describe("a fingerprint distinguishes different errors", () => {
  test.each([
    ["the words", of("disk full"), of("disk gone")],
    ["the name", of("disk full", "IOError"), of("disk full", "Error")],
    ["words that look like hexadecimal", of("facade added"), of("decade added")],
  ])("errors that differ in %s have different fingerprints", (_, one, other) => {
    expect(one).not.toBe(other);
  });
});

describe("families of realistic errors", () => {
  const patterns = Object.entries(FAMILIES).map(([family, members]) => ({
    family,
    members,
    own: new Set(members.map((member) => fingerprint(describeError(member)))),
  }));

  test("there are at least 40 families, with several members each", () => {
    expect(patterns.length).toBeGreaterThanOrEqual(40);
    expect(patterns.filter(({ members }) => members.length < 2)).toEqual([]);
  });

  test.each(patterns)("the errors of the family $family have one fingerprint", ({ own }) => {
    expect([...own]).toHaveLength(1);
  });

  test("no two families share a fingerprint", () => {
    const families = new Map<string, string[]>();
    for (const { family, own } of patterns)
      for (const kind of own) families.set(kind, [...(families.get(kind) ?? []), family]);
    expect([...families].filter(([, sharing]) => sharing.length > 1)).toEqual([]);
  });
});

test("a code beside the message, and the root cause, are part of a fingerprint", () => {
  const reset = Object.assign(new Error("socket hang up"), { code: "ECONNRESET" });
  const outer = new Error("upload failed", { cause: new TypeError("fetch failed", { cause: reset }) });
  expect(fingerprint(describeError(reset))).toBe("Error: socket hang up [ECONNRESET]");
  expect(fingerprint(describeError(outer))).toBe("Error: upload failed [ECONNRESET] ← Error: socket hang up");
});

test("an apostrophe does not start a quoted text", () => {
  expect(of("can't open the file, it doesn't exist")).toBe("Error: can't open the file, it doesn't exist");
  expect(of("can't find 'a.txt'")).toBe("Error: can't find <text>");
});

test("a fingerprint is short, has one line, and is stable", () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (message, name) => {
      const kind = fingerprint({ name, message });
      expect(kind.length).toBeLessThanOrEqual(160);
      expect(kind).toBe(fingerprint({ name, message }));
    }),
  );
  expect(of("x".repeat(10_000))).toHaveLength(160);
  expect(of("")).toBe("Error: ");
});

test("a fingerprint does not depend on any number in the message", () => {
  fc.assert(
    fc.property(fc.nat(), fc.nat(), fc.constantFrom("row", "line ", "at "), (one, other, word) => {
      expect(of(`${word}${one} is bad`)).toBe(of(`${word}${other} is bad`));
    }),
  );
});

test("the fingerprint of 100,000 repeated characters takes less than half a second of CPU", () => {
  const taken = cpuTimeOf(() => {
    for (const part of ["'", "a1", "0x", "1.", "http://", "-", "f"]) of(part.repeat(100_000));
  });
  expect(taken).toBeLessThan(500);
});
