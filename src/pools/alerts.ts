import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import { refuseSurplus } from "../core/input/arguments.ts";
import { everyItem } from "../core/answer/every-item.ts";
import { KeepAlive } from "../core/process/keep-alive.ts";
import type { Logger } from "../core/process/logger.ts";
import type { Port } from "../core/port.ts";
import { sleepUntil } from "../core/time/sleep.ts";
import type { NewEntry } from "../core/supervision.ts";
import type { QueueStats, WorkerRecord } from "../core/task/task.ts";
import { workersOf } from "./workers-of.ts";
import { advise } from "./advise.ts";
import {
  type AlertKind,
  type AlertState,
  CALM,
  describeAlert,
  nextState,
  type ResolvedAlerts,
  type ResolvedRule,
} from "./alert-rules.ts";

/**
 * Evaluates the rules of alerts, in one process at a time: `dibs.alerts()`, `dibs pool` and `dibs serve` start it. An
 * alert is sent once when it is raised and once when it is cleared. The states are stored with the name, so that a
 * process that takes over does not send them again.
 */
export class Alerts implements AsyncDisposable {
  readonly #port: Port;
  readonly #options: ResolvedAlerts;
  readonly #logger: Logger;
  readonly #onStopped: () => void;
  readonly #holder = `${hostname()}/${process.pid}#${randomBytes(4).toString("hex")}`;
  readonly #stopping = new AbortController();
  readonly #looping: Promise<void>;
  #states: States | undefined;
  /** Dead letters of the last ten minutes, by queue. */
  readonly #dead = new Map<string, { at: number; count: number }[]>();
  #problem: string | null = null;
  #queues: string[] = [];

  /** @internal */
  constructor(port: Port, options: ResolvedAlerts, logger: Logger, onStopped: () => void) {
    this.#port = port;
    this.#options = options;
    this.#logger = logger;
    this.#onStopped = onStopped;
    this.#looping = new KeepAlive().during(this.#loop());
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#looping;
    if (this.#states) await this.#supervise(this.#states, [], 0).catch(() => {});
    this.#states = undefined;
    this.#onStopped();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #loop(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await this.#round();
        this.#problem = null;
      } catch (error) {
        const { message } = error as Error;
        if (message !== this.#problem) this.#logger.warn(`Alerts could not be evaluated: ${message}`);
        this.#problem = message;
      }
      await this.#sleep();
    }
  }

  async #round(): Promise<void> {
    this.#queues = (await everyItem((page) => this.#port.queues(page)))
      .map(({ name }) => name)
      .filter((name) => this.#isWatched(name));
    if (this.#queues.length === 0) return;
    this.#states ??= await this.#take();
    if (!this.#states) return;
    const changes: NewEntry[] = [];
    const states: States = {};
    for (const queue of this.#queues) await this.#evaluate(queue, this.#states, states, changes);
    // Stored first: whatever happens now, no alert is sent twice.
    const { held } = await this.#supervise(states, changes);
    this.#states = held ? states : undefined;
    if (held) for (const change of changes) await this.#send(change);
  }

  #isWatched(queue: string): boolean {
    return this.#options.rules.some((rule) => rule.queue === "*" || rule.queue === queue);
  }

  /** The states that the last holder has left. */
  async #take(): Promise<States | undefined> {
    const [before] = (await this.#port.supervised("alerts", { name: ALERTS_NAME })).items;
    if (before && before.heldFor > 0 && before.holder !== this.#holder) return undefined;
    return before ? (JSON.parse(before.report) as { states: States }).states : {};
  }

  #supervise(states: States, entries: NewEntry[], lease = this.#options.every * 3) {
    return this.#port.supervise({
      ...{ kind: "alerts", name: ALERTS_NAME, holder: this.#holder, host: hostname(), pid: process.pid },
      ...{ queues: this.#queues.slice(0, MOST_QUEUES), lease: Math.min(Math.ceil(lease), 3_600_000) },
      ...{
        report: JSON.stringify({ rules: this.#options.rules, states }),
        entries: entries.slice(0, MOST_ENTRIES),
      },
    });
  }

  async #evaluate(queue: string, before: States, states: States, changes: NewEntry[]): Promise<void> {
    const [stats, workers] = await Promise.all([this.#port.stats(queue), workersOf(this.#port, queue)]);
    const now = this.#port.clock.read().wall;
    for (const rule of this.#options.rules.filter((each) => each.queue === "*" || each.queue === queue)) {
      const { value, text } = await this.#measure(rule, stats, workers, now);
      const key = `${queue} ${rule.when}`;
      const old = before[key] ?? CALM;
      const next = nextState(old, value, rule, now);
      if (next.raised || next.since !== null) states[key] = next;
      if (next.raised === old.raised) continue;
      const reason = next.raised ? (text ?? describeAlert(rule, value)) : NORMAL[rule.when];
      changes.push({
        type: next.raised ? "alert.raised" : "alert.cleared",
        queue,
        reasons: [rule.when, reason],
      });
    }
  }

  async #measure(
    { when }: ResolvedRule,
    stats: QueueStats,
    workers: WorkerRecord[],
    now: number,
  ): Promise<{ value: number; text?: string }> {
    switch (when) {
      case "depth":
        return { value: stats.depth.ready };
      case "oldestAge":
        return { value: stats.oldestAge ?? 0 };
      case "noWorkers":
        return { value: stats.workers === 0 && !stats.paused ? stats.depth.ready : 0 };
      case "failureRate":
        return { value: stats.failureRate ?? 0 };
      case "deadLetters":
        return { value: this.#growth(stats.queue, stats.depth.dead, now) };
      case "idleWorkers": {
        const { now: count, needed } = advise(stats, workers).workers;
        const isUnused = needed === null && stats.depth.ready === 0 && stats.depth.claimed === 0;
        return { value: needed === null ? (isUnused ? count : 0) : count - Math.max(needed, 1) };
      }
      case "newFailure": {
        if (stats.depth.dead === 0) return { value: 0 };
        const patterns = await this.#port.patterns(stats.queue, "fingerprint", 20);
        const [first, ...others] = patterns.filter(({ firstAt }) => firstAt > now - WINDOW_MS);
        if (!first) return { value: 0 };
        const message = first.sample.error?.message.slice(0, 200) ?? first.pattern;
        return { value: 1 + others.length, text: `A kind of failure that is new: ${message}` };
      }
    }
  }

  /** How many more dead letters there are than ten minutes ago. */
  #growth(queue: string, count: number, now: number): number {
    const samples = this.#dead.get(queue) ?? [];
    samples.push({ at: now, count });
    // One sample at the beginning of the window stays.
    while (samples.length > 1 && samples[1]!.at <= now - WINDOW_MS) samples.shift();
    this.#dead.set(queue, samples);
    return Math.max(0, count - Math.min(...samples.map((each) => each.count)));
  }

  async #send({ type, queue, reasons }: NewEntry): Promise<void> {
    const [alert, text] = reasons as [string, string];
    const isRaised = type === "alert.raised";
    this.#logger.warn(`Alert ${isRaised ? "raised" : "cleared"}: ${queue}: ${text}`, { alert, queue });
    const { webhook, command } = this.#options;
    const state = isRaised ? "raised" : "cleared";
    const facts = { DIBS_ALERT: alert, DIBS_STATE: state, DIBS_QUEUE: queue, DIBS_TEXT: text };
    // Loaded only here: most processes have no alerts.
    const { executeCommand, postJson } = await import("./tell.ts");
    const failed = (error: unknown): void =>
      this.#logger.error(`An alert could not be sent: ${(error as Error).message}`, { alert, queue });
    await Promise.all([
      webhook !== null && postJson(webhook, { state, alert, queue, text }).catch(failed),
      command !== null && executeCommand(command, facts).catch(failed),
    ]);
  }

  #sleep(): Promise<void> {
    return sleepUntil(this.#port.clock, this.#options.every, this.#stopping.signal);
  }
}

/** By queue and rule. A rule that is calm has none. */
type States = Record<string, AlertState>;

/** What is stored with the name. */
export interface AlertsReport {
  rules: ResolvedRule[];
  states: States;
}

/** The name that the process with the alerts holds. */
export const ALERTS_NAME = "alerts";
const WINDOW_MS = 600_000;
const MOST_QUEUES = 100;
const MOST_ENTRIES = 50;

refuseSurplus(Alerts, "alerts", { promises: { stop: "" } });

/** What is said when an alert is cleared. */
const NORMAL: Record<AlertKind, string> = {
  depth: "The number of waiting tasks is back to normal.",
  oldestAge: "The oldest task waits no longer than usual.",
  noWorkers: "Workers are there again, or nothing waits.",
  failureRate: "The share of failing attempts is back to normal.",
  deadLetters: "No more dead letters than usual.",
  newFailure: "No new kind of failure.",
  idleWorkers: "No more workers than needed.",
};
