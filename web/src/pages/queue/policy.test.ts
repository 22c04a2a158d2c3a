import { describe, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../../../src/core/policy.ts";
import { policyCommand } from "./policy-command.ts";
import { FIELDS, readChanges } from "./policy-fields.ts";

const written = Object.fromEntries(FIELDS.map(({ name, write }) => [name, write(DEFAULT_POLICY)]));

describe("the fields of a policy", () => {
  test("change nothing when they are left as they are", () => {
    expect(readChanges(DEFAULT_POLICY, written)).toEqual({});
  });

  test("are read as they are written", () => {
    for (const { name, read } of FIELDS) {
      const { groups: _, ...policy } = DEFAULT_POLICY;
      const [[field, value]] = Object.entries(read(written[name]!, DEFAULT_POLICY)) as [[string, unknown]];
      expect({ field, value }).toEqual({
        field,
        value: name === "rateLimit" ? null : policy[name as "lease"],
      });
    }
  });

  test("keep the type and the jitter of a backoff", () => {
    const changes = readChanges(DEFAULT_POLICY, { backoff: "2s to 1m" });
    expect(changes).toEqual({ backoff: { type: "exponential", jitter: 0.2, delay: 2_000, max: 60_000 } });
  });

  test("say what is wrong with a text", () => {
    expect(() => readChanges(DEFAULT_POLICY, { lease: "soon" })).toThrow("Lease: “soon” is no duration");
    expect(() => readChanges(DEFAULT_POLICY, { maxAttempts: "many" })).toThrow("no whole number");
    expect(() => readChanges(DEFAULT_POLICY, { rateLimit: "fast" })).toThrow("Write 100 per 1s");
  });
});

test("changes are the fields of dibs queue set", () => {
  const changes = readChanges(DEFAULT_POLICY, {
    lease: "1m",
    ttl: "",
    rateLimit: "100 per 1s",
    backoff: "2s to 1m",
  });
  expect(policyCommand(changes)).toBe("lease=1m backoff.delay=2s backoff.max=1m rateLimit=100/1s");
});
