import { refuseSurplus } from "../core/arguments.ts";
import { type Duration, parseDuration } from "../core/duration.ts";
import { type Each, isEach } from "../core/each.ts";
import { claimLost, invalid } from "../core/errors.ts";
import { decodeBody, encodeJson } from "../core/json.ts";
import type { Payload } from "../core/json-type.ts";
import { suppressUnhandled } from "../core/suppress-unhandled.ts";
import { LIMITS } from "../core/limits.ts";
import { checkNames, checkNumber } from "../core/options.ts";
import type { Port, SettleRef, SettleCall } from "../core/port.ts";
import type { RunPlace } from "../core/run.ts";
import type { NextCosts } from "../core/stage-cost.ts";
import { describeError } from "../core/task-error.ts";
import type { Addition, ClaimedTask, Headers, NewMessage, NewTask } from "../core/task.ts";
import { TOPIC_HEADER } from "../core/topic.ts";

/** A queue that a handler can add to: its own handle, or that of any other queue. */
export interface AddTarget<In, Options> {
  /** Checks and encodes, and stores nothing. */
  prepare(data: In, options?: Options): Promise<NewTask>;
  /** Sends the policy along, if it was not sent yet. */
  declare(): Promise<void>;
}

/** A topic that a handler can publish to. */
export interface PublishTarget<In, Options> {
  /** Checks and encodes, and stores nothing. */
  prepareMessage(data: In, options?: Options): Promise<NewMessage>;
}

/** Checks and encodes what a handler returned. */
export type EncodeResult = (result: unknown) => string | null | Promise<string | null>;

/** Of the stage after a task's own: what its task costs, as a function of its input. */
export interface NextCost {
  stage: string;
  of: (input: unknown) => number;
}

/** A task held under a fence, until it is settled or its lease ends. */
export class Claim<Data = unknown, Result = unknown> implements SettleRef {
  readonly id: string;
  readonly fence: number;
  readonly queue: string;
  /** 1 for the first try: failures so far, and one. */
  readonly attempt: number;
  readonly maxAttempts: number;
  readonly headers: Readonly<Headers>;
  readonly priority: number;
  readonly groupKey: string | null;
  /** Why a verifier refused what the last attempt returned. */
  readonly feedback: string | undefined;

  /** @internal */
  protected readonly port: Port;
  readonly #encodeResult: EncodeResult;
  readonly #nextCost: NextCost | undefined;
  /** @internal */
  protected readonly claimed: ClaimedTask;
  #data: { decoded: Data } | undefined;
  #adds: Set<PendingAdd> | undefined;
  #settlement: Promise<void> | undefined;
  #isAckedWithin = false;
  #setback: unknown;
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

  /** The payload. What a door stored as another type than JSON comes as text or bytes. */
  get data(): Data {
    this.#data ??= { decoded: decodeBody(this.claimed.data, this.claimed.contentType) as Data };
    return this.#data.decoded;
  }

  /** What it was published to; null where it was added to its queue. */
  get topic(): string | null {
    return Object.hasOwn(this.headers, TOPIC_HEADER) ? this.headers[TOPIC_HEADER]! : null;
  }

  /** The run of a pipeline that it is of, and where in it; null for other tasks. */
  get run(): RunPlace | null {
    return this.claimed.run ?? null;
  }

  /** What it takes of limits that have a unit. */
  get cost(): number {
    return this.claimed.cost ?? 1;
  }

  /** What it really took of them, in place of its cost: said with however it is settled. */
  spend(spent: number): void {
    this.#spent = checkNumber(spent, "What a task spent", 0, LIMITS.cost);
  }

  get createdAt(): Date {
    return new Date(this.claimed.createdAt);
  }

  /** Somebody settled it, or is about to. */
  get isSettled(): boolean {
    return this.#settlement !== undefined;
  }

  /** @internal How the settlement under way, or done, came out. */
  get settlement(): Promise<void> | undefined {
    return this.#settlement;
  }

  /** @internal What the store met in place of taking the last settlement: what is thrown before that is another thing. */
  get setback(): unknown {
    return this.#setback;
  }

  /** Done, with a result for whoever waits for it. What was added with `add` commits with it. */
  async ack(result?: Result, options: { tx?: unknown } = {}): Promise<void> {
    checkNames(options, ["tx"], "ack");
    await this.ackAs(result, options.tx);
  }

  /**
   * The same, for a worker: it acks more often than it does anything else, and every `async` on the way is a promise
   * more for each task. What is wrong with the result is thrown at once.
   * @internal
   */
  ackAs(result: unknown, tx?: unknown): Promise<void> {
    this.#checkOpen();
    const parted = isEach(result) ? result : undefined;
    const encoded = this.#encodeResult(parted ? parted.items : result);
    if (encoded instanceof Promise || this.#adds) return this.#ackWithAll(encoded, parted, tx);
    if (!parted && !this.#nextCost) return this.#say({ kind: "ack", result: encoded }, tx);
    return this.#say(this.#stageAck(encoded, parted), tx);
  }

  /** In a run: with what the tasks cost that follow. */
  #stageAck(result: string | null, parted: Each | undefined): SettleCall & { kind: "ack" } {
    const next = parted?.costs ? { costs: [...parted.costs] } : this.#costsOf(result, parted !== undefined);
    return { kind: "ack", result, ...(parted && { each: true }), ...(next && { next }) };
  }

  #costsOf(result: string | null, isParted: boolean): NextCosts | undefined {
    if (!this.#nextCost || !this.run) return undefined;
    const { stage, of } = this.#nextCost;
    // As the next stage gets it, after JSON and a validator.
    const value: unknown = result === null ? null : JSON.parse(result);
    const costs = (isParted ? (value as unknown[]) : [value]).map(of);
    return { stage, costs };
  }

  async #ackWithAll(
    encoding: string | null | Promise<string | null>,
    parted: Each | undefined,
    tx: unknown,
  ): Promise<void> {
    const said = this.#stageAck(await encoding, parted);
    if (!this.#adds) return this.#say(said, tx);
    // Those that are refused have taken themselves off the list by then.
    await Promise.allSettled([...this.#adds].map(({ prepared }) => prepared));
    const adds = await Promise.all([...this.#adds].map(({ prepared }) => prepared));
    // Declared in the same moment, so that a queue's policy commits with its first task.
    const declared = [...this.#adds].map(({ declare }) => declare());
    const settled = this.#say({ ...said, ...(adds.length > 0 && { adds }) }, tx);
    await Promise.all([...declared, settled]);
  }

  #say(word: SettleCall & { kind: "ack" }, tx: unknown): Promise<void> {
    return tx === undefined ? this.settleAs(word) : this.#ackWithin(word, tx);
  }

  /** Within a transaction it stays open: that may be rolled back, and what was said then was never said. */
  async #ackWithin(word: SettleCall & { kind: "ack" }, tx: unknown): Promise<void> {
    await this.port.settle(this, this.#withSpent(word), { tx });
    this.#isAckedWithin = true;
  }

  /** @internal Acked in a transaction of the handler's: a handler that then returns has nothing more to say. */
  get isAckedWithin(): boolean {
    return this.#isAckedWithin;
  }

  /** Failed: another try after `delay` or the queue's backoff, or dead if this was the last. */
  async nack(error: unknown, options: { delay?: Duration } = {}): Promise<void> {
    checkNames(options, ["delay"], "nack");
    const delay = options.delay === undefined ? undefined : parseDuration(options.delay, "delay");
    await this.settleAs({ kind: "nack", error: describeError(error), delay });
  }

  /**
   * Somebody else's limit was met: back to its place without using up an attempt, and no task of its groupKey starts for
   * `delay` or the queue's backoff; of the queue, where it has none.
   */
  async hold(error: unknown, options: { delay?: Duration } = {}): Promise<void> {
    checkNames(options, ["delay"], "hold");
    const delay = options.delay === undefined ? undefined : parseDuration(options.delay, "delay");
    await this.settleAs({ kind: "hold", error: describeError(error), delay });
  }

  /** Straight to the dead letters. */
  async reject(error: unknown): Promise<void> {
    await this.settleAs({ kind: "reject", error: describeError(error) });
  }

  /** Back to its place, for anybody; no attempt is used up. */
  async release(): Promise<void> {
    await this.settleAs({ kind: "release", started: true });
  }

  /** The lease ends `lease` from now. */
  async extend(lease: Duration): Promise<void> {
    this.#checkOpen();
    await this.port.extend(this, parseDuration(lease, "lease", 1));
  }

  /** Most who tell it do not wait for it: that the claim was lost is no reason to end their process. */
  progress(value: number, note?: string): Promise<void> {
    return suppressUnhandled(this.#progress(value, note ?? null));
  }

  async #progress(value: number, note: string | null): Promise<void> {
    this.#checkOpen();
    await this.port.progress(this, value, note);
  }

  /** Adds a task when this one is acked: both commit together, or neither does. */
  async add<In, Options>(queue: AddTarget<In, Options>, data: Payload<In>, options?: Options): Promise<void> {
    this.#checkOpen();
    if (typeof queue?.prepare !== "function") {
      throw invalid(`task.add() takes a queue handle first, as in task.add(dibs.queue("next"), data).`);
    }
    await this.#holdBack({ prepared: queue.prepare(data, options), declare: () => queue.declare() });
  }

  /** Publishes when this one is acked: both commit together, or neither does. */
  async publish<In, Options>(
    topic: PublishTarget<In, Options>,
    data: Payload<In>,
    options?: Options,
  ): Promise<void> {
    this.#checkOpen();
    if (typeof topic?.prepareMessage !== "function") {
      throw invalid(
        `task.publish() takes a topic handle first, as in task.publish(dibs.topic("a.b"), data).`,
      );
    }
    await this.#holdBack({ prepared: topic.prepareMessage(data, options), declare: async () => {} });
  }

  /** On the list at once: a handler may return without having waited for this. */
  async #holdBack(add: PendingAdd): Promise<void> {
    const adds = (this.#adds ??= new Set()).add(add);
    try {
      await add.prepared;
    } catch (error) {
      adds.delete(add);
      throw error;
    }
  }

  /**
   * One settlement counts. If the store refused it or could not be reached, another may be tried.
   * @internal
   */
  settleAs(word: SettleCall): Promise<void> {
    this.#checkOpen();
    this.#settlement = this.#send(word);
    return this.#settlement;
  }

  async #send(word: SettleCall): Promise<void> {
    try {
      await this.port.settle(this, this.#withSpent(word));
    } catch (error) {
      if ((error as { code?: string }).code !== "CLAIM_LOST") this.#settlement = undefined;
      this.#setback = error;
      throw error;
    }
  }

  #withSpent(word: SettleCall): SettleCall {
    return this.#spent === undefined ? word : { ...word, spent: this.#spent };
  }

  #checkOpen(): void {
    if (this.#settlement) throw claimLost(this.id, this.fence);
  }
}

/** What is to be added with the ack. */
interface PendingAdd {
  prepared: Promise<Addition>;
  declare: () => Promise<void>;
}

export function encodeAsJson(result: unknown): string | null {
  return result === undefined ? null : encodeJson(result, "the result");
}

refuseSurplus(Claim, "claim", {
  calls: { spend: "spent" },
  promises: {
    ack: "result, options",
    nack: "error, options",
    hold: "error, options",
    reject: "error",
    release: "",
    extend: "lease",
    progress: "value, note",
    add: "queue, data, options",
    publish: "topic, data, options",
  },
});
