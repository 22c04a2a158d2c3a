import { refuseSurplus } from "../core/input/arguments.ts";
import { type Duration, parseDuration } from "../core/time/duration.ts";
import { type Each, isEach } from "../core/run/each.ts";
import { claimLost, invalid, isDibsError } from "../core/errors/errors.ts";
import { decodeBody, encodeJson } from "../core/input/json.ts";
import type { Payload } from "../core/input/json-type.ts";
import { suppressUnhandled } from "../core/errors/suppress-unhandled.ts";
import { LIMITS } from "../core/input/limits.ts";
import { checkNames, checkNumber } from "../core/input/options.ts";
import type { Port } from "../core/port.ts";
import type { SettleRef, SettleCall } from "../core/task/claim-call.ts";
import type { RunPlace } from "../core/run/run.ts";
import type { NextCosts } from "../core/run/stage-cost.ts";
import { show } from "../core/errors/show.ts";
import { describeError } from "../core/errors/task-error.ts";
import type { ClaimedTask, Headers, TaskState } from "../core/task/task.ts";
import { TOPIC_HEADER } from "../core/topic/topic.ts";
import { type AddTarget, PendingAdditions, type PublishTarget } from "./pending-additions.ts";

/**
 * What a handler can do with its task: ack, nack, reject, release, hold, extend, progress, log, add. Task (task.ts) extends
 * it for workers, and `queue.claim()` returns it for manual claims.
 */

/** Learns of settlements that took effect. `given` is the result, or what was thrown. */
export interface SettlementObserver {
  settled(task: unknown, call: SettleCall, state: TaskState, given: unknown): void;
}

/** Checks and encodes what a handler returned. */
export type EncodeResult = (result: unknown) => string | null | Promise<string | null>;

/** The cost of the next stage's task, as a function of its input. */
export interface NextCost {
  stage: string;
  of: (input: unknown) => number;
}

/**
 * A claim as users hold it: a task under a fence, until it is settled or its lease ends. `queue.claim()` returns it;
 * handlers get its subclass Task.
 */
export class Claim<Data = unknown, Result = unknown> implements SettleRef {
  readonly id: string;
  readonly fence: number;
  readonly queue: string;
  /** Failures so far + 1: the first attempt is 1. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly headers: Readonly<Headers>;
  readonly priority: number;
  readonly groupKey: string | null;
  /** Why a verifier refused the result of the last attempt. */
  readonly feedback: string | undefined;

  /** @internal */
  protected readonly port: Port;
  readonly #encodeResult: EncodeResult;
  readonly #nextCost: NextCost | undefined;
  /** @internal */
  protected readonly claimed: ClaimedTask;
  /** @internal Set by the worker. */
  observer: SettlementObserver | undefined;
  #data: { decoded: Data } | undefined;
  #additions: PendingAdditions | undefined;
  #settlement: Promise<void> | undefined;
  #ackedInTransaction: { call: SettleCall; state: TaskState; result: unknown } | undefined;
  #storeError: unknown;
  #spent: number | undefined;

  constructor(port: Port, task: ClaimedTask, encodeResult: EncodeResult = encodeAsJson, nextCost?: NextCost) {
    this.port = port;
    this.#nextCost = nextCost;
    this.#encodeResult = encodeResult;
    this.claimed = task;
    this.id = task.id;
    this.fence = task.fence;
    this.queue = task.queue;
    this.attempt = task.attempt;
    this.maxAttempts = task.maxAttempts;
    this.headers = task.headers;
    this.priority = task.priority;
    this.groupKey = task.groupKey;
    this.feedback = task.feedback;
  }

  /** The payload. A payload that a door stored under another type than JSON is text or bytes. */
  get data(): Data {
    this.#data ??= { decoded: decodeBody(this.claimed.data, this.claimed.contentType) as Data };
    return this.#data.decoded;
  }

  /** The payload as it is stored: JSON is text. */
  get body(): string | Uint8Array {
    return this.claimed.data;
  }

  get contentType(): string {
    return this.claimed.contentType;
  }

  /** The topic that it was published to; null if it was added to its queue. */
  get topic(): string | null {
    return Object.hasOwn(this.headers, TOPIC_HEADER) ? this.headers[TOPIC_HEADER]! : null;
  }

  /** The run of a pipeline that the task belongs to, with its stage and part; null for other tasks. */
  get run(): RunPlace | null {
    return this.claimed.run ?? null;
  }

  /** The task's cost in rate limits with a unit. */
  get cost(): number {
    return this.claimed.cost ?? 1;
  }

  /** Sets the real cost, instead of `cost`. It is sent with the settlement. */
  spend(spent: number): void {
    this.#spent = checkNumber(spent, "What a task spent", 0, LIMITS.cost);
  }

  get createdAt(): Date {
    return new Date(this.claimed.createdAt);
  }

  /** A settlement was sent. */
  get isSettled(): boolean {
    return this.#settlement !== undefined;
  }

  /** @internal The outcome of the settlement. */
  get settlement(): Promise<void> | undefined {
    return this.#settlement;
  }

  /**
   * @internal The error with which the store answered the last settlement. Errors that are thrown before that are
   * different.
   */
  get storeError(): unknown {
    return this.#storeError;
  }

  /** Done, with a result for callers that wait for it. Tasks added with `add` commit with it. */
  async ack(result?: Result, options: { tx?: unknown } = {}): Promise<void> {
    checkNames(options, ["tx"], "ack");
    await this.ackAs(result, options.tx);
  }

  /**
   * As ack(), for the worker. It is not async, because each `async` function costs a promise per task and acks are the
   * most frequent call. An invalid result is thrown synchronously.
   * @internal
   */
  ackAs(result: unknown, tx?: unknown): Promise<void> {
    this.#checkOpen();
    const parted = isEach(result) ? result : undefined;
    const encoded = this.#encodeResult(parted ? parted.items : result);
    if (encoded instanceof Promise || this.#additions)
      return this.#ackWithAdditions(result, encoded, parted, tx);
    if (!parted && !this.#nextCost) return this.#sendAck({ kind: "ack", result: encoded }, result, tx);
    return this.#sendAck(this.#stageAck(encoded, parted), result, tx);
  }

  /** The ack of a task of a run, with the costs of the tasks that follow. */
  #stageAck(result: string | null, parted: Each | undefined): SettleCall & { kind: "ack" } {
    const next = parted?.costs ? { costs: [...parted.costs] } : this.#costsOf(result, parted !== undefined);
    return { kind: "ack", result, ...(parted && { each: true }), ...(next && { next }) };
  }

  #costsOf(result: string | null, isParted: boolean): NextCosts | undefined {
    if (!this.#nextCost || !this.run) return undefined;
    const { stage, of } = this.#nextCost;
    // The input as the next stage gets it, after JSON and a validator.
    const value: unknown = result === null ? null : JSON.parse(result);
    const costs = (isParted ? (value as unknown[]) : [value]).map(of);
    return { stage, costs };
  }

  async #ackWithAdditions(
    result: unknown,
    encoding: string | null | Promise<string | null>,
    parted: Each | undefined,
    tx: unknown,
  ): Promise<void> {
    const acked = this.#stageAck(await encoding, parted);
    if (!this.#additions) return this.#sendAck(acked, result, tx);
    const adds = await this.#additions.prepared();
    // Declare without an await, so that a queue's policy commits with its first task.
    const declared = this.#additions.declare();
    const settled = this.#sendAck({ ...acked, ...(adds.length > 0 && { adds }) }, result, tx);
    await Promise.all([declared, settled]);
  }

  #sendAck(call: SettleCall & { kind: "ack" }, result: unknown, tx: unknown): Promise<void> {
    return tx === undefined ? this.settleAs(call, result) : this.#ackInTransaction(call, result, tx);
  }

  /** The claim stays open: the caller's transaction may be rolled back, and then the ack has not happened. */
  async #ackInTransaction(call: SettleCall & { kind: "ack" }, result: unknown, tx: unknown): Promise<void> {
    const { state } = await this.port.settle(this, this.#withSpent(call), { tx });
    this.#ackedInTransaction = { call, state, result };
  }

  /**
   * @internal Acked in the handler's own transaction: when the handler then returns, there is nothing left to settle.
   */
  get isAckedInTransaction(): boolean {
    return this.#ackedInTransaction !== undefined;
  }

  /**
   * @internal Whether the store shows that this claim has ended: an ack in the handler's own transaction was committed.
   * False if the store does not answer.
   */
  async isGone(): Promise<boolean> {
    try {
      const { state, attempt } = await this.port.task(this.id);
      return state !== "claimed" || attempt !== this.attempt;
    } catch (error) {
      return isDibsError(error) && error.code === "TASK_NOT_FOUND";
    }
  }

  /** @internal The handler returned after an ack in its own transaction, which by then was committed. */
  observeAckInTransaction(): void {
    const { call, state, result } = this.#ackedInTransaction!;
    this.#observe(call, state, result);
  }

  /**
   * The attempt failed: the task is retried after `delay` or the queue's backoff, or is dead if this was the last
   * attempt.
   */
  async nack(error: unknown, options: { delay?: Duration } = {}): Promise<void> {
    checkNames(options, ["delay"], "nack");
    const delay = options.delay === undefined ? undefined : parseDuration(options.delay, "delay");
    await this.settleAs({ kind: "nack", error: describeError(error), delay }, error);
  }

  /**
   * Another system's limit was met: the task returns to its position without counting the attempt, and no task of its
   * groupKey starts during `delay` or the queue's backoff. Without a groupKey this applies to the whole queue.
   */
  async hold(error: unknown, options: { delay?: Duration } = {}): Promise<void> {
    checkNames(options, ["delay"], "hold");
    const delay = options.delay === undefined ? undefined : parseDuration(options.delay, "delay");
    await this.settleAs({ kind: "hold", error: describeError(error), delay });
  }

  /** The task goes straight to the dead letters. */
  async reject(error: unknown): Promise<void> {
    await this.settleAs({ kind: "reject", error: describeError(error) }, error);
  }

  /** Returns the task to its position, for any worker, now or after `delay`. The attempt does not count. */
  async release(options: { delay?: Duration } = {}): Promise<void> {
    checkNames(options, ["delay"], "release");
    const delay = options.delay === undefined ? undefined : parseDuration(options.delay, "delay");
    await this.settleAs({ kind: "release", started: true, ...(delay !== undefined && { delay }) });
  }

  /** The lease ends `lease` from now. */
  async extend(lease: Duration): Promise<void> {
    this.#checkOpen();
    await this.port.extend(this, parseDuration(lease, "lease", 1));
  }

  /** Most callers do not await it: a lost claim must not crash their process. */
  progress(value: number, note?: string): Promise<void> {
    return suppressUnhandled(this.#progress(value, note ?? null));
  }

  /**
   * Stores a line with this attempt, for people who look into it later: `history()` of the task shows it. Texts are cut
   * at 2,000 characters, and a task keeps its last 500 lines. As with progress, most callers do not await it.
   */
  log(text: string): Promise<void> {
    return suppressUnhandled(this.#log(text));
  }

  async #log(text: string): Promise<void> {
    this.#checkOpen();
    if (typeof text !== "string") throw invalid(`task.log() takes a text; got ${show(text)}.`);
    await this.port.progress(this, null, null, text.slice(0, LIMITS.logLine));
  }

  async #progress(value: number, note: string | null): Promise<void> {
    this.#checkOpen();
    await this.port.progress(this, value, note);
  }

  /** Adds a task when this one is acked: both commit together, or neither does. */
  async add<In, Options>(queue: AddTarget<In, Options>, data: Payload<In>, options?: Options): Promise<void> {
    this.#checkOpen();
    await (this.#additions ??= new PendingAdditions()).add(queue, data, options);
  }

  /** Publishes when this one is acked: both commit together, or neither does. */
  async publish<In, Options>(
    topic: PublishTarget<In, Options>,
    data: Payload<In>,
    options?: Options,
  ): Promise<void> {
    this.#checkOpen();
    await (this.#additions ??= new PendingAdditions()).publish(topic, data, options);
  }

  /**
   * One settlement counts. If the store refused it or could not be reached, another one may be sent. `given` is the
   * result, or what was thrown.
   * @internal
   */
  settleAs(call: SettleCall, given?: unknown): Promise<void> {
    this.#checkOpen();
    this.#settlement = this.#send(call, given);
    return this.#settlement;
  }

  async #send(call: SettleCall, given: unknown): Promise<void> {
    let state: TaskState;
    try {
      ({ state } = await this.port.settle(this, this.#withSpent(call)));
    } catch (error) {
      if ((error as { code?: string }).code !== "CLAIM_LOST") this.#settlement = undefined;
      this.#storeError = error;
      throw error;
    }
    if (this.observer) this.#observe(call, state, given);
  }

  #observe(call: SettleCall, state: TaskState, given: unknown): void {
    try {
      this.observer?.settled(this, call, state, given);
    } catch {
      // The settlement took effect: what a user's logger throws must not look like its failure.
    }
  }

  #withSpent(call: SettleCall): SettleCall {
    return this.#spent === undefined ? call : { ...call, spent: this.#spent };
  }

  #checkOpen(): void {
    if (this.#settlement) throw claimLost(this.id, this.fence);
  }
}

function encodeAsJson(result: unknown): string | null {
  return result === undefined ? null : encodeJson(result, "the result");
}

refuseSurplus(Claim, "claim", {
  calls: { spend: "spent" },
  promises: {
    ack: "result, options",
    nack: "error, options",
    hold: "error, options",
    reject: "error",
    release: "options",
    extend: "lease",
    progress: "value, note",
    log: "text",
    add: "queue, data, options",
    publish: "topic, data, options",
  },
});
