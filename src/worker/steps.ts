import { type Duration, parseDuration } from "../core/duration.ts";
import { DibsError, invalid } from "../core/errors.ts";
import { decodeBody, encodeJson } from "../core/json.ts";
import { LIMITS } from "../core/limits.ts";
import { suppressUnhandled } from "../core/suppress-unhandled.ts";
import { checkNames, checkText } from "../core/options.ts";
import type { Port } from "../core/port.ts";
import { show } from "../core/show.ts";
import { type ClaimedTask, JSON_TYPE, type Step } from "../core/task.ts";

/**
 * What earlier runs of a handler have left, and what this one leaves. A handler that starts anew goes through its steps
 * again, and each that was taken returns what it returned then.
 */
export class Steps {
  readonly #port: Port;
  readonly #task: ClaimedTask;
  /** By kind and name; fetched when the first is asked for. */
  #kept: Promise<Map<string, Step>> | undefined;
  /** By name: asked for twice, a step is taken once. */
  readonly #taken = new Map<string, Promise<unknown>>();
  /** What the handler waits for from now on; whatever it answers, it is parked. */
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
    let taken = this.#taken.get(name);
    if (!taken) {
      taken = this.#take(name, take);
      this.#taken.set(name, taken);
      // One that failed may be tried again by the same run.
      taken.catch(() => this.#taken.delete(name));
    }
    return taken;
  }

  async #take(name: string, take: () => unknown): Promise<unknown> {
    const kept = (await this.#fetch()).get(`step ${name}`);
    if (kept) return decode(kept);
    const returned = await take();
    const value = returned === undefined ? null : encodeJson(returned, `the step ${show(name)}`);
    await this.#port.step(this.#task, name, value);
    // As the next run would get it: a Date is a text there, too.
    return decode({ value });
  }

  /** A handler may ask for several before it awaits the first, and leave the others when that parks it. */
  waitFor(name: string, options: { timeout?: Duration | undefined }): Promise<unknown> {
    return suppressUnhandled(this.#waitFor(name, options));
  }

  async #waitFor(name: string, options: { timeout?: Duration | undefined }): Promise<unknown> {
    checkText(name, "A signal's name", LIMITS.stepName);
    checkNames(options, ["timeout"], "waitFor");
    const timeout = options.timeout === undefined ? null : parseDuration(options.timeout, "timeout");
    const kept = await this.#fetch();
    const signal = kept.get(`signal ${name}`);
    if (signal) return decode(signal);
    if (kept.has(`lapsed ${name}`)) {
      throw new DibsError("TIMEOUT", `No signal ${show(name)} came for task ${this.#task.id} in time.`);
    }
    this.waiting ??= { signal: name, timeout };
    throw new Parked(name);
  }

  #fetch(): Promise<Map<string, Step>> {
    this.#kept ??= this.#read();
    return this.#kept;
  }

  async #read(): Promise<Map<string, Step>> {
    const steps = this.#task.stepped ? await this.#port.steps(this.#task.id) : [];
    return new Map(steps.map((step) => [`${step.kind} ${step.name}`, step]));
  }
}

function decode({ value }: { value: Step["value"] }): unknown {
  return value === null ? undefined : decodeBody(value, JSON_TYPE);
}

/** Ends a run of a handler that has to wait. It is no failure; let it pass. */
class Parked extends Error {
  readonly code = "PARKED";

  constructor(signal: string) {
    super(
      `The task is parked until ${show(signal)} comes, and its handler will run again. Let this error pass.`,
    );
  }

  override get name(): string {
    return "Parked";
  }
}
