import type { NamedPolicy } from "../../src/core/queue/policy.ts";
import type { NewChild } from "../../src/core/handler/children.ts";
import type { Addition, Body, NewMessage, NewTask, TaskError } from "../../src/core/task/task.ts";
import { stageQueue } from "../../src/core/run/run.ts";
import type { NextCosts, StageCost } from "../../src/core/run/stage-cost.ts";
import type { RateLimit } from "../../src/core/queue/rate.ts";
import type { Settlement } from "../../src/engine/settlement.ts";
import type { Random } from "./random.ts";

export const QUEUES = ["alpha", "beta", "gamma"] as const;
const GROUPS = ["g1", "g2", "Ω/3"] as const;
/** Words that patterns use, and one that is a property of every object. */
const TOPICS = ["order", "order.placed", "order.placed.late", "order.order", "constructor"] as const;
const PATTERNS = [
  ...TOPICS,
  "*",
  "#",
  "order.*",
  "order.#",
  "*.placed",
  "#.placed.#",
  "#.*.#",
  "order.#.late",
] as const;
const SUBSCRIBERS = ["stock", "audit"] as const;
/** The stages of a pipeline that is defined in many ways. */
export const PIPELINE = "flow";
const STAGES = ["a", "b", "c", "d"] as const;
export const STAGE_QUEUES = STAGES.map((stage) => stageQueue(PIPELINE, stage));
/** Those with a plus join. `c<a` follows a, and `d<b,c` merges b and c. */
const LINES = ["a b", "a b c", "a b c+", "a b+", "a b c+ d", "a c+", "a b+ c d+", "a"] as const;
const GRAPHS = [
  "a b c<a",
  "a b c<a d<b,c",
  "a b c<a d+<b,c",
  "a b c+ d<b",
  "a b c+ d<a",
  "a b c<a d+",
] as const;
const KEYS = ["k1", "k2", "k3", "k4"] as const;

/** What stays the same during one seed, and differs between seeds. */
export interface Habits {
  queues: readonly string[];
  /** The share of tasks with a group, or a key. */
  grouped: number;
  keyed: number;
  /** How many failures there are per success. */
  failing: number;
  /** The share of tasks that begin a run, or are split into parts. */
  runs: number;
  /** Whether tasks spawn children, and wait for them. */
  families: boolean;
  /** Whether there are limits: of queues, of groups, and of other systems. */
  limited: boolean;
  /** Many tasks at once: an engine may write those on another path than few. */
  bulk: boolean;
}

export function drawHabits({ pick, chance }: Random): Habits {
  const runs = chance(0.35) ? pick([0.3, 0.7]) : 0;
  return {
    // With one queue and many failures, a few tasks have long histories.
    queues: runs > 0 ? [QUEUES[0], ...STAGE_QUEUES] : QUEUES.slice(0, pick([1, 2, 3])),
    runs,
    grouped: pick([0, 0.4, 0.8]),
    keyed: pick([0.05, 0.3]),
    failing: pick([0.1, 1, 1, 4]),
    families: chance(0.35),
    limited: chance(0.3),
    bulk: chance(0.025),
  };
}

export const SIGNALS = ["approval", "payment"] as const;
/** One has the name of a signal. */
const CHILDREN = ["spawn:1", "spawn:2", "spawn:3", "approval"] as const;
/** Which children a task waits for: some of them, or all that it may have. */
const AWAITED = ["children:1", "children:1-2", "children:1,3", "children:1-1000", "children:1-1000"] as const;

/** Inputs of the verbs: policies, tasks and settlements, with values around every limit. */
export class Inputs {
  readonly #random: Random;
  readonly #habits: Habits;
  #made = 0;

  constructor(random: Random, habits: Habits) {
    this.#random = random;
    this.#habits = habits;
  }

  queue(): string {
    return this.#random.chance(0.03) ? "nowhere" : this.#random.pick(this.#habits.queues);
  }

  policy(): NamedPolicy {
    const { pick, chance } = this.#random;
    const policy: NamedPolicy = {};
    if (chance(0.4)) policy.lease = pick([100, 1_000, 5_000, 30_000]);
    if (chance(0.15)) policy.verified = chance(0.7);
    if (chance(0.3)) policy.timeout = pick([400, 5_000, 60_000]);
    if (chance(0.5)) policy.maxAttempts = pick([1, 2, 3, 4]);
    if (chance(0.1)) policy.backoff = { type: "fixed", delay: pick([0, 1_000]), max: 1_000, jitter: 0 };
    if (chance(0.4)) policy.elsewhere = pick([0, 200, 5_000]);
    if (chance(0.25)) policy.maxDepth = pick([null, 2, 6, 20]);
    if (chance(0.2)) policy.maxPayload = pick([4, 40, 262_144]);
    if (chance(0.3))
      policy.retention = { age: pick([0, 10_000, 86_400_000]), count: pick([0, 1, 1, 3, 100_000]) };
    if (chance(0.2)) policy.ttl = pick([null, null, 1_500, 60_000]);
    return this.#habits.limited ? { ...policy, ...this.#limits() } : policy;
  }

  #limits(): NamedPolicy {
    const { pick, chance } = this.#random;
    const limits: NamedPolicy = {};
    if (chance(0.4)) limits.maxConcurrency = pick([null, 1, 2, 5]);
    if (chance(0.3)) limits.rateLimit = this.#rates();
    if (chance(0.2))
      limits.window = pick([
        null,
        { hours: "22:00-06:00", tz: "UTC" },
        { hours: "08:00-09:30", tz: "Europe/Berlin" },
      ]);
    if (chance(0.6)) {
      limits.groups = {
        concurrency: pick([1, 1, 2, 3]),
        rateLimit: chance(0.3) ? this.#rates() : [],
        fair: chance(0.4),
        weight: pick([{}, { g1: 2 }]),
        sticky: chance(0.3),
      };
      if (chance(0.2)) limits.groups = { fair: chance(0.5) };
    }
    return limits;
  }

  groupKey(): string {
    return this.#random.pick(GROUPS);
  }

  #rates(): RateLimit[] {
    const { pick, chance, between } = this.#random;
    return Array.from({ length: pick([0, 1, 1, 2]) }, () => ({
      max: between(1, 4),
      per: pick([100, 1_000, 60_000]),
      pace: chance(0.25),
      unit: chance(0.3) ? "tokens" : null,
    }));
  }

  tasks(count: number): NewTask[] {
    return Array.from({ length: count }, () => this.#task());
  }

  subscription(): { pattern: string; group: string } {
    const { pick } = this.#random;
    return { pattern: pick(PATTERNS), group: pick(SUBSCRIBERS) };
  }

  topic(): string {
    return this.#random.pick(TOPICS);
  }

  message(): NewMessage {
    return { topic: this.topic(), ...this.#content() };
  }

  #task(): NewTask {
    if (this.#random.chance(this.#habits.runs)) return this.#beginning();
    return { queue: this.queue(), ...this.#content() };
  }

  #beginning(): NewTask {
    const definition = this.#random.pick(this.#random.chance(0.4) ? GRAPHS : LINES);
    const stages = definition.split(" ").map((text) => {
      const [name, after] = text.split("<") as [string, string?];
      const list = after?.includes(",") ? after.split(",") : after;
      const order = list === undefined ? {} : { after: list };
      const cost = this.#stageCost(text, !definition.includes("<"));
      return { name: name.replace("+", ""), joins: name.endsWith("+"), ...order, ...cost };
    });
    return { queue: STAGE_QUEUES[0]!, ...this.#content(), run: { pipeline: PIPELINE, stages } };
  }

  #stageCost(text: string, isLine: boolean): { cost?: StageCost } {
    const { pick, maybe } = this.#random;
    if (!this.#habits.limited) return {};
    // The store puts the input of a stage together that joins, and in a graph another stage may follow the same one.
    return maybe(0.3, () => ({
      cost: pick(isLine && !text.endsWith("+") ? [0, 2, 5, "input" as const] : [0, 2]),
    }));
  }

  /** Costs of the next tasks, about half of the time the right number of them. */
  #nextCosts(): { next?: NextCosts } {
    const { pick, maybe } = this.#random;
    if (!this.#habits.limited) return {};
    const costs = pick([[3], [1, 2], [0, 1, 2], [], [1, 2, 3, 4, 5]]);
    const named = maybe(0.3, () => ({ stage: pick(LINES).split(" ").at(-1)!.replace("+", "") }));
    return maybe(0.3, () => ({ next: { costs, ...named } }));
  }

  /** Of one spawn. No name twice: the broker refuses that. */
  children(): NewChild[] {
    const { some } = this.#random;
    return some(CHILDREN).map((name) => ({ name, task: { queue: this.queue(), ...this.#content() } }));
  }

  additions(): Addition[] {
    const { pick, chance } = this.#random;
    const tasks = this.tasks(pick([1, 1, 3]));
    return chance(0.3) ? [...tasks, this.message()] : tasks;
  }

  #content(): Omit<NewTask, "queue"> {
    const { pick, maybe } = this.#random;
    const data = this.#body();
    if (this.#habits.bulk && this.#random.chance(0.6)) return { data };
    return {
      data,
      ...(typeof data !== "string" && { contentType: "application/octet-stream" }),
      ...maybe(0.3, () => ({ headers: { kind: pick(["mail", "bill"]) } })),
      ...maybe(0.3, () => ({ priority: pick([-5, 0, 1, 1, 9]) })),
      ...maybe(0.25, () => ({ delay: pick([0, 50, 50, 2_000, 40_000]) })),
      ...maybe(this.#habits.grouped, () => ({ groupKey: pick(GROUPS) })),
      ...maybe(this.#habits.keyed, () => ({ idempotencyKey: pick(KEYS) })),
      ...maybe(0.15, () => ({ ttl: pick([1, 800, 30_000]) })),
      ...maybe(0.25, () => ({ maxAttempts: pick([1, 2, 3]) })),
      ...(this.#habits.limited && maybe(0.2, () => ({ cost: pick([0, 1, 2, 7]) }))),
      ...(this.#habits.limited && maybe(0.15, () => ({ urgent: this.#random.chance(0.8) }))),
    };
  }

  /** The real cost. */
  spent(): { spent?: number } {
    const { pick, maybe } = this.#random;
    return this.#habits.limited ? maybe(0.25, () => ({ spent: pick([0, 1, 3]) })) : {};
  }

  /** Each payload is unique by its number. Sizes are around the limits of the policies. */
  #body(): Body {
    const n = ++this.#made;
    const kind = this.#random.weighted({ small: 8, bytes: 1, wide: 1, large: 0.5 });
    if (kind === "bytes") return new Uint8Array([n % 256, n >> 8, 0, 255]);
    if (kind === "wide") return `"é${n}"`;
    return kind === "large" ? `"${n}${"-".repeat(40)}"` : `${n}`;
  }

  settlement(): Settlement {
    const { pick, maybe, weighted } = this.#random;
    const kind = weighted({
      done: this.#habits.bulk ? 150 : 5,
      fail: 5 * this.#habits.failing,
      reject: 1,
      release: 1.5,
      park: this.#habits.families ? 4 : 1.5,
      hold: this.#habits.limited ? 1.5 : 0,
    });
    switch (kind) {
      case "done":
        if (this.#random.chance(this.#habits.runs * 0.5)) {
          return {
            kind,
            result: pick(["[]", "[1]", "[1,2]", '["a",null,{"b":[2]}]', "[1,2,3,4,5]", '"x"', "[", null]),
            each: true,
            ...this.#nextCosts(),
          };
        }
        return {
          kind,
          result: pick([null, '"ok"', `"${"x".repeat(60)}"`, new Uint8Array([1, 2])]),
          ...maybe(0.3, () => ({ adds: this.additions() })),
          ...(this.#habits.runs > 0 && this.#nextCosts()),
        };
      case "fail":
        return {
          kind,
          error: this.#error(),
          delay: pick([0, 0, 100, 3_000]),
          ...maybe(0.2, () => ({ outcome: pick(["failed", "timeout"] as const) })),
        };
      case "reject":
        return { kind, error: this.#error() };
      case "release":
        return {
          kind,
          started: this.#random.chance(0.6),
          ...maybe(0.2, () => ({ delay: pick([0, 100, 3_000]) })),
        };
      case "hold":
        return { kind, error: this.#error(), delay: pick([0, 100, 3_000]) };
      case "park":
        return { kind, signal: this.#awaited(), timeout: pick([null, 0, 500, 60_000]) };
    }
  }

  waitForChildren(): Settlement {
    const { pick } = this.#random;
    return { kind: "park", signal: pick(AWAITED), timeout: pick([null, null, 500, 60_000]) };
  }

  #awaited(): string {
    const { pick, chance } = this.#random;
    return this.#habits.families && chance(0.7) ? pick(AWAITED) : pick(SIGNALS);
  }

  #error(): TaskError {
    const { pick, between } = this.#random;
    return {
      name: pick(["Error", "TypeError"]),
      message: pick([
        `timeout after ${between(1, 99)} ms`,
        "no such user 'ada'",
        "Über 100%_ done",
        "",
        "C:\\temp is full",
      ]),
      stack: pick([null, "Error\n  at work"]),
    };
  }
}
