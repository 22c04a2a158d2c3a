import { type Duration, parseDuration } from "../time/duration.ts";
import { invalid } from "../errors/errors.ts";
import { LIMITS } from "../input/limits.ts";
import { checkQueueName } from "./queue-name.ts";
import { checkBoolean, checkNames, checkNumber, checkObject, checkText } from "../input/options.ts";
import { parseRateLimits, type RateLimit, type RateLimitOptions } from "./rate.ts";
import { show } from "../errors/show.ts";
import { isUrgent } from "../task/task.ts";
import { parseWindow, type Window, type WindowOptions } from "./window.ts";

/** A queue's policy, resolved: every field is set, and durations are in milliseconds. */
export interface QueuePolicy {
  /** How long a claim lasts without a heartbeat. */
  lease: number;
  /** How long one attempt of a worker may take. */
  timeout: number;
  /** UNLIMITED_ATTEMPTS: no limit. */
  maxAttempts: number;
  backoff: Backoff;
  /** How long a failed task is offered only to workers that have not failed it; after that any worker may claim it. */
  elsewhere: number;
  /** Tasks that may wait (ready, waiting or scheduled) before `add` is refused; null: no limit. */
  maxDepth: number | null;
  /** Bytes of the payloads of ready tasks before `add` is refused; null: no limit. Every add reads their sizes. */
  maxBytes: number | null;
  /** What an add above maxDepth or maxBytes does: it is refused, or the oldest ready tasks of the lowest priority expire. */
  overflow: Overflow;
  /** The queue in which tasks continue that expired or were dropped: core/queue/expired-to.ts; null: none. */
  expiredTo: string | null;
  /** Bytes of a payload, and of a result. */
  maxPayload: number;
  /** Ended tasks are stored for `age`, and at most the last `count` per queue. Dead letters are not removed. */
  retention: { age: number; count: number };
  /** A task that has not started by then expires; null: never. */
  ttl: number | null;
  /** A success counts only after a verifier has accepted its result: core/handler/verification.ts. */
  verified: boolean;
  /** Tasks that may be claimed at once, by all workers together; null: no limit. */
  maxConcurrency: number | null;
  /** How many tasks may start in a span of time. All limits apply. */
  rateLimit: RateLimit[];
  /** Limits for tasks with the same groupKey. */
  groups: GroupPolicy;
  /** Tasks that are not urgent start only within these hours; null: at any time. */
  window: Window | null;
}

export type Overflow = "refuse" | "drop-oldest";

export interface GroupPolicy {
  /** How many tasks of a group may be ready or claimed at once. With 1 they run strictly in order. */
  concurrency: number;
  /** How many tasks of a group may start in a span of time. */
  rateLimit: RateLimit[];
  /** Groups rotate: each starts one task per turn, however many it has. */
  fair: boolean;
  /** How many turns per rotation a group gets; the other groups get one. */
  weight: Record<string, number>;
  /** The tasks of a group go to the worker that had the last one, while that worker lives. */
  sticky: boolean;
}

/** Only the fields of a policy that a declaration named; its `groups` may be partial too. */
export type NamedPolicy = Partial<Omit<QueuePolicy, "groups">> & { groups?: Partial<GroupPolicy> };

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
  /** Null: no limit. */
  maxAttempts?: number | null;
  backoff?: { type?: "fixed" | "exponential"; delay?: Duration; max?: Duration; jitter?: number };
  elsewhere?: Duration;
  maxDepth?: number | null;
  maxBytes?: number | null;
  overflow?: Overflow;
  expiredTo?: string | null;
  maxPayload?: number;
  retention?: { age?: Duration; count?: number };
  ttl?: Duration | null;
  verified?: boolean;
  maxConcurrency?: number | null;
  rateLimit?: RateLimitOptions | readonly RateLimitOptions[] | null;
  groups?: GroupPolicyOptions | null;
  window?: WindowOptions | null;
}

/** Null resets a field to its default. */
export interface GroupPolicyOptions {
  concurrency?: number | null;
  rateLimit?: RateLimitOptions | readonly RateLimitOptions[] | null;
  fair?: boolean | null;
  weight?: Record<string, number> | null;
  sticky?: boolean | null;
}

export const DEFAULT_POLICY: QueuePolicy = {
  lease: 30_000,
  timeout: 3_600_000,
  maxAttempts: 5,
  backoff: { type: "exponential", delay: 1_000, max: 600_000, jitter: 0.2 },
  elsewhere: 5_000,
  maxDepth: null,
  maxBytes: null,
  overflow: "refuse",
  expiredTo: null,
  maxPayload: 256 * 1024,
  retention: { age: 86_400_000, count: 100_000 },
  ttl: null,
  verified: false,
  maxConcurrency: null,
  rateLimit: [],
  groups: { concurrency: 1, rateLimit: [], fair: false, weight: {}, sticky: false },
  window: null,
};

/** An ordinary pause of a busy machine would lose a shorter lease. */
const SHORTEST_LEASE_MS = 100;
const LARGEST_PAYLOAD = 64 * 1024 * 1024;
export const MOST_ATTEMPTS = 1_000;
/** What `maxAttempts: null` is stored as: more than a task will ever have. */
export const UNLIMITED_ATTEMPTS = 2 ** 31 - 1;
const OVERFLOWS: ReadonlySet<unknown> = new Set<Overflow>(["refuse", "drop-oldest"]);
const MOST_AT_ONCE = 1_000_000;
/** Most tasks of one group in the line at once. A hold of the group removes each of them from the line. */
const MOST_OF_A_GROUP = 1_000;
const MOST_WEIGHT = 100;
const MOST_WEIGHTS = 10_000;
const LEAST_WEIGHT = "A group that is not named has one turn.";
const NO_LIMIT = "Null is no limit; to start none for a while, pause the queue.";

/** Checks the named fields and converts durations to milliseconds. Fills in no defaults. */
export function parsePolicy(options: QueuePolicyOptions): NamedPolicy {
  checkObject(options, "The policy");
  checkNames(options, POLICY_FIELDS, "queue policy");
  const policy: NamedPolicy = {};
  if (options.lease !== undefined) policy.lease = parseDuration(options.lease, "lease", SHORTEST_LEASE_MS);
  if (options.timeout !== undefined) policy.timeout = parseDuration(options.timeout, "timeout", 1);
  if (options.maxAttempts !== undefined) policy.maxAttempts = parseMaxAttempts(options.maxAttempts);
  if (options.backoff !== undefined) policy.backoff = parseBackoff(options.backoff);
  if (options.elsewhere !== undefined) policy.elsewhere = parseDuration(options.elsewhere, "elsewhere");
  if (options.maxDepth !== undefined) {
    policy.maxDepth = options.maxDepth === null ? null : checkNumber(options.maxDepth, "maxDepth", 0, 1e12);
  }
  if (options.maxBytes !== undefined) {
    policy.maxBytes = options.maxBytes === null ? null : checkNumber(options.maxBytes, "maxBytes", 0, 1e15);
  }
  if (options.overflow !== undefined) policy.overflow = parseOverflow(options.overflow);
  if (options.expiredTo !== undefined)
    policy.expiredTo = options.expiredTo === null ? null : checkQueueName(options.expiredTo);
  if (options.maxPayload !== undefined) {
    policy.maxPayload = checkNumber(options.maxPayload, "maxPayload", 0, LARGEST_PAYLOAD);
  }
  if (options.retention !== undefined) policy.retention = parseRetention(options.retention);
  if (options.ttl !== undefined)
    policy.ttl = options.ttl === null ? null : parseDuration(options.ttl, "ttl", 1);
  if (options.verified !== undefined) policy.verified = checkBoolean(options.verified, "verified");
  if (options.maxConcurrency !== undefined) {
    const { maxConcurrency: most } = options;
    policy.maxConcurrency =
      most === null ? null : checkNumber(most, "maxConcurrency", 1, MOST_AT_ONCE, NO_LIMIT);
  }
  if (options.rateLimit !== undefined) policy.rateLimit = parseRateLimits(options.rateLimit, "rateLimit");
  if (options.groups !== undefined) policy.groups = parseGroups(options.groups);
  if (options.window !== undefined)
    policy.window = options.window === null ? null : parseWindow(options.window);
  return policy;
}

export function resolvePolicy(named: NamedPolicy): QueuePolicy {
  return { ...DEFAULT_POLICY, ...named, groups: { ...DEFAULT_POLICY.groups, ...named.groups } };
}

/**
 * What a declaration did. "refused": it was create-only, the queue exists, and its policy differs from the declared
 * one.
 */
export type DeclareOutcome = "created" | "changed" | "unchanged" | "refused";

/** Whether a declaration would change the policy that these fields make up. */
export function differs(before: NamedPolicy, named: NamedPolicy): boolean {
  return JSON.stringify(resolvePolicy(mergePolicy(before, named))) !== JSON.stringify(resolvePolicy(before));
}

/** The fields of a declaration in which the current policy differs, such as `lease` or `groups.fair`. */
export function mismatches(named: NamedPolicy, policy: QueuePolicy): string[] {
  const wanted = resolvePolicy(named);
  const { groups, ...fields } = named;
  const names = (Object.keys(fields) as (keyof typeof fields)[]).filter(
    (name) => JSON.stringify(wanted[name]) !== JSON.stringify(policy[name]),
  );
  const ofGroups = (Object.keys(groups ?? {}) as (keyof GroupPolicy)[]).filter(
    (name) => JSON.stringify(wanted.groups[name]) !== JSON.stringify(policy.groups[name]),
  );
  return [...names, ...ofGroups.map((name) => `groups.${name}`)];
}

/**
 * Whether this declaration was already applied, alone or as a part of another one. Then it is skipped, so that neither
 * a restart nor a program that declares fewer fields undoes what an operator has changed since. `declared` is a list of
 * declarations: one that shares no field with the others, such as that of `verify()`, is stored in addition to them.
 */
export function isDeclared(declared: string | null, policy: NamedPolicy): boolean {
  const fields = Object.entries(policy) as [keyof NamedPolicy, unknown][];
  return lastDeclared(declared).some((each) =>
    fields.every(([name, value]) => JSON.stringify(each[name]) === JSON.stringify(value)),
  );
}

/** The applied declarations with this one added. It replaces those that name one of its fields. */
export function withDeclared(declared: string | null, policy: NamedPolicy): string {
  const others = lastDeclared(declared).filter((each) => !Object.keys(each).some((name) => name in policy));
  return JSON.stringify([...others, policy]);
}

/** Older stores contain a single declaration instead of a list. */
function lastDeclared(declared: string | null): NamedPolicy[] {
  const last = JSON.parse(declared ?? "[]") as NamedPolicy | NamedPolicy[];
  return Array.isArray(last) ? last : [last];
}

/** The newly named fields override the earlier ones, field by field. */
export function mergePolicy(before: NamedPolicy, named: NamedPolicy): NamedPolicy {
  if (!before.groups || !named.groups) return { ...before, ...named };
  return { ...before, ...named, groups: { ...before.groups, ...named.groups } };
}

/**
 * The policy limits groups beyond strict order, so the engine decides for each group which of its tasks are in the
 * line.
 */
export function governsGroups({ groups }: QueuePolicy): boolean {
  return groups.concurrency !== 1 || groups.rateLimit.length > 0 || groups.fair || groups.sticky;
}

/** Whether this change of policy changes which tasks of a group may be in the line. */
export function changesGroups(before: QueuePolicy, after: QueuePolicy): boolean {
  if (!governsGroups(before) && !governsGroups(after)) return false;
  return JSON.stringify(before.groups) !== JSON.stringify(after.groups);
}

/** Whether this change of policy changes how many ready tasks may start. */
export function changesGate(before: QueuePolicy, after: QueuePolicy): boolean {
  const gateOf = ({ maxConcurrency, rateLimit, window }: QueuePolicy): string =>
    JSON.stringify([maxConcurrency, rateLimit, window]);
  return gateOf(before) !== gateOf(after);
}

/** A task that waits in its group. */
interface InGroup {
  rank: number;
  pos: number;
}

/** Urgent tasks of a group enter the line first, except in groups that run strictly in order. */
export function putsUrgentFirst({ groups }: QueuePolicy): boolean {
  return groups.concurrency > 1;
}

/** The order in which tasks of a group enter the line. */
export function groupOrder(policy: QueuePolicy): (a: InGroup, b: InGroup) => number {
  if (!putsUrgentFirst(policy)) return (a, b) => a.pos - b.pos;
  return (a, b) => Number(isUrgent(b.rank)) - Number(isUrgent(a.rank)) || a.pos - b.pos;
}

/**
 * How many tasks of a group may be in the line. `away`: how many tasks use the group's concurrency without being in the
 * line.
 */
export function maxInLine({ groups }: QueuePolicy, key: string, away: number): number {
  const { concurrency, rateLimit, fair, weight } = groups;
  let places = concurrency - away;
  // With a rate limit only one task of the group is in the line, because the meter counts a task when it starts.
  if (rateLimit.length > 0) places = Math.min(places, 1);
  if (fair) places = Math.min(places, Object.hasOwn(weight, key) ? weight[key]! : 1);
  return Math.max(0, places);
}

/** Whether the queue has limits, so that a claim must check which ready tasks may start. */
export function isGated({ maxConcurrency, rateLimit, window }: QueuePolicy): boolean {
  return maxConcurrency !== null || rateLimit.length > 0 || window !== null;
}

function parseMaxAttempts(value: unknown): number {
  if (value === null || value === UNLIMITED_ATTEMPTS) return UNLIMITED_ATTEMPTS;
  return checkNumber(value, "maxAttempts", 1, MOST_ATTEMPTS);
}

function parseOverflow(value: unknown): Overflow {
  if (OVERFLOWS.has(value)) return value as Overflow;
  throw invalid(`overflow must be "refuse" or "drop-oldest"; got ${show(value)}.`);
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
  // Raise the default maximum if the delay is longer: a longer delay was set on purpose.
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

function parseGroups(options: GroupPolicyOptions | null): Partial<GroupPolicy> {
  const fallback = DEFAULT_POLICY.groups;
  if (options === null) return { ...fallback };
  checkObject(options, "groups");
  checkNames(options, Object.keys(fallback), "groups");
  const { concurrency, rateLimit, fair, weight, sticky } = options;
  const groups: Partial<GroupPolicy> = {};
  if (concurrency !== undefined) {
    const most = concurrency ?? fallback.concurrency;
    groups.concurrency = checkNumber(most, "groups.concurrency", 1, MOST_OF_A_GROUP);
  }
  if (rateLimit !== undefined) groups.rateLimit = parseRateLimits(rateLimit, "groups.rateLimit");
  if (fair !== undefined) groups.fair = checkBoolean(fair ?? fallback.fair, "groups.fair");
  if (weight !== undefined) groups.weight = parseWeights(weight ?? fallback.weight);
  if (sticky !== undefined) groups.sticky = checkBoolean(sticky ?? fallback.sticky, "groups.sticky");
  const useless = uselessWeight(groups);
  if (useless !== null) throw invalid(useless);
  return groups;
}

/** Why a weight would have no effect; null: it has one. */
function uselessWeight({
  weight = {},
  fair,
  concurrency,
  rateLimit = [],
}: Partial<GroupPolicy>): string | null {
  const [heaviest, most] = Object.entries(weight).sort(([, a], [, b]) => b - a)[0] ?? ["", 1];
  if (most === 1) return null;
  const given = `groups.weight gives ${show(heaviest)} ${most} turns where others have one`;
  if (fair !== true)
    return `${given}, but groups take turns only with groups.fair. Give fair: true with it; got ${show(fair)}.`;
  if (concurrency === undefined || concurrency < most) {
    return (
      `${given}, and so many of it must be allowed at once. Give a groups.concurrency of at least ${most} with it, ` +
      `or lower weights; got ${show(concurrency)}.`
    );
  }
  if (rateLimit.length > 0) {
    return (
      `${given}, but with groups.rateLimit each group has one task in line at a time, whatever it weighs. ` +
      `Leave one of them out.`
    );
  }
  return null;
}

function parseWeights(options: Record<string, number>): Record<string, number> {
  if (typeof options !== "object" || options === null || Array.isArray(options))
    throw invalid(`groups.weight has turns by groupKey, such as { "customer-1": 3 }; got ${show(options)}.`);
  const weights = Object.entries(options);
  checkNumber(weights.length, "The number of groups with a weight", 0, MOST_WEIGHTS);
  for (const [key, weight] of weights) {
    checkText(key, "A groupKey in groups.weight", LIMITS.groupKey);
    checkNumber(weight, `groups.weight of ${show(key)}`, 1, MOST_WEIGHT, LEAST_WEIGHT);
  }
  return Object.fromEntries(weights);
}
