import { type Duration, parseDuration } from "../core/time/duration.ts";
import { DibsError, invalid } from "../core/errors/errors.ts";
import { decodeBody, encodeJson } from "../core/input/json.ts";
import { LIMITS } from "../core/input/limits.ts";
import { suppressUnhandled } from "../core/errors/suppress-unhandled.ts";
import { checkNames, checkText } from "../core/input/options.ts";
import type { Port } from "../core/port.ts";
import { show } from "../core/errors/show.ts";
import { checkSignalName } from "../core/handler/signal-name.ts";
import { isSleepSignal, sleepSignal } from "../core/handler/sleep-signal.ts";
import { type ClaimedTask, JSON_TYPE, type Step } from "../core/task/task.ts";

/**
 * The steps and signals of one task, for Task. A handler that is called again goes through its steps again, and each
 * one that was stored returns its stored value.
 */
export class Steps {
  readonly #port: Port;
  readonly #task: ClaimedTask;
  /** The stored steps by kind and name; fetched at the first step. */
  #stored: Promise<Map<string, Step>> | undefined;
  /** How often this call of the handler has slept: the number is the name of a sleep. */
  #sleeps = 0;
  /** By name: a step that is requested twice runs once. */
  readonly #started = new Map<string, Promise<unknown>>();
  /** What the handler waits for from now on. Whatever it answers, the task is parked. */
  waiting: { signal: string; timeout: number | null } | undefined;

  constructor(port: Port, task: ClaimedTask) {
    this.#port = port;
    this.#task = task;
  }

  step(name: string, take: () => unknown): Promise<unknown> {
    try {
      checkText(name, "A step's name", LIMITS.stepName);
      if (typeof take !== "function") throw invalid(`step() takes a name and a function; got ${show(take)}.`);
    } catch (error) {
      return Promise.reject(error);
    }
    let started = this.#started.get(name);
    if (!started) {
      started = this.#take(name, take);
      this.#started.set(name, started);
      // A step that failed may be retried in the same attempt.
      started.catch(() => this.#started.delete(name));
    }
    return started;
  }

  async #take(name: string, take: () => unknown): Promise<unknown> {
    const stored = (await this.stored()).get(`step ${name}`);
    if (stored) return decode(stored);
    const returned = await take();
    const value = returned === undefined ? null : encodeJson(returned, `the step ${show(name)}`);
    await this.#port.step(this.#task, name, value);
    // Decoded, so that this attempt gets the same value as a later one: a Date becomes a text.
    return decode({ value });
  }

  /**
   * A handler may call this several times before it awaits the first call. If that parks the task, the others are never
   * awaited.
   */
  waitFor(name: string, options: { timeout?: Duration | undefined }): Promise<unknown> {
    return suppressUnhandled(this.#waitFor(name, options));
  }

  async #waitFor(name: string, options: { timeout?: Duration | undefined }): Promise<unknown> {
    checkSignalName(name);
    if (isSleepSignal(name))
      throw invalid(
        `Signals that begin with "sleep:" belong to task.sleep(); got ${show(name)}. Use another name.`,
      );
    checkNames(options, ["timeout"], "waitFor");
    const timeout = options.timeout === undefined ? null : parseDuration(options.timeout, "timeout");
    const stored = await this.stored();
    const signal = stored.get(`signal ${name}`);
    if (signal) return decode(signal);
    if (stored.has(`timeout ${name}`)) {
      throw new DibsError(
        "TIMEOUT",
        `No signal ${show(name)} arrived for task ${this.#task.id} before its timeout.`,
      );
    }
    this.waiting ??= { signal: name, timeout };
    throw new Parked(`${show(name)} comes`);
  }

  /** As with waitFor: once another call has parked the task, the handler may never await this one. */
  sleep(duration: Duration): Promise<void> {
    return suppressUnhandled(this.#sleep(duration));
  }

  async #sleep(duration: Duration): Promise<void> {
    // Before the first await: sleeps are counted in the order of their calls.
    const name = sleepSignal(++this.#sleeps);
    const timeout = parseDuration(duration, "duration");
    const stored = await this.stored();
    if (stored.has(`timeout ${name}`) || stored.has(`signal ${name}`)) return;
    this.waiting ??= { signal: name, timeout };
    throw new Parked(`${show(name)} comes`);
  }

  /** What earlier attempts have left, by kind and name. */
  stored(): Promise<Map<string, Step>> {
    this.#stored ??= this.#read();
    return this.#stored;
  }

  async #read(): Promise<Map<string, Step>> {
    const steps = this.#task.stepped ? await this.#port.steps(this.#task.id) : [];
    return new Map(steps.map((step) => [`${step.kind} ${step.name}`, step]));
  }
}

function decode({ value }: { value: Step["value"] }): unknown {
  return value === null ? undefined : decodeBody(value, JSON_TYPE);
}

/** Ends a call of a handler that has to wait. Not a failure: handlers must not catch it. */
export class Parked extends Error {
  readonly code = "PARKED";

  constructor(until: string) {
    super(`The task is parked until ${until}, and its handler will run again. Let this error pass.`);
  }

  override get name(): string {
    return "Parked";
  }
}
