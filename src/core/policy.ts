import { type Duration, parseDuration } from "./duration.ts";
import { invalid } from "./errors.ts";
import { checkBoolean, checkNames, checkNumber, checkObject } from "./options.ts";
import { show } from "./show.ts";

/** A queue's policy, resolved: every field set, durations in milliseconds. */
export interface QueuePolicy {
  /** How long a claim lasts without a sign of life. */
  lease: number;
  /** How long one attempt of a worker may take. */
  timeout: number;
  maxAttempts: number;
  backoff: Backoff;
  /** How long a failed task is kept for workers that have not failed it, before any worker may have it. */
  elsewhere: number;
  /** Tasks that may wait (ready, waiting or scheduled) before `add` is refused; null: no limit. */
  maxDepth: number | null;
  /** Bytes of a payload, and of a result. */
  maxPayload: number;
  /** Ended tasks are kept for `age`, and at most the last `count` of a queue. Dead letters are kept. */
  retention: { age: number; count: number };
  /** Tasks not started by then expire; null: never. */
  ttl: number | null;
  /** A success counts only when a verifier has accepted its result: see core/verification.ts. */
  verified: boolean;
}

export interface Backoff {
  type: "fixed" | "exponential";
  delay: number;
  max: number;
  /** A delay d becomes a random one between d × (1 − jitter) and d × (1 + jitter). */
  jitter: number;
}

/** What a user writes: any part of a policy. */
export interface QueuePolicyOptions {
  lease?: Duration;
  timeout?: Duration;
  maxAttempts?: number;
  backoff?: { type?: "fixed" | "exponential"; delay?: Duration; max?: Duration; jitter?: number };
  elsewhere?: Duration;
  maxDepth?: number | null;
  maxPayload?: number;
  retention?: { age?: Duration; count?: number };
  ttl?: Duration | null;
  verified?: boolean;
}

export const DEFAULT_POLICY: QueuePolicy = {
  lease: 30_000,
  timeout: 3_600_000,
  maxAttempts: 5,
  backoff: { type: "exponential", delay: 1_000, max: 600_000, jitter: 0.2 },
  elsewhere: 5_000,
  maxDepth: null,
  maxPayload: 256 * 1024,
  retention: { age: 86_400_000, count: 100_000 },
  ttl: null,
  verified: false,
};

/** A lease shorter than this would be lost to an ordinary pause of a busy machine. */
const SHORTEST_LEASE_MS = 100;
const LARGEST_PAYLOAD = 64 * 1024 * 1024;
export const MOST_ATTEMPTS = 1_000;

/** The fields that were named, checked and in milliseconds; nothing is filled in. */
export function parsePolicy(options: QueuePolicyOptions): Partial<QueuePolicy> {
  checkObject(options, "The policy");
  checkNames(options, POLICY_FIELDS, "queue policy");
  const policy: Partial<QueuePolicy> = {};
  if (options.lease !== undefined) policy.lease = parseDuration(options.lease, "lease", SHORTEST_LEASE_MS);
  if (options.timeout !== undefined) policy.timeout = parseDuration(options.timeout, "timeout", 1);
  if (options.maxAttempts !== undefined) policy.maxAttempts = parseMaxAttempts(options.maxAttempts);
  if (options.backoff !== undefined) policy.backoff = parseBackoff(options.backoff);
  if (options.elsewhere !== undefined) policy.elsewhere = parseDuration(options.elsewhere, "elsewhere");
  if (options.maxDepth !== undefined) {
    policy.maxDepth = options.maxDepth === null ? null : checkNumber(options.maxDepth, "maxDepth", 0, 1e12);
  }
  if (options.maxPayload !== undefined) {
    policy.maxPayload = checkNumber(options.maxPayload, "maxPayload", 0, LARGEST_PAYLOAD);
  }
  if (options.retention !== undefined) policy.retention = parseRetention(options.retention);
  if (options.ttl !== undefined)
    policy.ttl = options.ttl === null ? null : parseDuration(options.ttl, "ttl", 1);
  if (options.verified !== undefined) policy.verified = checkBoolean(options.verified, "verified");
  return policy;
}

export function resolvePolicy(named: Partial<QueuePolicy>): QueuePolicy {
  return { ...DEFAULT_POLICY, ...named };
}

export function parseMaxAttempts(value: unknown): number {
  return checkNumber(value, "maxAttempts", 1, MOST_ATTEMPTS);
}

const POLICY_FIELDS = Object.keys(DEFAULT_POLICY) as (keyof QueuePolicy)[];

function parseBackoff(options: NonNullable<QueuePolicyOptions["backoff"]>): Backoff {
  checkObject(options, "backoff");
  checkNames(options, ["type", "delay", "max", "jitter"], "backoff");
  const fallback = DEFAULT_POLICY.backoff;
  const type = options.type ?? fallback.type;
  if (type !== "fixed" && type !== "exponential") {
    throw invalid(`backoff.type must be "fixed" or "exponential"; got ${show(type)}.`);
  }
  const delay = parseDuration(options.delay ?? fallback.delay, "backoff.delay");
  // The default ceiling must not turn a longer delay, named on purpose, into an error.
  const max = parseDuration(options.max ?? Math.max(fallback.max, delay), "backoff.max");
  if (max < delay) throw invalid(`backoff.max (${max} ms) must not be below backoff.delay (${delay} ms).`);
  const jitter = options.jitter ?? fallback.jitter;
  if (typeof jitter !== "number" || !(jitter >= 0 && jitter <= 1)) {
    throw invalid(`backoff.jitter must be a number from 0 to 1; got ${show(jitter)}.`);
  }
  return { type, delay, max, jitter };
}

function parseRetention(options: NonNullable<QueuePolicyOptions["retention"]>): QueuePolicy["retention"] {
  checkObject(options, "retention");
  checkNames(options, ["age", "count"], "retention");
  const fallback = DEFAULT_POLICY.retention;
  return {
    age: parseDuration(options.age ?? fallback.age, "retention.age"),
    count: checkNumber(options.count ?? fallback.count, "retention.count", 0, 1e12),
  };
}
