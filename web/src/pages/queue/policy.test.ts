import { describe, expect, test } from "vitest";
import {
  DEFAULT_POLICY,
  mergePolicy,
  parsePolicy,
  type QueuePolicy,
  resolvePolicy,
  UNLIMITED_ATTEMPTS,
} from "../../../../src/core/queue/policy.ts";
import { parseAssignments } from "../../../../src/cli/policy-values.ts";
import { policyCommand } from "./policy-command.ts";
import { bodyOf, FIELDS, readChanges } from "./policy-fields.ts";

/** The policy that the server has after the change. */
function applied(before: QueuePolicy, texts: Record<string, string>): QueuePolicy {
  const changes = bodyOf(before, readChanges(before, texts));
  return resolvePolicy(mergePolicy(before, parsePolicy(changes)));
}

const written = (policy: QueuePolicy) =>
  Object.fromEntries(FIELDS.map(({ name, write }) => [name, write(policy)]));

/** Differs from the defaults in every field. */
const OTHER = resolvePolicy(
  parsePolicy({
    ...{ lease: "45s", timeout: "2m", maxAttempts: null, elsewhere: "1s", maxConcurrency: 7 },
    backoff: { type: "fixed", delay: "2s", max: "1m" },
    rateLimit: [
      { max: 100, per: "1s" },
      { max: 9_000, per: "1m", pace: true, unit: "tokens" },
    ],
    window: { hours: "22:00-06:00", tz: "Europe/London" },
    groups: {
      ...{ concurrency: 3, fair: true, sticky: true },
      weight: { acme: 3, "two words": 2 },
    },
    ...{ maxDepth: 500, maxBytes: 1_048_577, overflow: "drop-oldest", ttl: "1h", expiredTo: "late" },
    ...{ maxPayload: 1_048_576, retention: { age: "2h", count: 50 }, verified: true },
  }),
);

describe("the fields of a policy", () => {
  test("the form of a policy covers every field", () => {
    const covered = new Set(FIELDS.map(({ name }) => name.split(".")[0]));
    expect(covered).toEqual(new Set(Object.keys(DEFAULT_POLICY)));
  });

  test("the form of a policy changes nothing if no field is edited", () => {
    expect(readChanges(DEFAULT_POLICY, written(DEFAULT_POLICY))).toEqual({});
    expect(readChanges(OTHER, written(OTHER))).toEqual({});
  });

  test("the form of a policy reads back what it shows, from one policy to another and back", () => {
    expect(applied(DEFAULT_POLICY, written(OTHER))).toEqual({
      ...OTHER,
      backoff: { ...OTHER.backoff, jitter: 0.2 },
    });
    expect(applied(OTHER, written(DEFAULT_POLICY))).toEqual(DEFAULT_POLICY);
  });

  test("the form of a policy leaves the other parts of backoff, groups and retention as they are", () => {
    const after = applied(OTHER, { "backoff.max": "5m", "groups.fair": "no", "retention.count": "9" });
    expect(after.backoff).toEqual({ ...OTHER.backoff, max: 300_000 });
    expect(after.groups).toEqual({ ...OTHER.groups, fair: false });
    expect(after.retention).toEqual({ ...OTHER.retention, count: 9 });
  });

  test("the form of a policy reads the rate of a group", () => {
    const { groups } = applied(DEFAULT_POLICY, { "groups.rateLimit": "5 per 10s" });
    expect(groups.rateLimit).toEqual([{ max: 5, per: 10_000, pace: false, unit: null }]);
  });

  test("an empty field for attempts means no limit", () => {
    expect(applied(DEFAULT_POLICY, { maxAttempts: "" }).maxAttempts).toBe(UNLIMITED_ATTEMPTS);
  });

  test.each([
    ["lease", "soon", "Lease: “soon” is no duration"],
    ["maxAttempts", "many", "no whole number"],
    ["rateLimit", "fast", "Write 100 per 1s"],
    ["maxPayload", "large", "is no size"],
    ["groups.weight", "acme", "Write acme 3"],
  ])("say what is wrong with %s %s", (name, text, message) => {
    expect(() => readChanges(DEFAULT_POLICY, { [name]: text })).toThrow(message);
  });
});

describe("the shell's form of changes", () => {
  test("the shell's form of changes has the fields of dibs queue set", () => {
    const changes = readChanges(DEFAULT_POLICY, {
      ...{ lease: "1m", ttl: "", rateLimit: "100 per 1s", "backoff.delay": "2s", maxAttempts: "" },
      window: "22:00-06:00 Europe/London",
    });
    expect(policyCommand(changes)).toBe(
      `lease=1m maxAttempts=null backoff.delay=2s rateLimit=100/1s 'window={"hours":"22:00-06:00","tz":"Europe/London"}'`,
    );
  });

  test("the shell's form of changes results in the same policy", () => {
    const changes = readChanges(DEFAULT_POLICY, written(OTHER));
    const assignments = Object.entries(changes).map(([name, value]) =>
      policyCommand({ [name]: value }).replaceAll(/^'|'$/g, ""),
    );
    const named = parsePolicy(parseAssignments(assignments, DEFAULT_POLICY));
    expect(resolvePolicy(mergePolicy(DEFAULT_POLICY, named))).toEqual(
      applied(DEFAULT_POLICY, written(OTHER)),
    );
  });
});
