import { isDeepStrictEqual } from "node:util";
import { verificationQueue } from "../../src/core/handler/verification.ts";
import { END_STATES, PENDING_STATES } from "../../src/core/task/task.ts";
import { MemoryStore } from "../../src/engines/memory/store.ts";
import { BOUNDS } from "../../src/engine/bounds.ts";
import type { Hint } from "../../src/engine/hint.ts";
import type { Op, Outcome } from "../../src/engine/engine.ts";
import { Generator } from "./generate.ts";
import { isChildrenSignal } from "../../src/core/handler/children-signal.ts";
import { FamilyJudge } from "./guarantees/families.ts";
import { Watch } from "./guarantees/watch.ts";
import { LimitJudge } from "./guarantees/limits.ts";
import { RunJudge } from "./guarantees/runs.ts";
import { QUEUES, STAGE_QUEUES } from "./inputs.ts";
import { answer, Known } from "./known.ts";
import { Machine, passTime, type WEATHER } from "./machine.ts";
import { Random } from "./random.ts";
import { PostgresSubject } from "./postgres.ts";
import { SqliteSubject } from "./sqlite.ts";
import type { EngineName, Subject } from "./subject.ts";

const NAMES = [...QUEUES, ...STAGE_QUEUES, "nowhere"].flatMap((queue) => [queue, verificationQueue(queue)]);
const LAST_STEPS = 15;
/**
 * More rounds than any task has attempts and delays: what has not ended by then never will. In the second half no
 * result is accepted any more: one whose adds its queue does not take is refused each time.
 */
const DRAIN_ROUNDS = 1_000;
/** In some seeds the bounds on one call's work are small enough to be reached. */
const TIGHT = { ...BOUNDS, sweep: 2, due: 1, retryScan: 2, events: 5, eventRows: 2 };
const USUAL = { ...BOUNDS };

export interface SimulationOptions {
  seed: number;
  /** Which store runs next to the memory model. */
  engine?: EngineName;
  batches?: number;
  /** Gets a line for each event. */
  trace?: (line: string) => void;
}

/**
 * Runs random operations, failures and time against a store and the memory model in parallel. Each batch must get the
 * same answer, to the last id, fence and hint. Each operation is also executed on a separate model and compared with
 * the guarantees (guarantees/). At the end everything must complete.
 *
 * Throws a SimulationFailure if a guarantee does not hold or two stores differ.
 */
export async function simulate(options: SimulationOptions): Promise<{ operations: number }> {
  const simulation = new Simulation(options);
  try {
    return await simulation.run();
  } catch (error) {
    throw new SimulationFailure(options, simulation.steps, error);
  } finally {
    await simulation.end();
  }
}

export class SimulationFailure extends Error {
  constructor({ seed, engine }: SimulationOptions, steps: string[], cause: unknown) {
    const reason =
      cause instanceof Error
        ? cause.name === "Violation"
          ? cause.message
          : (cause.stack ?? cause.message)
        : String(cause);
    const last = steps.slice(-LAST_STEPS).map((step) => `  ${step}`);
    super(
      `seed ${seed}: ${reason}\n\nThe last steps:\n${last.join("\n")}\n\nReplay: npm run simulate -- --seed ${seed}${engine ? ` --engine ${engine}` : ""}`,
      { cause },
    );
  }

  override get name(): string {
    return "SimulationFailure";
  }
}

class Simulation {
  readonly steps: string[] = [];
  readonly #random: Random;
  readonly #machine: Machine;
  readonly #known = new Known();
  readonly #generator: Generator;
  readonly #model: MemoryStore;
  /** Absent if the bounds are tight: it assumes that one call processes everything. */
  readonly #watch: Watch | undefined;
  /** Used instead if there are runs: then the end of one task affects others. */
  readonly #runs: RunJudge | undefined;
  /** Used instead of `#watch` if tasks spawn children, for the same reason as `#runs`. */
  readonly #families: FamilyJudge | undefined;
  /** Used if there are limits: then not everything that is ready may start. */
  readonly #limits: LimitJudge | undefined;
  readonly #engine: EngineName;
  readonly #subject: Subject;
  readonly #batches: number;
  readonly #weather: keyof typeof WEATHER;
  readonly #trace: ((line: string) => void) | undefined;
  #operations = 0;

  constructor({ seed, engine = "sqlite", batches, trace }: SimulationOptions) {
    this.#random = new Random(seed);
    this.#machine = new Machine(this.#random);
    this.#batches = batches ?? this.#random.pick([5, 10, 18, 32]);
    const weather = this.#random.pick(["calm", "rough"] as const);
    this.#weather = engine === "postgres" ? "server" : weather;
    this.#trace = trace;
    const salt = this.#random.between(2, 60_000_000);
    const reading = this.#machine.read();
    this.#generator = new Generator(this.#random, this.#known);
    this.#model = new MemoryStore(salt, reading);
    const tight = this.#random.chance(0.1);
    Object.assign(BOUNDS, tight ? TIGHT : USUAL);
    if (this.#generator.isLimited) this.#limits = new LimitJudge();
    if (this.#generator.hasRuns) this.#runs = new RunJudge();
    if (this.#generator.hasFamilies) this.#families = new FamilyJudge();
    if (!this.#runs && !this.#families && !tight && !this.#generator.isLimited)
      this.#watch = new Watch(new MemoryStore(salt, reading), reading);
    const file = this.#random.chance(0.12);
    this.#engine = engine;
    this.#subject =
      engine === "sqlite" ? new SqliteSubject(salt, reading, { file }) : new PostgresSubject(salt);
  }

  async run(): Promise<{ operations: number }> {
    for (let i = 0; i < this.#batches; i++) {
      await this.#passTime();
      await this.#strike();
      await this.#batch(this.#generator.batch());
      if (this.#engine === "postgres") await this.#plainly();
    }
    if (this.#random.chance(0.3)) await this.#compareAll();
    await this.#drain();
    await this.#compareAll();
    this.#watch?.checkLedgers(this.#machine.read());
    return { operations: this.#operations };
  }

  /**
   * Batches whose first statement is sent ahead of the header (send-ahead.ts) are rare among what careless clients
   * send.
   */
  async #plainly(): Promise<void> {
    for (let i = this.#random.between(0, 5); i > 0; i--) {
      await this.#passTime();
      await this.#batch(this.#generator.plain());
    }
  }

  async end(): Promise<void> {
    Object.assign(BOUNDS, USUAL);
    await this.#subject.end();
  }

  async #passTime(): Promise<void> {
    const { boot } = this.#machine.read();
    // A reboot forgets time that no commit has written, and a batch that changes nothing commits nothing. So all stores
    // write something before it: then the clocks agree afterwards.
    const what = await passTime(this.#machine, this.#random, this.#weather, () => this.#write());
    if (what === null) return;
    this.#note(what);
    if (this.#machine.read().boot !== boot) await this.#batch([{ verb: "housekeep" }]);
  }

  /** A batch that certainly commits something. */
  async #write(): Promise<void> {
    const worker = { id: "writer", name: "writer", queues: [], concurrency: 1, host: "here", pid: 1 };
    const [joined] = await this.#batch([{ verb: "join", worker, lease: 1_000 }]);
    await this.#batch([{ verb: "leave", session: answer<"join">(joined!).session }]);
  }

  /** Sometimes a batch fails, or the process dies. The model does not see it: nothing happened. */
  async #strike(): Promise<void> {
    const random = this.#random;
    const reading = this.#machine.read();
    if (random.chance(0.04)) {
      this.#note("a batch fails");
      await this.#subject.fail(this.#generator.batch(), reading, random.between(1, 5));
    }
    if (!this.#subject.canCrash || !random.chance(0.2)) return;
    if (random.chance(0.5)) {
      this.#note("the process dies between two batches");
      await this.#subject.crash(reading);
    } else {
      this.#note("the process dies within a batch");
      await this.#subject.crashWithin(this.#generator.batch(), reading, random.between(1, 5));
    }
  }

  async #batch(ops: Op[]): Promise<Outcome[]> {
    const reading = this.#machine.read();
    for (const op of ops) this.#note(show(op));
    this.#operations += ops.length;
    const model = this.#model.execute(ops, reading);
    const store = await this.#subject.run(ops, reading);
    for (const [index, op] of ops.entries()) {
      const outcome = model.outcomes[index]!;
      this.#trace?.(`    → ${show(outcome)}`);
      compare("memory", outcome, this.#engine, withoutOlderEvents(op, store.outcomes[index]!, outcome), op);
      const alone = this.#watch?.run(op, reading, "refused" in outcome) ?? outcome;
      compare("in a batch", outcome, "alone", alone, op);
      this.#known.learn(op, outcome);
    }
    const hint = this.#engine === "sqlite" ? store.hint : leastOf(store.hint, model.hint);
    compare("memory", unordered(model.hint), this.#engine, unordered(hint));
    this.#judge(ops, [...model.outcomes]);
    return [...model.outcomes];
  }

  /** From what the model shows. That the store shows the same is compared. */
  #judge(ops: readonly Op[], outcomes: readonly Outcome[]): void {
    const ask = (given: Op[]): Outcome[] => [...this.#model.execute(given, this.#machine.read()).outcomes];
    this.#runs?.judge(ops, outcomes, ask);
    this.#families?.judge(ops, outcomes, ask);
    this.#limits?.judge(ops, outcomes, this.#model.now, ask);
  }

  /** Everything that the reading verbs can show. */
  async #compareAll(): Promise<void> {
    const lists = NAMES.flatMap((queue): Op[] => [
      ...[...PENDING_STATES, ...END_STATES].map((state): Op => ({
        verb: "list",
        queue,
        state,
        limit: 1_000,
      })),
      { verb: "stats", queue },
      { verb: "patterns", queue, by: "fingerprint", limit: 1_000 },
    ]);
    const histories = [...new Set(this.#known.ids)].map((id): Op => ({ verb: "history", id }));
    const steps = [...new Set(this.#known.ids)].map((id): Op => ({ verb: "steps", id }));
    const ops: Op[] = [
      { verb: "queues", limit: 1_000 },
      { verb: "subscriptions", limit: 1_000 },
      { verb: "workers", limit: 1_000 },
      { verb: "documents", kind: "note", limit: 1_000 },
      ...lists,
      ...histories,
      ...steps,
      ...this.#known.parents.map((id): Op => ({ verb: "children", id, limit: 1_000, ends: true })),
      ...(this.#families ? this.#known.ids : []).map((id): Op => ({ verb: "get", id })),
      ...this.#known.runs.map((id): Op => ({ verb: "run", id, limit: 1_000 })),
      { verb: "ends", ids: this.#known.runs, of: "runs" },
      { verb: "documents", kind: "pipeline", limit: 1_000 },
    ];
    const reading = this.#machine.read();
    const [model, store] = [this.#model.execute(ops, reading), await this.#subject.run(ops, reading)];
    for (const [index, op] of ops.entries())
      compare("memory", model.outcomes[index]!, this.#engine, store.outcomes[index]!, op);
  }

  /** Nothing is ever stuck: with a willing worker and time, every task ends. */
  async #drain(): Promise<void> {
    this.#note("drain");
    await this.#batch(NAMES.map((queue): Op => ({ verb: "pause", queue, paused: false })));
    for (let round = 0; round < DRAIN_ROUNDS && this.#pending().length > 0; round++) {
      const [claim, tend] = await this.#batch([
        { verb: "claim", queues: NAMES, max: 1_000, worker: "drain", lease: 600_000 },
        { verb: "housekeep" },
      ]);
      const { tasks } = answer<"claim">(claim!);
      if (tasks.length > 0) {
        await this.#batch(
          tasks.map(({ id, fence }): Op => {
            const of = this.#known.asked.get(fence);
            const verdict =
              round < DRAIN_ROUNDS / 2
                ? ({ accepted: true } as const)
                : ({ accepted: false, feedback: "no", delay: 0 } as const);
            const settlement = of
              ? ({ kind: "verdict", of, ...verdict } as const)
              : ({ kind: "done", result: null } as const);
            return { verb: "settle", id, fence, settlement };
          }),
        );
        continue;
      }
      await this.#signalAll();
      if (round > DRAIN_ROUNDS / 10) await this.#cancelWaitingParents();
      this.#machine.advance(answer<"housekeep">(tend!).next ?? 1);
    }
    const stuck = this.#pending();
    if (stuck.length > 0) throw new Error(`stuck: ${stuck.join(", ")}`);
    this.#runs?.checkEnds();
  }

  /** Sends a signal to every task that waits for one. */
  async #signalAll(): Promise<void> {
    const lists = NAMES.map((queue): Op => ({ verb: "list", queue, state: "parked", limit: 1_000 }));
    const parked = this.#model
      .execute(lists, this.#machine.read())
      .outcomes.flatMap((outcome) => answer<"list">(outcome).tasks);
    // The ends of children must wake their parents.
    const signalled = parked.filter(({ waitsFor }) => !isChildrenSignal(waitsFor!));
    await this.#batch(
      signalled.map(({ id, waitsFor }): Op => ({ verb: "signal", id, name: waitsFor!, value: null })),
    );
  }

  /**
   * A child that is added to the ordered group of a task that waits for it waits behind that task. Only an operator can
   * end that. Whether a parent that could continue was woken is checked after every batch: guarantees/families.ts.
   */
  async #cancelWaitingParents(): Promise<void> {
    const lists = NAMES.map((queue): Op => ({ verb: "list", queue, state: "parked", limit: 1_000 }));
    const parked = this.#model
      .execute(lists, this.#machine.read())
      .outcomes.flatMap((outcome) => answer<"list">(outcome).tasks);
    const waiting = parked.filter(({ waitsFor }) => isChildrenSignal(waitsFor!));
    if (waiting.length > 0) await this.#batch(waiting.map(({ id }): Op => ({ verb: "cancel", id })));
  }

  #pending(): string[] {
    const ops = NAMES.flatMap((queue) =>
      PENDING_STATES.map((state): Op => ({ verb: "list", queue, state, limit: 1_000 })),
    );
    const { outcomes } = this.#model.execute(ops, this.#machine.read());
    return outcomes.flatMap((outcome) => answer<"list">(outcome).tasks.map(({ id }) => id));
  }

  #note(step: string): void {
    this.steps.push(step);
    this.#trace?.(step);
  }
}

/** A hint lists runs in no order: those that a sweep ends come in the order in which each store finds them. */
function unordered(hint: Hint): Hint {
  return hint.runs ? { ...hint, runs: hint.runs.toSorted() } : hint;
}

/**
 * Without what it contains in addition to the model's: with several processes, tasks that one has locked and left in
 * the line were skipped by others, which are notified.
 */
function leastOf(hint: Hint, model: Hint): Hint {
  const { ready, ...rest } = hint;
  const known = Object.entries(ready ?? {}).flatMap(([queue, count]) => {
    const least = model.ready && Object.hasOwn(model.ready, queue) ? model.ready[queue]! : 0;
    return least > 0 ? [[queue, Math.min(count, least)] as const] : [];
  });
  return known.length > 0 ? { ...rest, ready: Object.fromEntries(known) } : rest;
}

/**
 * The model's page of events, if the store's differs only by older events that it still has. The model forgets single
 * events. SQLite forgets rows, and a row has the events of one commit. PostgreSQL keeps the last event when there is no
 * listener, because the number of the next one depends on it.
 */
function withoutOlderEvents(op: Op, store: Outcome, model: Outcome): Outcome {
  if (op.verb !== "listen" || "refused" in store || "refused" in model) return store;
  const [told, known] = [answer<"listen">(store), answer<"listen">(model)];
  const objects = (texts: readonly string[]) => texts.map((text) => JSON.parse(text) as unknown);
  const older = known.missed - told.missed;
  if (older <= 0) return store;
  if (told.events.length < older) {
    // A full page of nothing but older events: both pages must begin after the same event.
    const start = (page: typeof told): number => page.cursor - page.missed - page.events.length;
    return told.events.length === op.limit && start(told) === start(known) ? model : store;
  }
  const events = told.events.slice(older);
  // Older events take room in a page, so it may end earlier.
  const cut = known.events.length - events.length;
  const isSame = isDeepStrictEqual(objects(events), objects(known.events.slice(0, events.length)));
  const endsEarlier = cut === 0 || (cut > 0 && told.events.length === op.limit);
  return isSame && endsEarlier && told.cursor === known.cursor - cut ? model : store;
}

/** With the events of a page as objects: in their texts, keys may be in any order after the type. */
function parsed(op: Op | undefined, outcome: Outcome | Hint): unknown {
  if (op?.verb !== "listen" || !("ok" in outcome)) return outcome;
  const page = answer<"listen">(outcome);
  return { ...page, events: page.events.map((text) => JSON.parse(text) as unknown) };
}

function compare(
  oneName: string,
  one: Outcome | Hint,
  otherName: string,
  other: Outcome | Hint,
  op?: Op,
): void {
  if (isDeepStrictEqual(parsed(op, one), parsed(op, other))) return;
  throw new Error(
    `${op ? op.verb : "hints"} differ${op ? "s" : ""}:\n  ${oneName}: ${show(one)}\n  ${otherName}: ${show(other)}`,
  );
}

function show(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    part instanceof Uint8Array ? `bytes ${part.join(" ")}` : part,
  );
}
