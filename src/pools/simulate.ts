import { describeFlow, type Flow, FLOW_SLOT_MS, FLOW_WINDOW_MS, noFlow } from "../core/queue/flow.ts";
import { openingAt, type Window } from "../core/queue/window.ts";
import { decide, type Observed, type PoolPolicy } from "./decide.ts";
import { TimeHeap } from "./heap.ts";
import { arrivals, type Load, type ServiceModel, serviceTime } from "./load.ts";
import { RecentMost } from "./recent-most.ts";
import { type Random, seededRandom } from "./random.ts";
import { type Measurements, Recorder } from "./measurements.ts";

/**
 * Runs a pool in virtual time: arrivals, workers that start, execute tasks, fail and end, and the same decision as in a
 * real pool (decide.ts), with statistics that are as old and as coarse as those of a real queue. `dibs simulate` calls
 * it. Times are in milliseconds.
 */
export interface Scenario {
  load: Load;
  /** Instead of `load` and `service`: when each task is added, in order, and how long it takes. */
  tasks?: readonly { at: number; service: number }[];
  duration: number;
  service: ServiceModel;
  /** The share of attempts that fail. A failed task is tried again after `retryDelay`, up to `maxAttempts`. */
  failureRate: number;
  retryDelay: number;
  maxAttempts: number;
  /** From the start of a worker to its first claim. */
  startUp: number;
  /** How often the pool decides. */
  interval: number;
  /** A worker ends after each task, and another one starts. */
  drones: boolean;
  /** The queue's window, if it has one. Time 0 is midnight, UTC. */
  window: Window | null;
  seed: number;
}

export function simulate(scenario: Scenario, policy: PoolPolicy): Measurements {
  return new Simulation(scenario, policy).run();
}

interface SimulatedTask {
  addedAt: number;
  service: number;
  failures: number;
}

interface SimulatedWorker {
  startedAt: number;
  isUp: boolean;
  running: number;
}

type Happening =
  | { kind: "arrival" }
  | { kind: "tick" }
  | { kind: "up"; worker: SimulatedWorker }
  | { kind: "end"; worker: SimulatedWorker; task: SimulatedTask; startedAt: number }
  | { kind: "retry"; task: SimulatedTask };

class Simulation {
  readonly #scenario: Scenario;
  readonly #policy: PoolPolicy;
  readonly #heap = new TimeHeap<Happening>();
  readonly #arrivals: Iterator<number, unknown>;
  #arrived = 0;
  /** Separate streams: two policies get the same tasks, whatever they do with them. */
  readonly #services: Random;
  readonly #failures: Random;
  readonly #line: SimulatedTask[] = [];
  #head = 0;
  #workers: SimulatedWorker[] = [];
  readonly #flow = new Map<number, Flow>();
  #lastService: number | null = null;
  #grewAt: number | null = null;
  #shrankAt: number | null = null;
  readonly #recentNeed: RecentMost;
  readonly #recorder: Recorder;

  constructor(scenario: Scenario, policy: PoolPolicy) {
    this.#scenario = scenario;
    this.#policy = policy;
    const { seed, duration, load } = scenario;
    this.#arrivals =
      scenario.tasks?.map(({ at }) => at).values() ?? arrivals(load, duration, seededRandom(seed));
    this.#services = seededRandom(seed + 1);
    this.#failures = seededRandom(seed + 2);
    this.#recentNeed = new RecentMost(policy.downCooldown);
    this.#recorder = new Recorder(duration, policy.targetWait);
  }

  run(): Measurements {
    this.#expectArrival();
    this.#heap.push(0, { kind: "tick" });
    for (let next = this.#heap.pop(); next && next.at < this.#scenario.duration; next = this.#heap.pop()) {
      this.#recorder.advance(next.at, this.#depth, this.#workers.length);
      this.#happen(next.at, next.item);
    }
    const { duration } = this.#scenario;
    this.#recorder.advance(duration, this.#depth, this.#workers.length);
    const running = this.#workers.reduce((sum, worker) => sum + worker.running, 0);
    return this.#recorder.measurements({ left: this.#depth + running });
  }

  get #depth(): number {
    return this.#line.length - this.#head;
  }

  #happen(now: number, happening: Happening): void {
    switch (happening.kind) {
      case "arrival":
        this.#expectArrival();
        this.#flowAt(now).added++;
        this.#recorder.added();
        this.#line.push({
          addedAt: now,
          service: this.#serviceOfNext(),
          failures: 0,
        });
        return this.#startTasks(now);
      case "retry":
        this.#line.push(happening.task);
        return this.#startTasks(now);
      case "up":
        happening.worker.isUp = true;
        return this.#startTasks(now);
      case "end":
        return this.#end(now, happening);
      case "tick":
        this.#heap.push(now + this.#scenario.interval, happening);
        this.#resize(now);
        // The window may have opened.
        return this.#startTasks(now);
    }
  }

  #serviceOfNext(): number {
    const { tasks, service } = this.#scenario;
    return tasks?.[this.#arrived++]?.service ?? serviceTime(service, this.#services);
  }

  #expectArrival(): void {
    const next = this.#arrivals.next();
    if (!next.done) this.#heap.push(next.value, { kind: "arrival" });
  }

  #startTasks(now: number): void {
    while (this.#depth > 0 && this.#isOpen(now)) {
      const worker = this.#workers.find(({ isUp, running }) => isUp && running < this.#policy.concurrency);
      if (!worker) return;
      const task = this.#line[this.#head++]!;
      worker.running++;
      const waited = now - task.addedAt;
      this.#recorder.started(waited, task.failures === 0);
      const flow = this.#flowAt(now);
      flow.claimed++;
      flow.waitMs += waited;
      this.#heap.push(now + task.service, { kind: "end", worker, task, startedAt: now });
    }
    if (this.#head < COMPACT_AT) return;
    this.#line.splice(0, this.#head);
    this.#head = 0;
  }

  #isOpen(now: number): boolean {
    return this.#scenario.window === null || openingAt(this.#scenario.window, now).open;
  }

  #end(now: number, { worker, task, startedAt }: Happening & { kind: "end" }): void {
    const { failureRate, maxAttempts, retryDelay, drones, startUp } = this.#scenario;
    const flow = this.#flowAt(now);
    worker.running--;
    flow.serviceMs += now - startedAt;
    this.#recorder.worked(now - startedAt);
    if (failureRate > 0 && this.#failures() < failureRate) {
      flow.failed++;
      task.failures++;
      if (task.failures < maxAttempts) this.#heap.push(now + retryDelay, { kind: "retry", task });
      this.#recorder.failed(task.failures >= maxAttempts);
    } else {
      flow.done++;
      this.#lastService = now - startedAt;
      this.#recorder.done();
    }
    if (drones) {
      worker.isUp = false;
      this.#heap.push(now + startUp, { kind: "up", worker });
    }
    this.#startTasks(now);
  }

  #resize(now: number): void {
    const size = this.#workers.length;
    const decision = decide(this.#observe(now), this.#policy);
    this.#recentNeed.add(now, decision.needed);
    if (decision.size > size) {
      this.#grewAt = now;
      for (let count = size; count < decision.size; count++) this.#startWorker(now);
    } else if (decision.size < size) {
      this.#shrankAt = now;
      this.#endWorkers(size - decision.size);
    }
    if (decision.size !== size) this.#recorder.resized(now, size, decision);
  }

  #startWorker(now: number): void {
    const worker = { startedAt: now, isUp: false, running: 0 };
    this.#workers.push(worker);
    this.#heap.push(now + this.#scenario.startUp, { kind: "up", worker });
  }

  /** Idle ones only, the newest first. */
  #endWorkers(count: number): void {
    const idle = this.#workers.filter(({ running }) => running === 0);
    const ended = new Set(idle.slice(-count));
    this.#workers = this.#workers.filter((worker) => !ended.has(worker));
  }

  #observe(now: number): Observed {
    const { rates, serviceTime: measured } = describeFlow(this.#flowOfWindow(now), FLOW_WINDOW_MS);
    const { window } = this.#scenario;
    const opening = window && openingAt(window, now);
    const oldest = this.#line[this.#head];
    const live = this.#workers.filter(({ isUp }) => isUp);
    return {
      arrivalRate: rates.addedPerSecond + rates.failedPerSecond,
      serviceTime: measured ?? (this.#lastService === null ? null : this.#scenario.service.mean),
      depth: this.#depth,
      running: this.#workers.reduce((sum, { running }) => sum + running, 0),
      oldestAge: oldest ? now - oldest.addedAt : null,
      workers: {
        live: live.length,
        starting: this.#workers.length - live.length,
        busy: live.filter(({ running }) => running > 0).length,
      },
      sinceUp: this.#grewAt === null ? null : now - this.#grewAt,
      sinceDown: this.#shrankAt === null ? null : now - this.#shrankAt,
      recentNeed: this.#recentNeed.most(now),
      windowOpen: opening && opening.open,
      blockedFor: opening && !opening.open ? opening.until - now : 0,
      concurrencyLimit: null,
    };
  }

  /** As the engines count it. */
  #flowOfWindow(now: number): Flow {
    const since = Math.floor((now - FLOW_WINDOW_MS) / FLOW_SLOT_MS);
    const sum = noFlow();
    for (const [slot, flow] of this.#flow) {
      if (slot <= since) this.#flow.delete(slot);
      else for (const name of Object.keys(sum) as (keyof Flow)[]) sum[name] += flow[name];
    }
    return sum;
  }

  #flowAt(now: number): Flow {
    const slot = Math.floor(now / FLOW_SLOT_MS);
    let flow = this.#flow.get(slot);
    if (!flow) this.#flow.set(slot, (flow = noFlow()));
    return flow;
  }
}

/** Tasks that have left the line are removed from the array in bulk. */
const COMPACT_AT = 10_000;
