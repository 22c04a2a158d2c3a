import type { TaskChange } from "../../src/core/task/change.ts";
import { formatTaskId } from "../../src/core/task/task-id.ts";
import { type ClaimRef, type DeadFilter, END_STATES, PENDING_STATES } from "../../src/core/task/task.ts";
import { verificationQueue } from "../../src/core/handler/verification.ts";
import { cursorOf } from "../../src/engine/cursor.ts";
import type { Op, PageRequest, VerbName } from "../../src/engine/engine.ts";
import type { Settlement } from "../../src/engine/settlement.ts";
import { drawHabits, type Habits, Inputs, PIPELINE, SIGNALS } from "./inputs.ts";
import type { Known } from "./known.ts";
import type { Random } from "./random.ts";

const STEPS = ["plan", "draft", "approval"] as const;
const WORKERS = ["w1", "w2", "w3"] as const;
const LISTENERS = ["ear", "eye"] as const;
const DOCUMENTS = ["a", "b", "c"] as const;
const STATES = [...PENDING_STATES, ...END_STATES] as const;

/** How frequent each verb is. A seed varies these, so that seeds differ. */
const WEIGHTS: Record<VerbName, number> = {
  declare: 4,
  pause: 3,
  unhold: 1.5,
  queues: 1,
  purge: 2,
  drop: 0.6,
  subscribe: 5,
  unsubscribe: 1.5,
  subscriptions: 1,
  publish: 12,
  add: 24,
  claim: 24,
  settle: 26,
  extend: 5,
  progress: 3,
  step: 3,
  spawn: 40,
  children: 1,
  steps: 1.5,
  signal: 3,
  verifying: 1,
  cancel: 4,
  change: 5,
  run: 2,
  runs: 1,
  cancelRun: 0.7,
  get: 1.5,
  ends: 1.5,
  history: 1.5,
  list: 3,
  patterns: 1.5,
  redrive: 3,
  discard: 1,
  join: 4,
  heartbeat: 8,
  rejoin: 1.5,
  retire: 0.7,
  leave: 1.5,
  reconcile: 1,
  workers: 1,
  put: 5,
  documents: 0.7,
  housekeep: 8,
  prune: 4,
  stats: 1,
  listen: 4,
  unlisten: 0.7,
};

type Makers = { [V in VerbName]: () => Op<V> };

/** Creates batches of operations such as many careless clients would send. */
export class Generator {
  readonly #random: Random;
  readonly #known: Known;
  readonly #weights: Record<VerbName, number>;
  readonly #habits: Habits;

  /** Whether there are limits. */
  get isLimited(): boolean {
    return this.#habits.limited;
  }

  /** Whether there are runs. */
  get hasRuns(): boolean {
    return this.#habits.runs > 0;
  }

  /** Whether tasks spawn children. */
  get hasFamilies(): boolean {
    return this.#habits.families;
  }

  readonly #inputs: Inputs;
  #written = 0;

  constructor(random: Random, known: Known) {
    this.#random = random;
    this.#known = known;
    this.#weights = { ...WEIGHTS };
    for (const verb of Object.keys(WEIGHTS) as VerbName[]) this.#weights[verb] *= random.pick([0.3, 1, 1, 2]);
    // While there is a listener, an engine must write an event for each task.
    if (random.chance(0.5)) this.#weights.listen = 0;
    this.#habits = drawHabits(random);
    if (!this.hasFamilies) this.#weights.spawn = 0;
    this.#inputs = new Inputs(random, this.#habits);
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

  /** What idle processes send: one ordinary operation at a time. */
  plain(): Op[] {
    const { between, pick, weighted } = this.#random;
    const { sessions, claims } = this.#known;
    const queue = pick(this.#habits.queues);
    const kind = weighted({
      add: 4,
      claim: sessions.length > 0 ? 5 : 0,
      settle: claims.length > 0 ? 3 : 0,
      join: 1,
    });
    if (kind === "settle") return [this.#settle(this.#claimRef())];
    if (kind === "join") return [this.#makers.join()];
    if (kind === "add") {
      return Array.from({ length: between(1, 3) }, () => ({
        verb: "add",
        tasks: Array.from({ length: between(1, 3) }, () => ({ queue, data: `"plain"` })),
      }));
    }
    const { id: session, worker } = pick(sessions);
    return [{ verb: "claim", queues: [queue], max: between(1, 3), worker, session }];
  }

  /** What a busy worker sends: it settles what it has done and claims more, in one batch. */
  #turn(): Op[] {
    const { chance, between, pick } = this.#random;
    const held = this.#known.claims.slice(-between(1, this.#habits.bulk ? 80 : 6));
    // Sometimes with another worker's fence, or twice.
    const refs = held.map((claim) =>
      chance(0.06) ? { ...claim, fence: claim.fence + pick([-1, 1]) } : claim,
    );
    if (chance(0.2)) refs.push(...held.slice(0, 1));
    return [...refs.map((claim) => this.#settle(claim)), this.#claim()];
  }

  readonly #makers: Makers = {
    declare: () => ({
      verb: "declare",
      queue: this.#queue(),
      policy: this.#inputs.policy(),
      ...this.#random.maybe(0.4, () => (this.#random.chance(0.5) ? { force: true } : { create: true })),
    }),
    pause: () => ({ verb: "pause", queue: this.#queue(), paused: this.#random.chance(0.35) }),
    unhold: () => ({
      verb: "unhold",
      queue: this.#queue(),
      ...this.#random.maybe(0.7, () => ({ groupKey: this.#inputs.groupKey() })),
    }),
    queues: () => ({
      verb: "queues",
      ...this.#page(this.#queue()),
      ...this.#random.maybe(0.4, () => ({ queue: this.#queue() })),
    }),
    purge: () => this.#purge(),
    drop: () => ({ verb: "drop", queue: this.#queue(), limit: this.#random.pick([2, 1_000]) }),
    subscribe: () => ({ verb: "subscribe", ...this.#inputs.subscription(), queue: this.#queue() }),
    unsubscribe: () => ({ verb: "unsubscribe", ...this.#inputs.subscription() }),
    subscriptions: () => ({
      verb: "subscriptions",
      ...this.#page(this.#random.between(0, 5)),
      ...this.#random.maybe(0.6, () => ({ topic: this.#inputs.topic() })),
    }),
    publish: () => ({ verb: "publish", message: this.#inputs.message() }),
    add: () => ({
      verb: "add",
      tasks: this.#inputs.tasks(this.#random.pick(this.#habits.bulk ? [1, 9, 9, 70] : [1, 1, 2, 4])),
    }),
    claim: () => this.#claim(),
    settle: () => this.#settle(this.#claimRef()),
    verifying: () => ({
      verb: "verifying",
      ...([...this.#known.asked.values()].at(-1) ?? { id: this.#id(), fence: 1 }),
    }),
    extend: () => ({ verb: "extend", ...this.#claimRef(), lease: this.#random.pick([1, 500, 20_000]) }),
    progress: () => ({
      verb: "progress",
      ...this.#claimRef(),
      ...this.#random.pick([
        { value: 0, note: null },
        { value: 0.25, note: "half way" },
        { value: 1, note: null, log: "at the end" },
        { value: null, note: null, log: "fetched \u0000 页" },
      ]),
    }),
    cancel: () => ({ verb: "cancel", id: this.#random.chance(0.4) ? this.#claimRef().id : this.#id() }),
    change: () => ({ verb: "change", id: this.#id(), change: this.#change() }),
    run: () => ({
      verb: "run",
      id: this.#runId(),
      limit: this.#random.pick([1, 1_000]),
      ...this.#random.maybe(0.2, () => ({ after: this.#random.between(0, 20) })),
    }),
    runs: () => ({
      verb: "runs",
      pipeline: this.#random.pick([PIPELINE, "other"]),
      limit: this.#random.pick([1, 1_000]),
      ...this.#random.maybe(0.3, () => ({ after: this.#random.between(0, 40) })),
    }),
    cancelRun: () => ({ verb: "cancelRun", id: this.#runId() }),
    get: () => ({ verb: "get", id: this.#random.chance(0.3) ? this.#parentId() : this.#id() }),
    ends: () =>
      this.#random.chance(0.3)
        ? { verb: "ends", ids: [this.#runId(), this.#id()], of: "runs" }
        : { verb: "ends", ids: [this.#id(), this.#id(), this.#id()] },
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
      ...this.#random.maybe(0.3, () => ({ fresh: this.#random.chance(0.7) })),
    }),
    discard: () => ({ verb: "discard", queue: this.#queue(), filter: this.#filter() }),
    join: () => ({
      verb: "join",
      worker: {
        id: this.#random.pick(WORKERS),
        name: "worker",
        queues: this.#random.some(this.#habits.queues),
        concurrency: this.#random.between(1, 4),
        host: "here",
        pid: this.#random.between(1, 9),
      },
      lease: this.#random.pick([300, 2_000, 30_000]),
    }),
    heartbeat: () => ({ verb: "heartbeat", sessions: this.#sessions() }),
    step: () => ({
      verb: "step",
      ...this.#claimRef(),
      name: this.#random.pick(STEPS),
      value: this.#random.pick(["1", "[2]", null]),
    }),
    spawn: () => ({ verb: "spawn", ...this.#parentRef(), children: this.#inputs.children() }),
    children: () => ({
      verb: "children",
      id: this.#parentId(),
      limit: this.#random.pick([1, 2, 1_000]),
      ...this.#random.maybe(0.3, () => ({ after: this.#random.between(0, 4) })),
      ...this.#random.maybe(0.5, () => ({ ends: true as const })),
    }),
    steps: () => ({ verb: "steps", id: this.#id() }),
    signal: () => ({
      verb: "signal",
      id: this.#id(),
      name: this.#random.pick(SIGNALS),
      value: this.#random.pick(["1", null]),
      ...this.#random.maybe(this.hasRuns ? 0.3 : 0, () => ({ id: this.#runId(), of: "runs" as const })),
    }),
    reconcile: () => ({
      verb: "reconcile",
      session: this.#session(),
      fences: this.#known.claims.filter(() => this.#random.chance(0.8)).map(({ fence }) => fence),
    }),
    rejoin: () => ({
      verb: "rejoin",
      session: this.#session(),
      fences: [...new Set(Array.from({ length: this.#random.between(0, 6) }, () => this.#claimRef().fence))],
    }),
    retire: () => ({ verb: "retire", session: this.#session() }),
    leave: () => ({
      verb: "leave",
      session: this.#session(),
      ...this.#random.maybe(0.4, () => ({ lost: true })),
    }),
    workers: () => ({
      verb: "workers",
      ...this.#page(this.#session()),
      ...this.#random.maybe(0.4, () => ({ queue: this.#queue() })),
    }),
    put: () => this.#put(),
    documents: () => ({
      verb: "documents",
      kind: "note",
      ...this.#page(this.#random.pick(DOCUMENTS)),
      ...this.#random.maybe(0.4, () => ({ name: this.#random.pick(DOCUMENTS) })),
    }),
    housekeep: () => ({ verb: "housekeep" }),
    prune: () => ({ verb: "prune", limit: this.#random.pick([1, 3, 1_000]) }),
    stats: () => ({ verb: "stats", queue: this.#queue() }),
    listen: () => this.#listen(),
    unlisten: () => ({ verb: "unlisten", listener: this.#random.pick(LISTENERS) }),
  };

  #queue(): string {
    return this.#inputs.queue();
  }

  #claim(): Op<"claim"> {
    const { pick, chance, maybe, some } = this.#random;
    const bySession = this.#known.sessions.length > 0 && chance(0.6);
    // Mostly one of the latest: the old ones are gone.
    const latest = bySession && chance(0.8) ? this.#known.sessions.at(-pick([1, 2, 3])) : undefined;
    const chosen = latest ?? (bySession ? pick(this.#known.sessions) : undefined);
    return {
      verb: "claim",
      queues:
        chosen && chance(0.7)
          ? chosen.queues
          : some([
              ...this.#habits.queues,
              ...this.#habits.queues.map(verificationQueue),
              ...(chance(0.1) ? ["nowhere"] : []),
            ]),
      max: pick(this.#habits.bulk ? [2, 12, 100] : [1, 1, 2, 5]),
      worker: chosen?.worker ?? pick(WORKERS),
      ...(chosen && { session: chosen.id }),
      ...maybe(0.25, () => ({ share: pick([1, 2]) })),
      ...maybe(0.3, () => ({ lease: pick([100, 2_000, 60_000]) })),
    };
  }

  #settle(claim: ClaimRef): Op<"settle"> {
    return {
      verb: "settle",
      id: claim.id,
      fence: claim.fence,
      settlement: this.#settlement(claim),
      ...this.#inputs.spent(),
    };
  }

  /** A verifier's verdict, mostly on the result that it was asked about. */
  #settlement({ id, fence }: ClaimRef): Settlement {
    const { pick, chance } = this.#random;
    if (this.#known.parents.includes(id) && chance(0.6)) return this.#inputs.waitForChildren();
    const asked = this.#known.asked.get(fence) ?? (chance(0.02) ? { id: this.#id(), fence } : undefined);
    if (!asked || chance(0.2)) return this.#inputs.settlement();
    const of = chance(0.1) ? { ...asked, fence: asked.fence + 1 } : asked;
    if (chance(0.6)) return { kind: "verdict", of, accepted: true };
    return {
      kind: "verdict",
      of,
      accepted: false,
      feedback: pick(["too short", "no"]),
      delay: pick([0, 100]),
    };
  }

  #change(): TaskChange {
    const { pick, maybe, weighted } = this.#random;
    switch (weighted({ update: 3, promote: 1, again: 2 })) {
      case "promote":
        return { kind: "promote" };
      case "again":
        return { kind: "again", ...maybe(0.3, () => ({ fresh: true })) };
      default:
        return {
          kind: "update",
          ...maybe(0.5, () => ({ priority: pick([-3, 0, 2, 5]) })),
          ...maybe(0.5, () => ({ delay: pick([0, 50, 2_000]) })),
          ...maybe(0.3, () => ({ data: pick([`"changed"`, new Uint8Array([0, 7])]) })),
        };
    }
  }

  #claimRef(): ClaimRef {
    const { pick, weighted } = this.#random;
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

  #filter(): DeadFilter {
    const { pick, maybe } = this.#random;
    return {
      ...maybe(0.2, () => ({ ids: [this.#id(), this.#id()] })),
      ...maybe(0.2, () => ({ pattern: this.#known.patterns.at(-1) ?? "Error: none" })),
      // With characters that mean something in SQL, and letters beyond ASCII.
      ...maybe(0.3, () => ({
        error: pick(["TIMEOUT", "über", "%", "_", "error", "\\temp", "none of them"]),
      })),
    };
  }

  #id(): string {
    const { pick, chance, between } = this.#random;
    if (chance(0.05)) return pick(["no id", formatTaskId(1_768_000_000_000, between(1, 50), 1)]);
    const { ids } = this.#known;
    return ids.length === 0
      ? "none yet"
      : chance(0.6)
        ? ids.at(-between(1, Math.min(10, ids.length)))!
        : pick(ids);
  }

  /** Mostly a task that was claimed lately, so that it can still wait for its children. */
  #parentRef(): ClaimRef {
    const { claims } = this.#known;
    if (claims.length === 0 || this.#random.chance(0.1)) return this.#claimRef();
    const { id, fence } = claims.at(-this.#random.between(1, Math.min(3, claims.length)))!;
    return { id, fence };
  }

  #parentId(): string {
    const { parents } = this.#known;
    return parents.length > 0 && this.#random.chance(0.9) ? this.#random.pick(parents) : this.#id();
  }

  #runId(): string {
    const { runs } = this.#known;
    return runs.length > 0 && this.#random.chance(0.9) ? this.#random.pick(runs) : this.#id();
  }

  /** `key`: that of the row after which the page may start. */
  #page(key: string | number): PageRequest {
    return {
      limit: this.#random.pick([1, 2, 1_000]),
      ...this.#random.maybe(0.3, () => ({ after: cursorOf([key]) })),
    };
  }

  #purge(): Op<"purge"> {
    const { pick, chance } = this.#random;
    const going = this.#known.purges.at(-1);
    const limit = pick([1, 3, 1_000]);
    return going && chance(0.7)
      ? { verb: "purge", ...going, limit }
      : { verb: "purge", queue: this.#queue(), limit };
  }

  #list(): Op<"list"> {
    const { pick, chance } = this.#random;
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

  /** Mostly with the current value; sometimes with a stale one. */
  #put(): Op<"put"> {
    const { pick, chance, maybe } = this.#random;
    const name = pick(DOCUMENTS);
    const known = this.#known.documents.get(name) ?? null;
    return {
      ...{ verb: "put", kind: "note", name, value: chance(0.15) ? null : `${++this.#written}` },
      ...maybe(0.8, () => ({ expect: chance(0.7) ? known : pick([null, "1", "2"]) })),
      ...maybe(0.7, () => ({ dueAt: this.#known.now + pick([-1_000, 0, 1, 500, 60_000]) })),
      ...maybe(0.5, () => ({ adds: this.#inputs.additions() })),
      ...maybe(0.5, () => ({
        event: { type: "schedule.fired", queue: this.#queue(), schedule: name } as const,
      })),
    };
  }

  #listen(): Op<"listen"> {
    const { pick, chance } = this.#random;
    const listener = pick(LISTENERS);
    const after = chance(0.8) ? (this.#known.cursors.get(listener) ?? null) : null;
    return { verb: "listen", listener, after, limit: pick([1, 5, 100]) };
  }

  #session(): number {
    const { pick, chance } = this.#random;
    return this.#known.sessions.length === 0 || chance(0.05) ? 12_345 : pick(this.#known.sessions).id;
  }

  #sessions(): number[] {
    const ids = this.#known.sessions.map(({ id }) => id);
    return ids.length === 0 ? [this.#session()] : this.#random.some(ids);
  }
}
