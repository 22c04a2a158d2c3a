import { formatTaskId } from "../../src/core/task-id.ts";
import type { QueuePolicy } from "../../src/core/policy.ts";
import {
  type Body,
  type ClaimRef,
  type DeadFilter,
  END_STATES,
  type NewTask,
  PENDING_STATES,
  type TaskError,
} from "../../src/core/task.ts";
import type { Op, Settlement, VerbName } from "../../src/engine/engine.ts";
import type { Known } from "./known.ts";
import type { Random } from "./random.ts";

export const QUEUES = ["alpha", "beta", "gamma"] as const;
const WORKERS = ["w1", "w2", "w3"] as const;
const GROUPS = ["g1", "g2", "Ω/3"] as const;
const KEYS = ["k1", "k2", "k3", "k4"] as const;
const LISTENERS = ["ear", "eye"] as const;
const STATES = [...PENDING_STATES, ...END_STATES] as const;

/** How often each verb comes. A seed bends these, so that each has a character of its own. */
const WEIGHTS: Record<VerbName, number> = {
  declare: 4,
  pause: 3,
  queues: 1,
  purge: 2,
  drop: 0.6,
  add: 24,
  claim: 24,
  settle: 26,
  extend: 5,
  progress: 3,
  cancel: 4,
  get: 1.5,
  ends: 1.5,
  history: 1.5,
  list: 3,
  patterns: 1.5,
  redrive: 3,
  discard: 1,
  join: 4,
  beat: 8,
  leave: 1.5,
  workers: 1,
  tend: 8,
  prune: 4,
  stats: 1,
  listen: 4,
  unlisten: 0.7,
};

type Makers = { [V in VerbName]: () => Op<V> };

/** Makes batches of operations such as many careless clients would send. */
export class Generator {
  readonly #random: Random;
  readonly #known: Known;
  readonly #weights: Record<VerbName, number>;
  readonly #grouped: number;
  readonly #keyed: number;
  readonly #queues: readonly string[];
  readonly #failing: number;
  readonly #bulk: boolean;
  #made = 0;

  constructor(random: Random, known: Known) {
    this.#random = random;
    this.#known = known;
    this.#weights = { ...WEIGHTS };
    for (const verb of Object.keys(WEIGHTS) as VerbName[]) this.#weights[verb] *= random.pick([0.3, 1, 1, 2]);
    this.#grouped = random.pick([0, 0.4, 0.8]);
    this.#keyed = random.pick([0.05, 0.3]);
    // With one queue and many failures, the long stories of a few tasks are told.
    this.#queues = QUEUES.slice(0, random.pick([1, 2, 3]));
    this.#failing = random.pick([0.1, 1, 1, 4]);
    // While somebody listens, an engine has to tell of each task on its own.
    if (random.chance(0.5)) this.#weights.listen = 0;
    // An engine may write many at once in another way than few.
    this.#bulk = random.chance(0.025);
  }

  batch(): Op[] {
    const random = this.#random;
    const kind = random.weighted({ mixed: 7, turn: 2, run: 1 });
    if (kind === "turn") return this.#turn();
    const one = random.weighted(this.#weights);
    return Array.from({ length: random.between(kind === "run" ? 2 : 1, 5) }, () =>
      this.#makers[kind === "run" ? one : random.weighted(this.#weights)](),
    );
  }

  /** What a busy worker sends: it settles what it has done and asks for more, in one batch. */
  #turn(): Op[] {
    const { chance, between, pick } = bound(this.#random);
    const held = this.#known.claims.slice(-between(1, this.#bulk ? 80 : 6));
    // Now and then with a fence of somebody else's, or twice.
    const refs = held.map((claim) =>
      chance(0.06) ? { ...claim, fence: claim.fence + pick([-1, 1]) } : claim,
    );
    if (chance(0.2)) refs.push(...held.slice(0, 1));
    return [
      ...refs.map((claim): Op => ({ verb: "settle", ...claim, settlement: this.#settlement() })),
      this.#claim(),
    ];
  }

  readonly #makers: Makers = {
    declare: () => ({
      verb: "declare",
      queue: this.#queue(),
      policy: this.#policy(),
      ...this.#random.maybe(0.2, () => ({ force: true })),
    }),
    pause: () => ({ verb: "pause", queue: this.#queue(), paused: this.#random.chance(0.35) }),
    queues: () => ({ verb: "queues", ...this.#random.maybe(0.4, () => ({ queue: this.#queue() })) }),
    purge: () => this.#purge(),
    drop: () => ({ verb: "drop", queue: this.#queue(), limit: this.#random.pick([2, 1_000]) }),
    add: () => ({
      verb: "add",
      tasks: this.#tasks(this.#random.pick(this.#bulk ? [1, 9, 9, 70] : [1, 1, 2, 4])),
    }),
    claim: () => this.#claim(),
    settle: () => ({ verb: "settle", ...this.#claimRef(), settlement: this.#settlement() }),
    extend: () => ({ verb: "extend", ...this.#claimRef(), lease: this.#random.pick([1, 500, 20_000]) }),
    progress: () => ({
      verb: "progress",
      ...this.#claimRef(),
      value: this.#random.pick([0, 0.25, 1]),
      note: this.#random.pick([null, "half way"]),
    }),
    cancel: () => ({ verb: "cancel", id: this.#random.chance(0.4) ? this.#claimRef().id : this.#id() }),
    get: () => ({ verb: "get", id: this.#id() }),
    ends: () => ({ verb: "ends", ids: [this.#id(), this.#id(), this.#id()] }),
    history: () => ({ verb: "history", id: this.#id() }),
    list: () => this.#list(),
    patterns: () => ({
      verb: "patterns",
      queue: this.#queue(),
      by: this.#random.pick(["fingerprint", "worker", "header:kind"] as const),
      limit: this.#random.pick([1, 10]),
    }),
    redrive: () => ({
      verb: "redrive",
      queue: this.#queue(),
      filter: this.#filter(),
      spacing: this.#random.pick([0, 0, 300]),
    }),
    discard: () => ({ verb: "discard", queue: this.#queue(), filter: this.#filter() }),
    join: () => ({
      verb: "join",
      worker: {
        id: this.#random.pick(WORKERS),
        name: "worker",
        queues: this.#random.some(this.#queues),
        concurrency: this.#random.between(1, 4),
        host: "here",
        pid: this.#random.between(1, 9),
      },
      lease: this.#random.pick([300, 2_000, 30_000]),
    }),
    beat: () => ({ verb: "beat", sessions: this.#sessions() }),
    leave: () => ({ verb: "leave", session: this.#session() }),
    workers: () => ({ verb: "workers", ...this.#random.maybe(0.4, () => ({ queue: this.#queue() })) }),
    tend: () => ({ verb: "tend" }),
    prune: () => ({ verb: "prune", limit: this.#random.pick([1, 3, 1_000]) }),
    stats: () => ({ verb: "stats", queue: this.#queue() }),
    listen: () => this.#listen(),
    unlisten: () => ({ verb: "unlisten", listener: this.#random.pick(LISTENERS) }),
  };

  #queue(): string {
    return this.#random.chance(0.03) ? "nowhere" : this.#random.pick(this.#queues);
  }

  #policy(): Partial<QueuePolicy> {
    const { pick, chance } = bound(this.#random);
    const policy: Partial<QueuePolicy> = {};
    if (chance(0.4)) policy.lease = pick([100, 1_000, 5_000, 30_000]);
    if (chance(0.3)) policy.timeout = pick([400, 5_000, 60_000]);
    if (chance(0.5)) policy.maxAttempts = pick([1, 2, 3, 4]);
    if (chance(0.1)) policy.backoff = { type: "fixed", delay: pick([0, 1_000]), max: 1_000, jitter: 0 };
    if (chance(0.4)) policy.elsewhere = pick([0, 200, 5_000]);
    if (chance(0.25)) policy.maxDepth = pick([null, 2, 6, 20]);
    if (chance(0.2)) policy.maxPayload = pick([4, 40, 262_144]);
    if (chance(0.3))
      policy.retention = { age: pick([0, 10_000, 86_400_000]), count: pick([0, 1, 1, 3, 100_000]) };
    if (chance(0.2)) policy.ttl = pick([null, null, 1_500, 60_000]);
    return policy;
  }

  #tasks(count: number): NewTask[] {
    return Array.from({ length: count }, () => this.#task());
  }

  #task(): NewTask {
    const { pick, maybe } = bound(this.#random);
    const data = this.#body();
    if (this.#bulk && this.#random.chance(0.6)) return { queue: this.#queue(), data };
    return {
      queue: this.#queue(),
      data,
      ...(typeof data !== "string" && { contentType: "application/octet-stream" }),
      ...maybe(0.3, () => ({ headers: { kind: pick(["mail", "bill"]) } })),
      ...maybe(0.3, () => ({ priority: pick([-5, 0, 1, 1, 9]) })),
      ...maybe(0.25, () => ({ delay: pick([0, 50, 50, 2_000, 40_000]) })),
      ...maybe(this.#grouped, () => ({ groupKey: pick(GROUPS) })),
      ...maybe(this.#keyed, () => ({ idempotencyKey: pick(KEYS) })),
      ...maybe(0.15, () => ({ ttl: pick([1, 800, 30_000]) })),
      ...maybe(0.25, () => ({ maxAttempts: pick([1, 2, 3]) })),
    };
  }

  /** Each is told from every other by its number; sizes lie around the limits of the policies. */
  #body(): Body {
    const n = ++this.#made;
    const kind = this.#random.weighted({ small: 8, bytes: 1, wide: 1, large: 0.5 });
    if (kind === "bytes") return new Uint8Array([n % 256, n >> 8, 0, 255]);
    if (kind === "wide") return `"é${n}"`;
    return kind === "large" ? `"${n}${"-".repeat(40)}"` : `${n}`;
  }

  #claim(): Op<"claim"> {
    const { pick, chance, maybe, some } = bound(this.#random);
    const bySession = this.#known.sessions.length > 0 && chance(0.6);
    // Mostly one of the latest: the old ones are gone.
    const session = bySession
      ? chance(0.8)
        ? this.#known.sessions.at(-pick([1, 2, 3]))
        : undefined
      : undefined;
    const chosen = session ?? (bySession ? pick(this.#known.sessions) : undefined);
    return {
      verb: "claim",
      queues:
        chosen && chance(0.7) ? chosen.queues : some([...this.#queues, ...(chance(0.1) ? ["nowhere"] : [])]),
      max: pick(this.#bulk ? [2, 12, 100] : [1, 1, 2, 5]),
      worker: chosen?.worker ?? pick(WORKERS),
      ...(chosen && { session: chosen.id }),
      ...maybe(0.25, () => ({ share: pick([1, 2]) })),
      ...maybe(0.3, () => ({ lease: pick([100, 2_000, 60_000]) })),
    };
  }

  #claimRef(): ClaimRef {
    const { pick, weighted } = bound(this.#random);
    const { claims, stale } = this.#known;
    const kind = weighted({ held: 12, stale: 1.5, madeUp: 0.7 });
    if (kind === "held" && claims.length > 0) return pick(claims);
    if (kind === "stale" && stale.length > 0) return pick(stale);
    const real = claims.length > 0 ? pick(claims) : undefined;
    return {
      id: real?.id ?? this.#id(),
      fence: pick([0, -1, 999_999, (real?.fence ?? 0) + 1, (real?.fence ?? 0) - 1]),
    };
  }

  #settlement(): Settlement {
    const { pick, maybe, weighted } = bound(this.#random);
    const kind = weighted({ done: this.#bulk ? 150 : 5, fail: 5 * this.#failing, reject: 1, release: 1.5 });
    switch (kind) {
      case "done":
        return {
          kind,
          result: pick([null, '"ok"', `"${"x".repeat(60)}"`, new Uint8Array([1, 2])]),
          ...maybe(0.3, () => ({ adds: this.#tasks(pick([1, 1, 3])) })),
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
        return { kind, started: this.#random.chance(0.6) };
    }
  }

  #error(): TaskError {
    const { pick, between } = bound(this.#random);
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

  #filter(): DeadFilter {
    const { pick, maybe } = bound(this.#random);
    return {
      ...maybe(0.2, () => ({ ids: [this.#id(), this.#id()] })),
      ...maybe(0.2, () => ({ pattern: this.#known.patterns.at(-1) ?? "Error: none" })),
      // With the signs that mean something in SQL, and letters beyond ASCII.
      ...maybe(0.3, () => ({
        error: pick(["TIMEOUT", "über", "%", "_", "error", "\\temp", "none of them"]),
      })),
    };
  }

  #id(): string {
    const { pick, chance, between } = bound(this.#random);
    if (chance(0.05)) return pick(["no id", formatTaskId(1_768_000_000_000, between(1, 50), 1)]);
    const { ids } = this.#known;
    return ids.length === 0
      ? "none yet"
      : chance(0.6)
        ? ids.at(-between(1, Math.min(10, ids.length)))!
        : pick(ids);
  }

  #purge(): Op<"purge"> {
    const { pick, chance } = bound(this.#random);
    const going = this.#known.purges.at(-1);
    const limit = pick([1, 3, 1_000]);
    return going && chance(0.7)
      ? { verb: "purge", ...going, limit }
      : { verb: "purge", queue: this.#queue(), limit };
  }

  #list(): Op<"list"> {
    const { pick, chance } = bound(this.#random);
    const page = this.#known.pages.at(-1);
    if (page && chance(0.4)) return page;
    const state = pick(STATES);
    return {
      verb: "list",
      queue: this.#queue(),
      state,
      limit: pick([1, 2, 1_000]),
      ...(state === "dead" && chance(0.5) && { filter: this.#filter() }),
    };
  }

  #listen(): Op<"listen"> {
    const { pick, chance } = bound(this.#random);
    const listener = pick(LISTENERS);
    const after = chance(0.8) ? (this.#known.cursors.get(listener) ?? null) : null;
    return { verb: "listen", listener, after, limit: pick([1, 5, 100]) };
  }

  #session(): number {
    const { pick, chance } = bound(this.#random);
    return this.#known.sessions.length === 0 || chance(0.05) ? 12_345 : pick(this.#known.sessions).id;
  }

  #sessions(): number[] {
    const ids = this.#known.sessions.map(({ id }) => id);
    return ids.length === 0 ? [this.#session()] : this.#random.some(ids);
  }
}

/** The methods of a Random as plain functions, for brevity where options are drawn. */
function bound(random: Random) {
  return {
    pick: random.pick.bind(random),
    chance: random.chance.bind(random),
    between: random.between.bind(random),
    maybe: random.maybe.bind(random),
    some: random.some.bind(random),
    weighted: random.weighted.bind(random),
  };
}
