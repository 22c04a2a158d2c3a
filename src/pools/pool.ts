import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { refuseSurplus } from "../core/input/arguments.ts";
import { KeepAlive } from "../core/process/keep-alive.ts";
import type { Logger } from "../core/process/logger.ts";
import type { Port } from "../core/port.ts";
import { sleepUntil } from "../core/time/sleep.ts";
import type { NewEntry, SuperviseOutcome } from "../core/supervision.ts";
import type { WorkerRecord } from "../core/task/task.ts";
import { workersOf } from "./workers-of.ts";
import type { Actuator } from "./actuator.ts";
import type { Cap } from "./cap.ts";
import { decide, type Decision, type Observed } from "./decide.ts";
import { observeQueues } from "./observe.ts";
import type { ResolvedPool } from "./options.ts";
import type { ProcessMark } from "./process-facts.ts";
import { RecentMost } from "./recent-most.ts";
import { awaitPredecessor } from "./predecessor.ts";
import type { PoolReport } from "./report.ts";

/**
 * Keeps the right number of workers for its queues: `dibs.pool()` and `dibs pool` start it. It holds the pool's name in
 * the store, so that of several processes with the same pool one decides and the others wait. Each round it reads the
 * statistics, decides (decide.ts), and starts or ends workers.
 */
export class Pool implements AsyncDisposable {
  readonly name: string;
  /** Resolves when this process holds the name and has made its first decision. */
  readonly ready: Promise<void>;
  readonly #port: Port;
  readonly #options: ResolvedPool;
  readonly #logger: Logger;
  readonly #cap: Cap | undefined;
  readonly #onStopped: () => void;
  readonly #holder = `${hostname()}/${process.pid}#${randomBytes(4).toString("hex")}`;
  readonly #recentNeed: RecentMost;
  readonly #stopping = new AbortController();
  readonly #looping: Promise<void>;
  /** Loaded when the pool runs: most processes that open a store have none. */
  #actuator: Actuator | undefined;
  #entries: NewEntry[] = [];
  #decision: Decision = { size: 0, needed: 0, reasons: ["It has not decided yet."] };
  #workers: Observed["workers"] = { live: 0, starting: 0, busy: 0 };
  #grewAt: number | null = null;
  #shrankAt: number | null = null;
  #heldAt: number | null = null;
  #reported: ProcessMark | null = null;
  #problem: string | null = null;
  #waitsFor: string | null = null;
  #markReady!: () => void;
  #stopped: Promise<void> | undefined;

  /** @internal */
  constructor(port: Port, options: ResolvedPool, logger: Logger, onStopped: () => void, cap?: Cap) {
    this.name = options.name;
    this.#port = port;
    this.#options = options;
    this.#logger = logger;
    this.#cap = cap;
    this.#onStopped = onStopped;
    this.#recentNeed = new RecentMost(options.policy.downCooldown);
    this.ready = new Promise((resolve) => (this.#markReady = resolve));
    cap?.join(this, options.policy.min, () => this.#actuator?.processes ?? 0);
    this.#looping = new KeepAlive().during(this.#loop());
  }

  /** The size, its workers and the reasons of the last decision. */
  status(): PoolStatus {
    const { size, reasons } = this.#decision;
    return { size, workers: { ...this.#workers }, reasons: [...reasons], holds: this.#heldAt !== null };
  }

  /** Ends the workers, each after its task or the stop timeout, and gives the name up. */
  stop(): Promise<void> {
    return (this.#stopped ??= this.#stop());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #makeActuator(): Promise<Actuator> {
    const { runs, policy, stopTimeout, env, cwd, output } = this.#options;
    if ("scale" in runs) {
      const { External } = await import("./external.ts");
      return new External(this.name, runs.scale);
    }
    const { LocalProcesses } = await import("./processes.ts");
    const variables = { ...env, DIBS_POOL: this.name };
    return new LocalProcesses({ ...runs, max: policy.max, stopTimeout, env: variables, cwd, output });
  }

  async #loop(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await this.#round();
        this.#problem = null;
      } catch (error) {
        this.#report((error as Error).message);
      }
      await this.#sleep(this.#options.interval);
    }
  }

  /** Each problem is logged once, not once per round. */
  #report(problem: string): void {
    if (problem === this.#problem || this.#stopping.signal.aborted) return;
    this.#problem = problem;
    this.#logger.warn(`Pool ${this.name} keeps its size, because it cannot decide: ${problem}`);
  }

  async #round(): Promise<void> {
    if (this.#heldAt === null && !(await this.#take())) return;
    const actuator = (this.#actuator ??= await this.#makeActuator());
    actuator.prepare();
    if (this.#isReportDue() && !(await this.#renew())) return;
    await this.#decide(actuator);
    this.#markReady();
  }

  /** The launcher is reported before it starts a worker: the process that takes over must know it. */
  #isReportDue(): boolean {
    const isOld = this.#elapsed() - this.#heldAt! > this.#options.lease / 3;
    return isOld || this.#entries.length > 0 || this.#actuator?.launcher?.pid !== this.#reported?.pid;
  }

  async #take(): Promise<boolean> {
    const outcome = await this.#supervise();
    if (!outcome.held) {
      this.#reportWaiting(outcome.before);
      return false;
    }
    this.#heldAt = this.#elapsed();
    // Nothing starts before the workers of the process that had the name are gone.
    await awaitPredecessor(outcome.before, this.#options, {
      renew: async () => void (await this.#renew()),
      sleep: (ms) => this.#sleep(ms),
      signal: this.#stopping.signal,
    });
    if (this.#heldAt === null || this.#stopping.signal.aborted) return false;
    const { queues } = this.#options;
    this.#record({ type: "pool.started", queue: queues[0]!, reasons: [`Runs in ${this.#holder}.`] });
    return true;
  }

  /** Once for each process that it waits for. */
  #reportWaiting(holder: SuperviseOutcome["before"]): void {
    if (holder === null || holder.holder === this.#waitsFor) return;
    this.#waitsFor = holder.holder;
    this.#logger.warn(
      `Pool ${this.name} waits: process ${holder.pid} on ${holder.host} runs a pool of this name.`,
    );
  }

  async #renew(): Promise<boolean> {
    const at = this.#elapsed();
    const outcome = await this.#supervise();
    if (outcome.held) {
      this.#heldAt = at;
      return true;
    }
    // This process was paused for too long. Another one has the name, and starts its own workers.
    this.#heldAt = null;
    this.#logger.warn(`Pool ${this.name} is run by another process now; its workers here are ended.`);
    await this.#actuator?.stop();
    this.#actuator = undefined;
    this.#workers = { live: 0, starting: 0, busy: 0 };
    return false;
  }

  async #supervise(lease = this.#options.lease): Promise<SuperviseOutcome> {
    const entries = this.#entries.slice(0, MOST_ENTRIES);
    const launcher = this.#actuator?.launcher ?? null;
    const outcome = await this.#port.supervise({
      ...{ kind: "pool", name: this.name, holder: this.#holder, host: hostname(), pid: process.pid },
      ...{ queues: this.#options.queues, lease, entries },
      report: JSON.stringify(this.#makeReport()),
    });
    if (!outcome.held) return outcome;
    this.#entries.splice(0, entries.length);
    this.#reported = launcher;
    return outcome;
  }

  #makeReport(): PoolReport {
    const { policy, stopTimeout } = this.#options;
    const { size, reasons } = this.#decision;
    return {
      ...{ size, reasons, workers: this.#workers, mode: policy.mode, min: policy.min, max: policy.max },
      ...{ stopTimeout, launcher: this.#actuator?.launcher ?? null },
    };
  }

  async #decide(actuator: Actuator): Promise<void> {
    const { queues, policy } = this.#options;
    const [stats, summaries, workers] = await Promise.all([
      Promise.all(queues.map((queue) => this.#port.stats(queue))),
      Promise.all(queues.map((queue) => this.#port.queues({ queue }))),
      Promise.all(queues.map((queue) => workersOf(this.#port, queue))),
    ]);
    if (this.#stopping.signal.aborted) return;
    const mine = unique(workers.flat());
    const seen = actuator.observe(mine);
    // What has ended by itself is replaced, so it counts as starting.
    this.#workers = { ...seen, starting: Math.max(seen.starting, this.#decision.size - seen.live) };
    const { wall } = this.#port.clock.read();
    const now = this.#elapsed();
    const observed: Observed = {
      ...observeQueues(
        stats,
        summaries.flatMap(({ items }) => items),
        wall,
      ),
      workers: this.#workers,
      sinceUp: this.#grewAt === null ? null : now - this.#grewAt,
      sinceDown: this.#shrankAt === null ? null : now - this.#shrankAt,
      recentNeed: this.#recentNeed.most(now),
    };
    const decision = this.#withinCap(decide(observed, policy));
    this.#recentNeed.add(now, decision.needed);
    await this.#apply(actuator, decision, now);
  }

  #withinCap(decision: Decision): Decision {
    const limit = this.#cap?.limit(this, decision.size) ?? decision.size;
    if (limit >= decision.size) return decision;
    const text = `All pools of this machine share their workers: ${limit} are left for this one.`;
    return { ...decision, size: limit, reasons: [...decision.reasons, text] };
  }

  async #apply(actuator: Actuator, decision: Decision, now: number): Promise<void> {
    const from = this.#workers.live + this.#workers.starting;
    const { size, reasons } = decision;
    const queue = this.#options.queues[0]!;
    this.#decision = decision;
    if (size > from) this.#grewAt = now;
    if (size < from) this.#shrankAt = now;
    if (size !== from) this.#record({ type: "pool.resized", queue, from, to: size, reasons });
    for (const news of await actuator.resize(decision)) {
      this.#record({ type: "pool.crashing", queue, reasons: [news] });
      this.#logger.warn(`Pool ${this.name}: ${news}`);
    }
  }

  /** Stores the decision with the next call, and reports it to the caller at once. */
  #record(entry: NewEntry): void {
    this.#entries.push(entry);
    this.#options.onDecision?.(entry);
  }

  async #stop(): Promise<void> {
    this.#stopping.abort();
    await this.#looping;
    // Workers may take long to end: the name must be held until then.
    const renewing = setInterval(() => {
      if (this.#heldAt !== null) void this.#supervise().catch(() => {});
    }, this.#options.lease / 3);
    await this.#actuator?.stop();
    clearInterval(renewing);
    this.#cap?.leave(this);
    if (this.#heldAt !== null) {
      const queue = this.#options.queues[0]!;
      this.#decision = { size: 0, needed: 0, reasons: ["It was stopped."] };
      this.#workers = { live: 0, starting: 0, busy: 0 };
      this.#record({ type: "pool.stopped", queue, reasons: this.#decision.reasons });
      await this.#supervise(0).catch((error: unknown) => this.#report((error as Error).message));
      this.#heldAt = null;
    }
    this.#markReady();
    this.#onStopped();
  }

  #elapsed(): number {
    return this.#port.clock.read().elapsed;
  }

  #sleep(ms: number): Promise<void> {
    return sleepUntil(this.#port.clock, ms, this.#stopping.signal);
  }
}

/** In one call; more wait for the next. */
const MOST_ENTRIES = 20;

export interface PoolStatus {
  size: number;
  workers: Observed["workers"];
  reasons: string[];
  /** This process holds the name. Otherwise another one runs the pool, and this one waits. */
  holds: boolean;
}

/** A worker on several queues of the pool is one worker. */
function unique(workers: readonly WorkerRecord[]): WorkerRecord[] {
  return [...new Map(workers.map((worker) => [worker.id, worker])).values()];
}

refuseSurplus(Pool, "pool", { calls: { status: "" }, promises: { stop: "" } });
