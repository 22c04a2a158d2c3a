import {
  define,
  fire,
  setPaused,
  PLANNED_HEADER,
  SCHEDULE_HEADER,
  SCHEDULE_KIND,
  type ScheduleDefinition,
  type ScheduleState,
  taskAt,
} from "../../src/core/time/schedule.ts";
import type { TaskRecord } from "../../src/core/task/task.ts";
import type { Op } from "../../src/engine/engine.ts";
import { answer } from "./known.ts";
import { Machine, passTime } from "./machine.ts";
import { PostgresSubject } from "./postgres.ts";
import { Random } from "./random.ts";
import { SqliteSubject } from "./sqlite.ts";
import type { EngineName, Subject } from "./subject.ts";

const NAMES = ["a", "b"] as const;
const QUEUE = "alpha";
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
/** A firing that is later than this counts as missed. */
const ON_TIME = MINUTE;
const LAST_STEPS = 25;

export interface ScheduleSimulationOptions {
  seed: number;
  engine?: EngineName;
  trace?: (line: string) => void;
}

/**
 * Several processes fire the same schedules, each in two steps, between which anything may happen: another process is
 * faster, it dies, its answer is lost, the schedule is paused or redefined, the machine sleeps or boots. Each firing
 * time must be fired at most once, in order, and no wanted one may be left out.
 */
export async function simulateSchedules(options: ScheduleSimulationOptions): Promise<{ fired: number }> {
  const simulation = new ScheduleSimulation(options);
  try {
    return await simulation.run();
  } catch (error) {
    const { seed, engine = "sqlite" } = options;
    const steps = simulation.steps.slice(-LAST_STEPS).map((step) => `  ${step}`);
    const message =
      `seed ${seed}: ${(error as Error).stack}\n\nThe last steps:\n${steps.join("\n")}\n\n` +
      `Replay: npm run simulate -- --schedules --seed ${seed} --engine ${engine}`;
    throw Object.assign(new Error(message, { cause: error }), { name: "SimulationFailure" });
  } finally {
    await simulation.end();
  }
}

/** What a process has read, and is about to act on. */
interface Intent {
  name: string;
  expect: string | null;
  /** The engine's time of the read. */
  now: number;
  op: Op<"put">;
  /** For a firing; undefined: it is a change. */
  times: number[] | undefined;
  after: ScheduleState | null;
}

/** From a definition or a resume until the next change of the plan: its times come one after the other. */
interface Stretch {
  state: ScheduleState;
  since: number;
  fired: number[];
  isOpen: boolean;
}

class ScheduleSimulation {
  readonly steps: string[] = [];
  readonly #random: Random;
  readonly #machine: Machine;
  readonly #subject: Subject;
  readonly #trace: ((line: string) => void) | undefined;
  readonly #processes: Intent[][];
  readonly #stretches = new Map<string, Stretch[]>(NAMES.map((name) => [name, []]));
  /** Every task that must exist: schedule and planned time, in the order of their commits. */
  readonly #expected: string[] = [];
  readonly #engine: EngineName;

  constructor({ seed, engine = "sqlite", trace }: ScheduleSimulationOptions) {
    this.#random = new Random(seed);
    this.#machine = new Machine(this.#random);
    this.#trace = trace;
    const salt = this.#random.between(2, 60_000_000);
    const reading = this.#machine.read();
    this.#subject =
      engine === "sqlite" ? new SqliteSubject(salt, reading, { file: true }) : new PostgresSubject(salt);
    this.#engine = engine;
    this.#processes = Array.from({ length: this.#random.between(1, 4) }, () => []);
  }

  async run(): Promise<{ fired: number }> {
    const steps = this.#random.between(20, 120);
    const weather = this.#engine === "postgres" ? "server" : this.#random.pick(["calm", "rough"] as const);
    for (let i = 0; i < steps; i++) {
      const what = await passTime(this.#machine, this.#random, weather, () => this.#write());
      if (what !== null) this.#note(what);
      await this.#step();
    }
    await this.#settle();
    await this.#judge();
    return { fired: this.#expected.length };
  }

  async end(): Promise<void> {
    await this.#subject.end();
  }

  /** A reboot forgets time that no commit has written. */
  async #write(): Promise<void> {
    await this.#ask({ verb: "put", kind: "clock", name: "clock", value: `${this.#machine.read().wall}` });
  }

  async #step(): Promise<void> {
    const { pick, weighted } = this.#random;
    const process = pick(this.#processes);
    switch (weighted({ look: 30, act: 45, change: 12, die: 6, crash: 2, lose: 5 })) {
      case "look":
        return this.#look(process);
      case "act":
        return this.#act(process);
      case "change":
        return this.#change(process);
      case "die":
        this.#note("a process dies, with all it knows");
        process.length = 0;
        return;
      case "crash":
        this.#note("the machine's processes die");
        for (const each of this.#processes) each.length = 0;
        await this.#subject.crash(this.#machine.read());
        return;
      case "lose":
        return this.#dieWithin(process);
    }
  }

  /** Reads what is due, and decides. */
  async #look(process: Intent[]): Promise<void> {
    const { due, now } = answer<"housekeep">(await this.#ask({ verb: "housekeep" }));
    for (const { name, value } of due) {
      const before = JSON.parse(value) as ScheduleState;
      const { times, after } = fire(before, now);
      const adds = times.map((at) => taskAt(name, before.definition, at));
      process.push(this.#intend(name, value, after, { now, times, adds }));
    }
    this.#note(`a process finds ${due.length} due at ${now}`);
  }

  #intend(
    name: string,
    expect: string | null,
    after: ScheduleState | null,
    { now, times, adds = [] }: { now: number; times?: number[]; adds?: ReturnType<typeof taskAt>[] },
  ): Intent {
    const op: Op<"put"> = {
      ...{ verb: "put", kind: SCHEDULE_KIND, name, expect },
      value: after && JSON.stringify(after),
      ...(after?.planned != null && { dueAt: after.planned }),
      ...(adds.length > 0 && { adds }),
    };
    return { name, expect, now, op, times, after };
  }

  /** Executes the first thing that it has decided. Sometimes it dies before it gets the answer. */
  async #act(process: Intent[]): Promise<void> {
    const intent = process.shift();
    if (!intent) return;
    const { before } = answer<"put">(await this.#ask(intent.op));
    const done = before === intent.expect;
    this.#note(`${done ? "fired or changed" : "overtaken"}: ${show(intent)}`);
    if (done) this.#record(intent);
    if (this.#random.chance(0.1)) process.length = 0;
  }

  /** During the commit: nothing of it has happened. */
  async #dieWithin(process: Intent[]): Promise<void> {
    const intent = process.shift();
    if (!intent) return;
    this.#note(`dies within: ${show(intent)}`);
    process.length = 0;
    await this.#subject.crashWithin([intent.op], this.#machine.read(), this.#random.between(1, 5));
  }

  /** An operator reads a schedule, and will change it. */
  async #change(process: Intent[]): Promise<void> {
    const { pick, chance } = this.#random;
    const name = pick(NAMES);
    const found = answer<"documents">(
      await this.#ask({ verb: "documents", kind: SCHEDULE_KIND, name, limit: 1 }),
    ).items[0];
    const { now } = answer<"housekeep">(await this.#ask({ verb: "housekeep" }));
    const before = found ? (JSON.parse(found.value) as ScheduleState) : null;
    const kind = before ? pick(["define", "pause", "resume", "delete"] as const) : "define";
    const after =
      kind === "define"
        ? define(before, this.#definition(), now, chance(0.2))
        : kind === "delete"
          ? null
          : setPaused(before!, kind === "pause", now);
    if (after !== undefined) process.push(this.#intend(name, found?.value ?? null, after, { now }));
  }

  #definition(): ScheduleDefinition {
    const { pick } = this.#random;
    const timing = pick([
      { every: 20 * MINUTE },
      { every: 7 * HOUR },
      { cron: "*/30 * * * *", tz: "Europe/London" },
      { cron: "15 4 * * *", tz: "America/New_York" },
    ]);
    const missed = pick(["skip", "once", "all"] as const);
    return { ...timing, missed, task: { queue: QUEUE, data: "1" } };
  }

  /** Computed from the driver's own books. */
  #record({ name, now, times, after }: Intent): void {
    const stretches = this.#stretches.get(name)!;
    const last = stretches.at(-1);
    if (times) {
      this.#expected.push(...times.map((at) => `${name} ${at}`));
      last!.fired.push(...times);
      if (after!.definition.missed === "skip" && times.some((at) => now - at > ON_TIME))
        throw new Error(`${name} was fired for a time that was to be skipped`);
      return;
    }
    // With the same timing it continues where it was, which may be in the past.
    const goesOn = last?.isOpen && last.state.from === after?.from;
    if (last) last.isOpen = false;
    if (after?.planned != null)
      stretches.push({ state: after, since: goesOn ? after.planned - 1 : now, fired: [], isOpen: true });
  }

  /** All processes have died. One process starts, and checks until nothing is due. */
  async #settle(): Promise<void> {
    const process: Intent[] = [];
    for (const each of this.#processes) each.length = 0;
    for (let round = 0; round < 1_000; round++) {
      await this.#look(process);
      if (process.length === 0) return;
      while (process.length > 0) {
        const intent = process.shift()!;
        const { before } = answer<"put">(await this.#ask(intent.op));
        if (before !== intent.expect)
          throw new Error(`no other process runs, and ${intent.name} was changed`);
        this.#record(intent);
      }
    }
    throw new Error("something is due for ever");
  }

  async #judge(): Promise<void> {
    const tasks = await this.#tasks();
    const seen = tasks.map(({ headers }) => {
      return `${headers[SCHEDULE_HEADER]} ${Date.parse(headers[PLANNED_HEADER]!)}`;
    });
    if (new Set(seen).size < seen.length) throw new Error(`a time was fired twice: ${seen.join(", ")}`);
    if (seen.join() !== this.#expected.join())
      throw new Error(`there are ${seen.join(", ")}; there should be ${this.#expected.join(", ")}`);
    const { now } = answer<"housekeep">(await this.#ask({ verb: "housekeep" }));
    for (const [name, stretches] of this.#stretches) {
      const all = stretches.flatMap(({ fired }) => fired);
      if (all.some((at, n) => n > 0 && at <= all[n - 1]!)) throw new Error(`${name} was fired out of order`);
      for (const stretch of stretches) this.#judgeStretch(name, stretch, now);
    }
  }

  #judgeStretch(name: string, { state, since, fired, isOpen }: Stretch, now: number): void {
    const { missed } = state.definition;
    const due = firingTimesBetween(state, since, now);
    const stranger = fired.find((at) => !due.includes(at));
    if (stranger !== undefined)
      throw new Error(`${name} was fired for ${stranger}, which is none of its times`);
    if (missed === "all") {
      const wanted = isOpen ? due : due.slice(0, fired.length);
      if (fired.join() !== wanted.join())
        throw new Error(`${name} was fired for ${fired.join()}; it should be ${wanted.join()}`);
    }
    if (missed === "once" && isOpen && due.length > 0 && fired.at(-1) !== due.at(-1))
      throw new Error(`${name} was last fired for ${fired.at(-1)}; it should be ${due.at(-1)}`);
  }

  async #tasks(): Promise<TaskRecord[]> {
    const list: Op<"list"> = { verb: "list", queue: QUEUE, state: "ready", limit: 100_000 };
    return answer<"list">(await this.#ask(list)).tasks;
  }

  async #ask(op: Op) {
    const { outcomes } = await this.#subject.run([op], this.#machine.read());
    if ("refused" in outcomes[0]!) throw new Error(`${op.verb} was refused: ${outcomes[0].refused.message}`);
    return outcomes[0]!;
  }

  #note(step: string): void {
    this.steps.push(step);
    this.#trace?.(step);
  }
}

function show({ name, times, after, now }: Intent): string {
  if (times) return `${name} for ${times.join(" ") || "nothing"}`;
  return `${name} ${after ? (after.paused ? "paused" : "redefined") : "deleted"} at ${now}`;
}

/** Computed in another way than in the product: minute by minute, by the local clock. */
function firingTimesBetween({ definition, from }: ScheduleState, since: number, now: number): number[] {
  const times: number[] = [];
  if ("every" in definition) {
    for (let at = from + definition.every; at <= now; at += definition.every) if (at > since) times.push(at);
    return times;
  }
  const [minutes, hours] = definition.cron.split(" ");
  const clock = new Intl.DateTimeFormat("en-GB", {
    ...{ timeZone: definition.tz, hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
  });
  for (let at = Math.ceil((since + 1) / MINUTE) * MINUTE; at <= now; at += MINUTE) {
    if (at % (15 * MINUTE) !== 0) continue;
    const [hour, minute] = clock.format(at).split(":").map(Number);
    const isMinute = minutes === "*/30" ? minute! % 30 === 0 : minute === Number(minutes);
    if (isMinute && (hours === "*" || hour === Number(hours))) times.push(at);
  }
  return times;
}
