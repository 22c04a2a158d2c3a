import { isDeepStrictEqual } from "node:util";
import { MemoryStore } from "../../src/engines/memory/store.ts";
import type { Hint, Op, Outcome } from "../../src/engine/engine.ts";
import { Generator, QUEUES } from "./generate.ts";
import { Watch } from "./guarantees/watch.ts";
import { answer, Known } from "./known.ts";
import { Machine, passTime } from "./machine.ts";
import { Random } from "./random.ts";

const NAMES = [...QUEUES, "nowhere"];
const LAST_STEPS = 15;
/** More rounds than any task has attempts and delays: what is not at an end by then never will be. */
const DRAIN_ROUNDS = 200;

export interface SimulationOptions {
  seed: number;
  batches?: number;
  /** Gets a line for each thing that happens. */
  trace?: (line: string) => void;
}

/** Throws a SimulationFailure where a guarantee does not hold or two stores differ. */
export function simulate(options: SimulationOptions): { operations: number } {
  const simulation = new Simulation(options);
  try {
    return simulation.run();
  } catch (error) {
    throw new SimulationFailure(options.seed, simulation.steps, error);
  } finally {
    simulation.end();
  }
}

export class SimulationFailure extends Error {
  constructor(seed: number, steps: string[], cause: unknown) {
    const reason = cause instanceof Error ? (cause.name === "Violation" ? cause.message : (cause.stack ?? cause.message)) : String(cause);
    const last = steps.slice(-LAST_STEPS).map((step) => `  ${step}`);
    super(`seed ${seed}: ${reason}\n\nThe last steps:\n${last.join("\n")}\n\nReplay: npm run simulate -- --seed ${seed}`, { cause });
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
  readonly #watch: Watch;
  readonly #batches: number;
  readonly #trace: ((line: string) => void) | undefined;
  #operations = 0;

  constructor({ seed, batches, trace }: SimulationOptions) {
    this.#random = new Random(seed);
    this.#machine = new Machine(this.#random);
    this.#batches = batches ?? this.#random.pick([8, 16, 24, 48]);
    this.#trace = trace;
    const salt = this.#random.between(2, 60_000_000);
    const reading = this.#machine.read();
    this.#generator = new Generator(this.#random, this.#known);
    this.#model = new MemoryStore(salt, reading);
    this.#watch = new Watch(new MemoryStore(salt, reading), NAMES, reading);
  }

  run(): { operations: number } {
    for (let i = 0; i < this.#batches; i++) {
      this.#passTime();
      this.#batch(this.#generator.batch());
    }
    this.#drain();
    this.#watch.checkLedgers(this.#machine.read());
    return { operations: this.#operations };
  }

  end(): void {}

  #passTime(): void {
    const boot = this.#machine.read().boot;
    const what = passTime(this.#machine, this.#random);
    if (what === null) return;
    this.#note(what);
    if (this.#machine.read().boot !== boot) this.#batch([{ verb: "tend" }]);
  }

  #batch(ops: Op[]): Outcome[] {
    const reading = this.#machine.read();
    for (const op of ops) this.#note(show(op));
    this.#operations += ops.length;
    const { outcomes } = this.#model.run(ops, reading);
    for (const [index, op] of ops.entries()) {
      const outcome = outcomes[index]!;
      this.#trace?.(`    → ${show(outcome)}`);
      const alone = this.#watch.run(op, reading, "refused" in outcome);
      compare("in a batch", outcome, "alone", alone, op);
      this.#known.learn(op, outcome);
    }
    return [...outcomes];
  }

  /** Nothing is ever stuck: with a willing worker and time, every task comes to an end. */
  #drain(): void {
    this.#note("drain");
    this.#batch(NAMES.map((queue): Op => ({ verb: "pause", queue, paused: false })));
    for (let round = 0; round < DRAIN_ROUNDS && this.#watch.pending.length > 0; round++) {
      const [claim, tend] = this.#batch([
        { verb: "claim", queues: NAMES, max: 1_000, worker: "drain", lease: 600_000 },
        { verb: "tend" },
      ]);
      const { tasks } = answer<"claim">(claim!);
      if (tasks.length > 0) {
        this.#batch(tasks.map(({ id, fence }): Op => ({ verb: "settle", id, fence, settlement: { kind: "done", result: null } })));
        continue;
      }
      this.#machine.advance(answer<"tend">(tend!).next ?? 1);
    }
    const stuck = this.#watch.pending;
    if (stuck.length > 0) throw new Error(`stuck: ${stuck.join(", ")}`);
  }

  #note(step: string): void {
    this.steps.push(step);
    this.#trace?.(step);
  }
}

function compare(oneName: string, one: Outcome | Hint, otherName: string, other: Outcome | Hint, op?: Op): void {
  if (isDeepStrictEqual(one, other)) return;
  throw new Error(
    `${op ? op.verb : "hints"} differ${op ? "s" : ""}:\n  ${oneName}: ${show(one)}\n  ${otherName}: ${show(other)}`,
  );
}

function show(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) => (part instanceof Uint8Array ? `bytes ${part.join(" ")}` : part));
}
