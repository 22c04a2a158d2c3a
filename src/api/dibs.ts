import { refuseSurplus } from "../core/input/arguments.ts";
import { randomBytes } from "node:crypto";
import { invalid } from "../core/errors/errors.ts";
import type { DibsEvent } from "../core/event/events.ts";
import type { Json } from "../core/input/json-type.ts";
import { everyItem } from "../core/answer/every-item.ts";
import { KeepAlive } from "../core/process/keep-alive.ts";
import type { Logger } from "../core/process/logger.ts";
import { checkNames } from "../core/input/options.ts";
import type { Port } from "../core/port.ts";
import type { QueueSummary } from "../core/answer/page.ts";
import { show } from "../core/errors/show.ts";
import type { WorkerRecord } from "../core/task/task.ts";
import { Metrics } from "../metrics/metrics.ts";
import { type AlertOptions, parseAlerts } from "../pools/alert-rules.ts";
import { Alerts } from "../pools/alerts.ts";
import type { Cap } from "../pools/cap.ts";
import { type PoolOptions, resolvePool } from "../pools/options.ts";
import { Pool } from "../pools/pool.ts";
import { FailureLog } from "../worker/failure-log.ts";
import { resolveWork, type ResolvedWork, type WorkOptions } from "../worker/options.ts";
import type { Handler, Task } from "../worker/task.ts";
import type { WorkerQueue } from "../worker/runner.ts";
import { Worker } from "../worker/worker.ts";
import { checkDefinition, type QueueDefinition, type QueueOptions } from "./definition.ts";
import { describePool, type PoolDecision, type PoolInfo } from "./pool-info.ts";
import { Pipeline } from "./pipeline.ts";
import { checkHandler, type Owner, Queue } from "./queue.ts";
import { RunHandle } from "./run-handle.ts";
import {
  type SubscribeOptions,
  Subscription,
  type SubscriptionInfo,
  type SubscriptionOptions,
  splitSubscribe,
} from "./subscription.ts";
import { describe, Schedule, type ScheduleInfo, type ScheduleTask, type ScheduleTimes } from "./schedule.ts";
import { traceHandler } from "./trace.ts";
import { Topic } from "./topic.ts";
import { checkTopicDefinition, type TopicDefinition, type TopicOptions } from "./topic-definition.ts";
import { TaskHandle } from "./task-handle.ts";

// The object that users hold: it makes the handles of queues, topics, pipelines, workers and pools.

export interface WorkerSummary extends Omit<WorkerRecord, "joinedAt"> {
  joinedAt: Date;
}

export interface QueueInfo extends Omit<QueueSummary, "createdAt"> {
  createdAt: Date;
}

/** How many different warnings are logged, each once. */
const MOST_WARNINGS = 1_000;

/** An open store. open() returns it. */
export class Dibs implements Owner, AsyncDisposable {
  /** @internal */
  readonly port: Port;
  /** @internal */
  readonly defaultWorker = `hand-${process.pid}#${randomBytes(4).toString("hex")}`;
  readonly #logger: Logger;
  readonly #failures: FailureLog;
  readonly #metrics: Metrics;
  readonly #workers = new Set<Worker>();
  readonly #pools = new Set<Pool>();
  readonly #alerts = new Set<Alerts>();
  readonly #listening = new Set<AbortController>();
  readonly #keepAlive = new KeepAlive();
  /** Definitions that are being sent to the store. */
  readonly #defining = new Set<Promise<void>>();
  readonly #warned = new Set<string>();
  #closing: Promise<void> | undefined;

  /** @internal Created by open(). */
  constructor(port: Port, logger: Logger, metrics = new Metrics()) {
    this.port = metrics.measure(port);
    this.#logger = logger;
    this.#metrics = metrics;
    this.#failures = new FailureLog(logger, port.clock);
  }

  queue<In, Out, Data>(definition: QueueDefinition<In, Out, Data>): Queue<In, Out, Data>;
  queue<In = unknown, Out = unknown>(name: string, options?: QueueOptions): Queue<In, Out>;
  queue(nameOrDefinition: string | QueueDefinition, options?: QueueOptions): Queue {
    if (typeof nameOrDefinition === "object" && nameOrDefinition !== null) {
      checkDefinition(nameOrDefinition);
      if (options !== undefined) throw hasOptions("queue");
      return new Queue(this, nameOrDefinition.name, nameOrDefinition.options);
    }
    return new Queue(this, nameOrDefinition, options);
  }

  topic<In, Data>(definition: TopicDefinition<In, Data>): Topic<In, Data>;
  topic<In = unknown>(name: string, options?: TopicOptions): Topic<In>;
  topic(nameOrDefinition: string | TopicDefinition, options?: TopicOptions): Topic {
    if (typeof nameOrDefinition === "object" && nameOrDefinition !== null) {
      checkTopicDefinition(nameOrDefinition);
      if (options !== undefined) throw hasOptions("topic");
      return new Topic(this, nameOrDefinition.topic, nameOrDefinition.options);
    }
    return new Topic(this, nameOrDefinition, options);
  }

  /** Starts a worker of a group that follows a pattern: `*` matches one word, `#` any number of words. */
  subscribe<Data = unknown, Out = unknown>(
    pattern: string,
    group: string,
    handler: Handler<Json<Data>, Out>,
    options?: SubscribeOptions<Json<Data>, Out>,
  ): Worker {
    checkHandler(handler, "subscribe", "third");
    const { work, subscription } = splitSubscribe(options);
    const queue = this.subscription(pattern, group, subscription);
    return this.startWorker([queue], handler as never, resolveWork(work));
  }

  /** The group itself: its queue with statistics and dead letters, whether or not it has workers. */
  subscription<Data = unknown, Out = unknown>(
    pattern: string,
    group: string,
    options?: SubscriptionOptions,
  ): Subscription<Data, Out> {
    return new Subscription(this, pattern, group, options);
  }

  /** Removes the group with all its tasks. Resolves with whether there was one. */
  async unsubscribe(pattern: string, group: string): Promise<boolean> {
    return this.port.unsubscribe(pattern, group);
  }

  /** All subscriptions, or those that a topic reaches, in the order in which they were created. */
  async subscriptions(options: { topic?: string | undefined } = {}): Promise<SubscriptionInfo[]> {
    checkNames(options, ["topic"], "subscriptions");
    const { topic } = options;
    const subscriptions = await everyItem((page) => this.port.subscriptions({ ...page, topic }));
    return subscriptions.map((each) => ({ ...each, createdAt: new Date(each.createdAt) }));
  }

  /** A pipeline: `.stage(name, handler)` defines a stage, `.add(input)` begins a run, `.work()` starts workers. */
  pipeline<In = unknown>(name: string): Pipeline<In> {
    return new Pipeline<In>(this, this.#logger, name);
  }

  /** A run of any pipeline. */
  run<Result = unknown>(id: string): RunHandle<Json<Result>> {
    return new RunHandle(this.port, id);
  }

  /**
   * Adds a task repeatedly: `when` gives the times, `what` the task. The schedule is stored, and each time one of the
   * processes that have the store open fires it. Repeating the same definition changes nothing; another one replaces
   * it. With only a name, returns the existing schedule.
   */
  schedule(name: string): Schedule;
  schedule<In = unknown>(name: string, when: ScheduleTimes, what: ScheduleTask<In>): Schedule;
  schedule(name: string, when?: ScheduleTimes, what?: ScheduleTask): Schedule {
    if ((when === undefined) !== (what === undefined)) {
      throw invalid(
        `schedule() takes when, as in { every: "10m" }, and what, as in { queue: "reports" }; give both, or only the name.`,
      );
    }
    const schedule = new Schedule(this, name, when, what);
    const { ready } = schedule;
    this.#defining.add(ready);
    const over = (): unknown => this.#defining.delete(ready);
    ready.then(over, (error: unknown) => {
      over();
      // If the caller does not await it, the log reports the failure.
      this.#logger.error(`Schedule ${name} could not be defined: ${(error as Error).message}`);
    });
    return schedule;
  }

  async schedules(): Promise<ScheduleInfo[]> {
    return (await everyItem((page) => this.port.schedules(page))).map(describe);
  }

  /**
   * Keeps the right number of workers for its queues: starts and ends processes as the load requires. Of all processes
   * with a pool of this name, one runs it and the others wait.
   */
  pool(options: PoolOptions): Pool {
    return this.startPool(options);
  }

  /** @internal With a cap that several pools share. */
  startPool(options: PoolOptions, cap?: Cap): Pool {
    const pool: Pool = new Pool(
      this.port,
      resolvePool(options),
      this.#logger,
      () => void this.#pools.delete(pool),
      cap,
    );
    this.#pools.add(pool);
    return pool;
  }

  /**
   * Evaluates rules about queues, and reports when one begins and ceases to apply: to the log, a webhook or a command.
   * Of all processes with alerts, one evaluates them.
   */
  alerts(options: AlertOptions): Alerts {
    const alerts: Alerts = new Alerts(
      this.port,
      parseAlerts(options),
      this.#logger,
      () => void this.#alerts.delete(alerts),
    );
    this.#alerts.add(alerts);
    return alerts;
  }

  /** All pools, of any process, with their sizes and reasons. */
  async pools(): Promise<PoolInfo[]> {
    return (await everyItem((page) => this.port.supervised("pool", page))).map(describePool);
  }

  /** The last decisions of a pool with their reasons, the newest first; a thousand are stored. */
  async poolDecisions(name: string, options: { limit?: number | undefined } = {}): Promise<PoolDecision[]> {
    checkNames(options, ["limit"], "poolDecisions");
    const decisions = await this.port.decisions("pool", name, options.limit ?? 50);
    return decisions.map((each) => ({ ...each, at: new Date(each.at) }));
  }

  task<Result = unknown>(id: string): TaskHandle<Json<Result>> {
    return new TaskHandle(this.port, id);
  }

  /**
   * One worker for several queues: takes from the first that has a task ("strict"), or from each in rotation ("fair").
   */
  work<Data = unknown, Result = unknown>(
    queues: (string | (WorkerQueue & Pick<Queue, "ready">) | QueueDefinition<never, never, never>)[],
    handler: Handler<Data, Result>,
    options?: WorkOptions<Data, Result>,
  ): Worker {
    if (!Array.isArray(queues) || queues.length === 0) {
      throw invalid(`work() takes an array of queues first, at least one; got ${show(queues)}.`);
    }
    if (typeof handler !== "function")
      throw invalid(`work() takes a handler function second; got ${show(handler)}.`);
    const handles = new Map(
      queues.map((queue) => this.#handleOf(queue)).map((handle) => [handle.name, handle]),
    );
    return this.startWorker([...handles.values()], handler as never, resolveWork(options));
  }

  #handleOf(queue: string | WorkerQueue | QueueDefinition<never, never, never>): WorkerQueue {
    if (queue instanceof Queue) return queue;
    if (typeof queue === "string") return this.queue(queue);
    if (typeof queue === "object" && queue !== null && "options" in queue) return this.queue(queue);
    throw invalid(`work() takes queue names, handles or definitions; got ${show(queue)}.`);
  }

  /** @internal */
  startWorker(queues: WorkerQueue[], handler: never, options: ResolvedWork): Worker {
    const worker: Worker = new Worker(
      this.port,
      queues,
      traceHandler<Task, unknown>(handler),
      options,
      this.#logger,
      this.#failures,
      () => {
        this.#workers.delete(worker);
      },
    );
    this.#workers.add(worker);
    return worker;
  }

  /** @internal */
  warnOnce(message: string): void {
    if (this.#warned.has(message) || this.#warned.size >= MOST_WARNINGS) return;
    this.#warned.add(message);
    this.#logger.warn(message);
  }

  async queues(): Promise<QueueInfo[]> {
    const queues = await everyItem((page) => this.port.queues(page));
    return queues.map((queue) => ({ ...queue, createdAt: new Date(queue.createdAt) }));
  }

  /** Workers that sent a heartbeat within their lease, in any process. */
  async workers(options: { queue?: string | undefined } = {}): Promise<WorkerSummary[]> {
    checkNames(options, ["queue"], "workers");
    const { queue } = options;
    const workers = await everyItem((page) => this.port.workers({ ...page, queue }));
    return workers.map((worker) => ({ ...worker, joinedAt: new Date(worker.joinedAt) }));
  }

  /**
   * What this process did and what is in the store, in the text format of Prometheus: return it from an HTTP endpoint of
   * yours. A server has /metrics.
   */
  async metrics(): Promise<string> {
    return this.#metrics.scrape(this.port);
  }

  /** Events from now on, of all processes. */
  events(options: { signal?: AbortSignal | undefined } = {}): AsyncIterableIterator<DibsEvent> {
    checkNames(options, ["signal"], "events");
    const stop = new AbortController();
    const stopNow = () => stop.abort();
    options.signal?.addEventListener("abort", stopNow, { once: true });
    if (options.signal?.aborted) stopNow();
    const pages = this.port.events(stop.signal);
    let events: readonly DibsEvent[] = [];
    let at = 0;
    this.#listening.add(stop);
    const end = () => {
      stopNow();
      options.signal?.removeEventListener("abort", stopNow);
      this.#listening.delete(stop);
    };
    const keepAlive = this.#keepAlive;
    return {
      async next() {
        while (at >= events.length || stop.signal.aborted) {
          const { done, value } = await keepAlive.during(pages.next());
          if (done) {
            end();
            return { done, value: undefined };
          }
          events = value.events;
          at = 0;
        }
        return { done: false, value: events[at++]! };
      },
      // Aborts first, so that a pending next() ends. The generator's own return() would wait for it.
      async return() {
        end();
        await pages.return?.();
        return { done: true, value: undefined };
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
  }

  /** Stops the pools and workers, lets calls in progress finish, and closes the store. */
  close(): Promise<void> {
    this.#closing ??= (async () => {
      await Promise.all([...this.#pools, ...this.#alerts].map((each) => each.stop()));
      await Promise.all([...this.#workers].map((worker) => worker.stop()));
      this.#failures.flush();
      for (const listening of this.#listening) listening.abort();
      await Promise.allSettled(this.#defining);
      await this.port.close();
    })();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function hasOptions(of: "queue" | "topic"): Error {
  return invalid(`dibs.${of}() takes options with a name; a definition has its own. Leave them out here.`);
}

refuseSurplus(Dibs, "dibs", {
  calls: {
    queue: "name, options",
    topic: "name, options",
    subscribe: "pattern, group, handler, options",
    subscription: "pattern, group, options",
    pipeline: "name",
    run: "id",
    schedule: "name, when, what",
    pool: "options",
    alerts: "options",
    task: "id",
    work: "queues, handler, options",
    events: "options",
  },
  promises: {
    unsubscribe: "pattern, group",
    subscriptions: "options",
    schedules: "",
    pools: "",
    poolDecisions: "name, options",
    queues: "",
    workers: "options",
    metrics: "",
    close: "",
  },
});
