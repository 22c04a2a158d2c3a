import type { Measured } from "../core/commit.ts";
import type { ClaimResult, SettleCall } from "../core/task/claim-call.ts";
import type { Port } from "../core/port.ts";
import type { AddedTask, TaskState } from "../core/task/task.ts";
import type { Clock } from "../core/time/clock.ts";
import { Counter, Gauge, Histogram, type Spread } from "./series.ts";

/** Queues with their own labels. Above that, they share one label. */
const MOST_QUEUES = 1_000;
/** Claims whose duration is measured. Those that are never settled are dropped, the oldest first. */
const MOST_CLAIMS = 100_000;
const OPERATIONS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000];
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3_600];

/** Calls whose duration is measured. */
type Verb = "add" | "publish" | "settle";

/** The series of one queue. */
interface QueueFigures {
  queue: string;
  added: { count: number };
  claimed: { count: number };
  /** Settled by an ack and done, as nearly every task is; created by the first one. */
  acked: { count: number } | undefined;
  wait: Spread;
  service: Spread;
}

/** When tasks of one queue were claimed. */
interface Claimed {
  of: QueueFigures;
  at: number;
}

/**
 * Counts what passes through this process, and reads what is in the store on each scrape. Several processes on one store
 * each count their own share, and all show the same depths. For `dibs.metrics()` and for the server.
 */
export class Metrics {
  #clock: Clock | undefined;
  readonly #series: { toText(): string }[] = [];
  /** By queue, so that counting a task takes one lookup. */
  readonly #figures = new Map<string, QueueFigures>();
  readonly #callsOf: Partial<Record<Verb, Spread>> = {};
  #others: QueueFigures | undefined;
  /** By fence. */
  readonly #claimedAt = new Map<number, Claimed>();
  readonly #added = this.#counter(
    "dibs_tasks_added_total",
    "Tasks added through this process: by calls, with acks and by schedules.",
    ["queue"],
  );
  readonly #claimed = this.#counter("dibs_tasks_claimed_total", "Tasks claimed through this process.", [
    "queue",
  ]);
  readonly #settled = this.#counter(
    "dibs_tasks_settled_total",
    "Claims settled through this process, by settlement and resulting state.",
    ["queue", "settlement", "state"],
  );
  readonly #wait = this.#histogram("dibs_task_wait_seconds", "From add to claim.", ["queue"]);
  readonly #service = this.#histogram("dibs_task_service_seconds", "From claim to settlement.", ["queue"]);
  readonly #calls = this.#histogram("dibs_call_seconds", "From a call to its commit.", ["verb"]);
  readonly #commits = this.#histogram(
    "dibs_commit_seconds",
    "From when a batch was sent to the store until it was on disk.",
    [],
  );
  readonly #operations = this.#histogram("dibs_commit_operations", "Operations per commit.", [], OPERATIONS);
  readonly #conflicts = this.#counter(
    "dibs_store_conflicts_total",
    "Batches that PostgreSQL rolled back because of other transactions, and that were retried.",
    ["kind"],
  );
  readonly #depth = this.#gauge("dibs_queue_depth", "Tasks in the store, by state.", ["queue", "state"]);
  readonly #oldest = this.#gauge("dibs_queue_oldest_seconds", "Age of the oldest task that is ready.", [
    "queue",
  ]);
  readonly #workers = this.#gauge("dibs_queue_workers", "Workers with heartbeats.", ["queue"]);
  readonly #paused = this.#gauge("dibs_queue_paused", "1 while the queue is paused.", ["queue"]);

  /** The same port, with calls counted. Calls are passed on at once. */
  measure(port: Port): Port {
    this.#clock = port.clock;
    return {
      ...port,
      spawn: (claim, children) => {
        const answer = port.spawn(claim, children);
        answer.then(
          (spawned) => this.#count(spawned),
          () => {},
        );
        return answer;
      },
      add: (tasks, options) => this.#timed("add", port.add(tasks, options), (added) => this.#count(added)),
      publish: (message, options) =>
        this.#timed("publish", port.publish(message, options), (added) => this.#count(added)),
      claim: (call) => {
        const answer = port.claim(call);
        answer.then(
          (result) => this.#recordClaims(result),
          () => {},
        );
        return answer;
      },
      settle: (claim, call, options) =>
        this.#timed("settle", port.settle(claim, call, options), ({ state }, now) =>
          this.#recordSettled(claim.fence, call.kind, state, now),
        ),
    };
  }

  /** Called by the store for commits, for what they added without a call, and for conflicts. */
  record(measured: Measured): void {
    if ("added" in measured) {
      for (const [queue, count] of Object.entries(measured.added))
        this.#figuresOf(queue).added.count += count;
      return;
    }
    if ("conflict" in measured) return this.#conflicts.inc({ kind: measured.conflict });
    const { operations, ms } = measured;
    this.#commits.observe({}, ms / 1_000);
    this.#operations.observe({}, operations);
  }

  /** In the text format of Prometheus. `others` are series of the caller's. */
  async scrape(store: Port, others: readonly { toText(): string }[] = []): Promise<string> {
    const { items: queues } = await store.queues({ limit: MOST_QUEUES });
    const stats = await Promise.all(queues.map(({ name }) => store.stats(name)));
    for (const gauge of [this.#depth, this.#oldest, this.#workers, this.#paused]) gauge.reset();
    for (const { queue, depth, oldestAge, workers, paused } of stats) {
      for (const [state, count] of Object.entries(depth)) this.#depth.set({ queue, state }, count as number);
      this.#oldest.set({ queue }, (oldestAge ?? 0) / 1_000);
      this.#workers.set({ queue }, workers);
      this.#paused.set({ queue }, paused ? 1 : 0);
    }
    return [...this.#series, ...others].map((series) => series.toText()).join("");
  }

  #timed<T>(verb: Verb, answer: Promise<T>, onAnswer: (value: T, now: number) => void): Promise<T> {
    const began = performance.now();
    const note = (value: T): void => {
      const now = performance.now();
      this.#calls.add((this.#callsOf[verb] ??= this.#calls.of({ verb })), (now - began) / 1_000);
      onAnswer(value, now);
    };
    answer.then(note, ignore);
    return answer;
  }

  #count(added: AddedTask[]): void {
    for (const { queue, existing } of added) if (!existing) this.#figuresOf(queue).added.count++;
  }

  #figuresOf(name: string): QueueFigures {
    const known = this.#figures.get(name);
    if (known) return known;
    // A counter is never removed: queues that come and go must not fill the memory with their names.
    if (this.#figures.size >= MOST_QUEUES) return (this.#others ??= this.#makeFigures("(others)"));
    const figures = this.#makeFigures(name);
    this.#figures.set(name, figures);
    return figures;
  }

  #makeFigures(queue: string): QueueFigures {
    return {
      queue,
      added: this.#added.of({ queue }),
      claimed: this.#claimed.of({ queue }),
      acked: undefined,
      wait: this.#wait.of({ queue }),
      service: this.#service.of({ queue }),
    };
  }

  #recordClaims({ tasks }: ClaimResult): void {
    const { wall } = this.#clock!.read();
    const now = performance.now();
    let claimed: Claimed | undefined;
    for (const { queue, fence, createdAt } of tasks) {
      // Tasks of a queue mostly follow each other, and share this.
      if (claimed?.of.queue !== queue) claimed = { of: this.#figuresOf(queue), at: now };
      claimed.of.claimed.count++;
      this.#wait.add(claimed.of.wait, Math.max(0, wall - createdAt) / 1_000);
      this.#claimedAt.set(fence, claimed);
      if (this.#claimedAt.size > MOST_CLAIMS) this.#claimedAt.delete(this.#claimedAt.keys().next().value!);
    }
  }

  /** A claim from before a restart is unknown here. The queue name that its holder gives is not trusted as a label. */
  #recordSettled(fence: number, kind: SettleCall["kind"], state: TaskState, now: number): void {
    const claimed = this.#claimedAt.get(fence);
    if (!claimed) return this.#settled.inc({ queue: "unknown", settlement: kind, state });
    const { of, at } = claimed;
    const { queue } = of;
    if (kind === "ack" && state === "done")
      (of.acked ??= this.#settled.of({ queue, settlement: kind, state })).count++;
    else this.#settled.inc({ queue, settlement: kind, state });
    this.#claimedAt.delete(fence);
    this.#service.add(of.service, (now - at) / 1_000);
  }

  #counter<Label extends string>(name: string, help: string, labelNames: Label[]): Counter<Label> {
    const counter = new Counter(name, help, labelNames);
    this.#series.push(counter);
    return counter;
  }

  #gauge<Label extends string>(name: string, help: string, labelNames: Label[]): Gauge<Label> {
    const gauge = new Gauge(name, help, labelNames);
    this.#series.push(gauge);
    return gauge;
  }

  #histogram<Label extends string>(
    name: string,
    help: string,
    labelNames: Label[],
    buckets: number[] = SECONDS,
  ): Histogram<Label> {
    const histogram = new Histogram(name, help, labelNames, buckets);
    this.#series.push(histogram);
    return histogram;
  }
}

function ignore(): void {}
