import { refuseSurplus } from "../core/input/arguments.ts";
import type { SpawnedTask } from "../core/handler/children.ts";
import type { BulkProgress } from "../core/task/change-all.ts";
import { parseDuration } from "../core/time/duration.ts";
import { invalid, isDibsError } from "../core/errors/errors.ts";
import { everyItem } from "../core/answer/every-item.ts";
import type { Json, Payload } from "../core/input/json-type.ts";
import { checkNames, checkObject } from "../core/input/options.ts";
import { parsePolicy, type QueuePolicy, type QueuePolicyOptions } from "../core/queue/policy.ts";
import type { Port } from "../core/port.ts";
import { checkQueueName } from "../core/queue/queue-name.ts";
import { show } from "../core/errors/show.ts";
import type { AddedTask, Body, NewTask, TaskRecord } from "../core/task/task.ts";
import { verificationQueue } from "../core/handler/verification.ts";
import { advise } from "../pools/advise.ts";
import { Claim, type EncodeResult, type NextCost } from "../worker/claim.ts";
import type { AddTarget } from "../worker/pending-additions.ts";
import type { SpawnTarget } from "../worker/children.ts";
import { resolveWork, resolveWorkBatch, type WorkBatchOptions, type WorkOptions } from "../worker/options.ts";
import type { WorkerQueue } from "../worker/runner.ts";
import type { BatchHandler, Handler } from "../worker/task.ts";
import { verifierOf } from "../worker/verify.ts";
import type { Worker } from "../worker/worker.ts";
import {
  type AddManyOptions,
  type AddOptions,
  checkManyOptions,
  type Item,
  parseAddOptions,
  type PartOptions,
  refuseTx,
  type SpawnOptions,
  TX_OF_ACK,
  TX_OF_MANY,
} from "./add-options.ts";
import { CallOrder } from "./call-order.ts";
import { type AllChange, changeAllOf, type ChangeAllOptions } from "./change-all.ts";
import { DeadLetters } from "./dead-letters.ts";
import { Declaration, type Lifecycle } from "./declaration.ts";
import { type QueueOptions, type SplitOptions, splitOptions } from "./definition.ts";
import type { ClaimOptions, QueueStats, VerifiedTask, Verifier, VerifyOptions } from "./queue-types.ts";
import { AddedTaskHandle, ChildHandle, describe, resultFrom } from "./task-handle.ts";
import { parseTasksOptions, type TasksOptions, type TasksPage } from "./tasks-options.ts";
import { carryTrace } from "./trace.ts";

/**
 * The handle of a queue, which `dibs.queue()` returns: add, claim, work, verify, statistics. It encodes and checks
 * what the user passes, and calls the port (core/port.ts).
 */

/** Most tasks are added without options: then nothing is parsed. */
const NO_OPTIONS = Object.freeze({});

/** What a handle needs from its Dibs. */
export interface Owner {
  /** @internal */
  readonly port: Port;
  /** @internal The worker name of manual claims without one. */
  readonly defaultWorker: string;
  /** @internal */
  startWorker(queues: WorkerQueue[], handler: never, options: ReturnType<typeof resolveWork>): Worker;
  /** @internal Logs a warning the first time that it is given. */
  warnOnce(message: string): void;
}

/** A named line of tasks. Creating the handle makes no call; the first operation sends its policy to the store. */
export class Queue<In = unknown, Out = unknown, Data = Json<In>>
  implements AddTarget<In, PartOptions>, SpawnTarget<In, SpawnOptions, ChildHandle<Json<Out>>>, WorkerQueue
{
  readonly name: string;
  readonly dead: DeadLetters;
  readonly #owner: Owner;
  readonly #port: Port;
  readonly #options: SplitOptions;
  readonly #lifecycle: Lifecycle;
  readonly #declaration: Declaration;
  readonly #order = new CallOrder();

  constructor(owner: Owner, name: string, options: QueueOptions = {}, lifecycle?: Lifecycle) {
    this.name = checkQueueName(name);
    checkObject(options, "The options of a queue");
    this.#owner = owner;
    this.#port = owner.port;
    this.#options = splitOptions(options);
    this.dead = new DeadLetters(this.#port, name);
    this.#lifecycle = lifecycle ?? {
      declare: (policy) => this.#port.declare(name, policy),
      drop: () => this.#port.drop(name),
      isNeeded: (policy) => Object.keys(policy).length > 0,
    };
    this.#declaration = new Declaration({
      ...{ queue: name, policy: this.#options.policy, lifecycle: this.#lifecycle },
      warnOnce: (message) => owner.warnOnce(message),
    });
  }

  /** Resolves when the queue exists with this policy. No operation needs to wait for it. */
  get ready(): Promise<void> {
    return this.declare();
  }

  /** @internal Sends the policy, once. */
  declare(): Promise<void> {
    return this.#declaration.send();
  }

  /**
   * @internal Sends the policy as declare() does, for other ways to add. Without a policy, the first task creates the
   * queue.
   */
  declareIfNeeded(): Promise<void> {
    return this.#declaration.sendIfNeeded();
  }

  // ── Add work ────────────────────────────────────────────────────────────────────────────────────────────

  async add(data: Payload<In>, options: AddOptions = NO_OPTIONS): Promise<AddedTaskHandle<Json<Out>>> {
    // Index access: destructuring would create an iterator per task.
    const added = await this.#addAll([this.#encode(data, options)], options.tx);
    return new AddedTaskHandle(this.#port, added[0]!, this.#options.encodeData);
  }

  /** All of them or none. */
  async addMany(
    tasks: Item<In>[],
    options: AddManyOptions = NO_OPTIONS,
  ): Promise<AddedTaskHandle<Json<Out>>[]> {
    checkManyOptions(options);
    if (!Array.isArray(tasks))
      throw invalid(`addMany() takes an array of { data, …options }; got ${show(tasks)}.`);
    const encoded = tasks.map((task, index) => {
      try {
        checkObject(task, "A task");
        if (!("data" in task)) {
          throw invalid(`A task of addMany is an object with its payload in \`data\`; got ${show(task)}.`);
        }
        const { data, ...own } = task;
        refuseTx(own, TX_OF_MANY);
        return this.#encode(data, own);
      } catch (error) {
        throw atIndex(error, index);
      }
    });
    const named = encoded.map((task, index) =>
      task instanceof Promise ? task.catch((error: unknown) => Promise.reject(atIndex(error, index))) : task,
    );
    const added = await this.#addAll(named, options.tx);
    return added.map((task) => new AddedTaskHandle(this.#port, task, this.#options.encodeData));
  }

  /** Only a type: see AddTarget. */
  "~takes"?(data: In, options?: PartOptions): void;

  /** @internal Checks and encodes, and stores nothing: for `task.add`. */
  async prepare(data: In, options: PartOptions = {}): Promise<NewTask> {
    refuseTx(options, TX_OF_ACK);
    return carryTrace(await this.#encode(data, options));
  }

  /** Only a type: see SpawnTarget. */
  "~spawns"?(data: In, options?: SpawnOptions): ChildHandle<Json<Out>>;

  /** @internal */
  childHandle(spawned: SpawnedTask, name: string | null): ChildHandle<Json<Out>> {
    return new ChildHandle(this.#port, spawned, name, this.#options.encodeData);
  }

  #encode(data: unknown, options: AddOptions): NewTask | Promise<NewTask> {
    const rest =
      options === NO_OPTIONS ? NO_OPTIONS : parseAddOptions(options, () => this.#port.clock.read().wall);
    const encoded = this.#options.encodeData(data);
    if (encoded instanceof Promise)
      return encoded.then((text) => ({ queue: this.name, data: text, ...rest }));
    if (rest === NO_OPTIONS) return { queue: this.name, data: encoded };
    return { queue: this.name, data: encoded, ...rest };
  }

  // This and what it calls are not async and create no closures: each costs a promise or an object per task, and the
  // garbage of a hundred thousand tasks blocks the caller's event loop.
  #addAll(tasks: (NewTask | Promise<NewTask>)[], tx?: unknown): Promise<AddedTask[]> {
    if (this.#order.isBusy || tasks.some(isPromise)) return this.#addInOrder(tasks, tx);
    return this.#send(tasks as NewTask[], tx);
  }

  #addInOrder(tasks: (NewTask | Promise<NewTask>)[], tx: unknown): Promise<AddedTask[]> {
    return this.#order.run(async () => this.#send(await Promise.all(tasks.map(async (task) => task)), tx));
  }

  #send(tasks: NewTask[], tx: unknown): Promise<AddedTask[]> {
    const within = tx === undefined ? undefined : { tx };
    return this.#declaration.isSent ? this.#port.add(tasks, within) : this.#sendWithPolicy(tasks, within);
  }

  #sendWithPolicy(tasks: NewTask[], within: { tx: unknown } | undefined): Promise<AddedTask[]> {
    return this.#declaration.with(() => this.#port.add(tasks, within));
  }

  // ── Do work ─────────────────────────────────────────────────────────────────────────────────────────────

  work(handler: Handler<Data, Out>, options?: WorkOptions<Data, Out>): Worker {
    checkHandler(handler);
    return this.#owner.startWorker([this], handler as never, resolveWork(options));
  }

  /** The handler gets up to `max` tasks at a time. Each is settled separately. */
  workBatch(handler: BatchHandler<Data, Out>, options?: WorkBatchOptions<Data, Out>): Worker {
    checkHandler(handler);
    return this.#owner.startWorker([this], handler as never, resolveWorkBatch(options));
  }

  /**
   * Verifies results before they count. From now on, in all processes, the result of a handler of this queue and the
   * tasks that it adds are stored until a verifier has accepted them. `queue.configure({ verified: false })` ends that.
   */
  verify(check: Verifier<Data, Json<Out>>, options: VerifyOptions = {}): Worker {
    if (typeof check !== "function") throw invalid(`verify() takes a function first; got ${show(check)}.`);
    const { steps = "clear", ...work } = options;
    if (steps !== "clear" && steps !== "keep")
      throw invalid(`steps of verify() is "clear" or "keep"; got ${show(steps)}.`);
    const decide = (task: TaskRecord, result: Body | null) =>
      check(describe(task) as VerifiedTask<Data>, resultFrom(result) as Json<Out>);
    const verify = verifierOf(this.#port, decide, steps === "keep");
    const queue = {
      name: verificationQueue(this.name),
      // Declare without an await, so that the next task that is added is verified.
      declare: async () => {
        const { policy } = this.#options;
        const verified = { verified: true };
        // A new queue gets both declarations in one call: a caller that may only create queues could not send the
        // second one.
        const created = this.#port.declare(this.name, { ...policy, ...verified }, { create: true });
        // A normal declaration: it does not override an operator who has ended verification since.
        const declared = policy.verified === true ? created : this.#port.declare(this.name, verified);
        const [, inForce] = await Promise.all([created, declared, this.declareIfNeeded()]);
        this.#declaration.compare(verified, inForce);
      },
      encodeResult: () => null,
    };
    return this.#owner.startWorker([queue], verify as never, resolveWork(work));
  }

  /** Claims tasks manually. The claims last for their lease, and are settled one by one. */
  async claim(options: ClaimOptions = {}): Promise<Claim<Data, Out>[]> {
    checkObject(options, "The options of claim");
    checkNames(options, ["max", "lease", "wait", "worker", "signal"], "claim");
    const request = {
      queues: [this.name],
      max: options.max ?? 1,
      worker: options.worker ?? this.#owner.defaultWorker,
      wait: parseDuration(options.wait ?? 0, "wait"),
      lease: options.lease === undefined ? undefined : parseDuration(options.lease, "lease", 1),
      signal: options.signal,
    };
    const { tasks } = await this.#declaration.with(() => this.#port.claim(request));
    return tasks.map((task) => new Claim<Data, Out>(this.#port, task, this.encodeResult, this.nextCost));
  }

  /** @internal For a stage whose next stage computes its cost from its input. */
  nextCost: NextCost | undefined;

  /** @internal */
  readonly encodeResult: EncodeResult = (result) =>
    result === undefined && !this.#options.validatesResult ? null : this.#options.encodeResult(result);

  // ── Operate ─────────────────────────────────────────────────────────────────────────────────────────────

  async stats(): Promise<QueueStats> {
    const [stored, workers] = await this.#declaration.with(() =>
      Promise.all([
        this.#port.stats(this.name),
        everyItem((page) => this.#port.workers({ ...page, queue: this.name })),
      ]),
    );
    const { heldBack, ...stats } = stored;
    const until = heldBack && heldBack.until !== null ? new Date(heldBack.until) : null;
    return { ...stats, heldBack: heldBack && { by: heldBack.by, until }, advice: advise(stored, workers) };
  }

  /** Changes the policy now, whatever was declared. */
  async configure(options: QueuePolicyOptions): Promise<QueuePolicy> {
    const policy = parsePolicy(options);
    return this.#declaration.with(() => this.#port.declare(this.name, policy, { force: true }));
  }

  async pause(): Promise<void> {
    await this.#declaration.with(() => this.#port.pause(this.name, true));
  }

  async resume(): Promise<void> {
    await this.#declaration.with(() => this.#port.pause(this.name, false));
  }

  /**
   * Ends a hold (`Retry` with `key: true`, after another system's limit was met): of a group or, without a `groupKey`,
   * of the queue. Resolves with whether there was one.
   */
  async unhold(groupKey?: string): Promise<boolean> {
    return this.#declaration.with(() => this.#port.unhold(this.name, groupKey));
  }

  /** Removes all tasks that wait for a worker, a due time or a signal. Claimed and verifying tasks stay. */
  async purge(): Promise<{ count: number }> {
    return { count: await this.#declaration.with(() => this.#port.purge(this.name)) };
  }

  /** Removes the queue with everything in it. Claims on its tasks are lost. */
  async delete(): Promise<void> {
    await this.#lifecycle.drop();
    this.#declaration.forget();
  }

  /**
   * A page of tasks: of one state, of those that match, or both. It ends at its limit, or at about 4 MiB. Payloads and
   * results above 1 KiB are shortened and marked by `truncated`; `payloads: "full"` returns them complete. A search by
   * group or headers compares at most 5,000 tasks per page: `searched` says how many, and `next` continues.
   */
  async tasks(options: TasksOptions): Promise<TasksPage> {
    const query = { queue: this.name, ...parseTasksOptions(options) };
    const { tasks, next, searched } = await this.#declaration.with(() => this.#port.list(query));
    return { tasks: tasks.map(describe), next, ...(searched !== undefined && { searched }) };
  }

  /**
   * Cancels, promotes, changes or runs again every task that matches, in batches of 200. Tasks that are added after it
   * began are left alone. Resolves with how many were changed, and how many were not, because their state changed
   * meanwhile or they already had the requested values.
   */
  async changeAll(change: AllChange, options: ChangeAllOptions = {}): Promise<BulkProgress> {
    const { encodeData: encode } = this.#options;
    return changeAllOf({ port: this.#port, queue: this.name, encode }, change, options);
  }
}

export function checkHandler(handler: unknown, verb = "work", place = "first"): void {
  if (typeof handler !== "function")
    throw invalid(`${verb}() takes a handler function ${place}; got ${show(handler)}.`);
}

function isPromise(value: unknown): boolean {
  return value instanceof Promise;
}

function atIndex(error: unknown, index: number): unknown {
  if (isDibsError(error)) error.message = `Task ${index} of the batch: ${error.message}`;
  return error;
}

refuseSurplus(Queue, "queue", {
  calls: { work: "handler, options", workBatch: "handler, options", verify: "check, options" },
  promises: {
    add: "data, options",
    addMany: "tasks, options",
    claim: "options",
    stats: "",
    configure: "options",
    pause: "",
    resume: "",
    unhold: "groupKey",
    purge: "",
    delete: "",
    tasks: "options",
    changeAll: "change, options",
  },
});
