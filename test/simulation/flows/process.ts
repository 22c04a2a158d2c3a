import { createBroker } from "../../../src/broker/broker.ts";
import type { Clock } from "../../../src/core/time/clock.ts";
import { SILENT } from "../../../src/core/process/logger.ts";
import { Dibs } from "../../../src/api/dibs.ts";
import type { Engine, Op, Outcome, Outcomes } from "../../../src/engine/engine.ts";
import type { Hint } from "../../../src/engine/hint.ts";
import type { World } from "./world.ts";

/**
 * At which of its calls to the engine a process dies: before the call has happened, or after it, without getting the
 * answer.
 */
export interface Crash {
  call: number;
  when: "before" | "after";
}

/** Calls of a dead process never get an answer. */
const NEVER_HEARD = new Promise<never>(() => {});

/**
 * A process that has the world's store open: handles, workers, a broker, and an engine whose calls are counted. Once it
 * is dead, nothing that it still runs has any effect: no call, no timer, no heartbeat.
 */
export class Process {
  readonly dibs: Dibs;
  calls = 0;
  isDead = false;
  readonly #world: World;
  readonly #crash: Crash | undefined;
  readonly #beats = new Map<number, () => void>();
  #listener: (hint: Hint) => void = () => {};
  readonly #died = Promise.withResolvers<void>();

  constructor(world: World, crash?: Crash) {
    this.#world = world;
    this.#crash = crash;
    const port = createBroker(this.#engine(), { clock: this.#clock(), random: () => 0, pollEvery: 5_000 });
    this.dibs = new Dibs(port, SILENT);
    world.processes.push(this);
  }

  die(): Promise<never> {
    this.isDead = true;
    for (const stop of this.#beats.values()) stop();
    this.#died.resolve();
    return NEVER_HEARD;
  }

  hear(hint: Hint): void {
    if (!this.isDead) this.#listener(hint);
  }

  #clock(): Clock {
    const { clock } = this.#world;
    return {
      read: () => clock.read(),
      after: (ms, fn) => clock.after(ms, () => this.isDead || fn()),
      standStill: (work) => clock.standStill(Promise.race([work, this.#died.promise])),
    };
  }

  #engine(): Engine {
    return {
      depth: 2,
      onHint: (listener) => (this.#listener = listener),
      execute: <const Ops extends readonly Op[]>(ops: Ops) => this.#run(ops) as Promise<Outcomes<Ops>>,
      close: async () => {},
    };
  }

  async #run(ops: readonly Op[]): Promise<Outcome[]> {
    if (this.isDead) return NEVER_HEARD;
    const isLast = ++this.calls === this.#crash?.call;
    if (isLast && this.#crash.when === "before") return this.die();
    const { outcomes, hint } = await this.#world.run(ops, this);
    if (isLast) return this.die();
    if (this.isDead) return NEVER_HEARD;
    ops.forEach((op, index) => this.#followSession(op, outcomes[index]!));
    this.hear(hint);
    return outcomes;
  }

  #followSession(op: Op, outcome: Outcome): void {
    if (op.verb === "join" && "ok" in outcome)
      this.#keepBeating((outcome.ok as { session: number }).session, op.lease / 3);
    if (op.verb === "leave") this.#beats.get(op.session)?.();
  }

  /** As the engines do, independent of the process's own work: these are not calls of the flow. */
  #keepBeating(session: number, every: number): void {
    const beat = (): void => {
      if (this.isDead) return;
      this.#keepBeating(session, every);
      const ran = this.#world.run([{ verb: "heartbeat", sessions: [session] }], this);
      this.#world.clock.standStill(ran);
      void this.#hearOf(ran);
    };
    this.#beats.set(session, this.#world.clock.after(every, beat));
  }

  async #hearOf(beat: ReturnType<World["run"]>): Promise<void> {
    const { outcomes, hint } = await beat;
    const [outcome] = outcomes as Outcomes<[Op<"heartbeat">]>;
    this.hear({ ...hint, notices: "ok" in outcome ? outcome.ok.notices : [] });
  }
}
