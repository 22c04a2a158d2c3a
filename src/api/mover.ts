import { setTimeout as sleep } from "node:timers/promises";
import { DibsError, isDibsError, ontoItself } from "../core/errors.ts";
import { byteLength } from "../core/limits.ts";
import { DEFAULT_POLICY, type QueuePolicy, uselessWeight } from "../core/policy.ts";
import type { Port, QueueSummary } from "../core/port.ts";
import { hasRuns, stagesPrefix } from "../core/run.ts";
import type { DepthByState, TravellingTask } from "../core/task.ts";
import type { Moved, MoveOptions } from "./move.ts";
import { type Movable, persist } from "./persist.ts";

/** What runs in the store that is left is waited for: its retries are to be moved too. */
const LOOK_EVERY_MS = 200;
/** A batch is one commit in each store: not so large that others would wait for it. */
const MOST_TASKS = 500;
const ENOUGH_BYTES = 4 * 1024 * 1024;

/**
 * Each batch is held in the one store, taken in by the other and removed from the first, in three commits. Killed
 * after any of them, the next run is handed the same batch again, and the other store knows what it has taken in.
 */
export class Mover {
  readonly #from: Movable;
  readonly #to: Movable;
  readonly #options: MoveOptions;
  readonly #moved = new Map<string, number>();
  readonly #batch = new BatchSize();
  #store = 0;

  constructor(from: Port, to: Port, options: MoveOptions) {
    this.#from = persist(from, options);
    this.#to = persist(to, options);
    this.#options = options;
  }

  async run(): Promise<Moved> {
    const { signal, follow } = this.#options;
    this.#store = (await this.#to.arrive([])).store;
    if ((await this.#from.arrive([])).store === this.#store) throw ontoItself();
    await this.#refuseRuns();
    for (;;) {
      const queues = await this.#queues();
      await this.#announce(queues);
      for (const { name } of queues) await this.#moveQueue(name);
      const { left, running } = await this.#left(queues);
      if (this.#isStopped || (left === 0 && !follow)) return this.#report(left);
      if (running > 0) this.#options.onWait?.({ running, error: null });
      await sleep(LOOK_EVERY_MS, undefined, signal && { signal }).catch(() => {});
    }
  }

  get #isStopped(): boolean {
    return this.#options.signal?.aborted ?? false;
  }

  async #queues(): Promise<QueueSummary[]> {
    const { queues } = this.#options;
    const all = await this.#from.queues();
    return queues ? all.filter(({ name }) => queues.includes(name)) : all;
  }

  /**
   * Before anything is changed: a run some of whose queues were paused could never end. So other stages of a pipeline are
   * looked at, too, where only some are to be moved.
   */
  async #refuseRuns(): Promise<void> {
    const moving = (await this.#queues()).map(({ name }) => name);
    const pipelines = new Set(moving.map(stagesPrefix).filter((prefix) => prefix !== ""));
    const names = (await this.#from.queues()).map(({ name }) => name);
    const looked = names.filter((name) => moving.includes(name) || pipelines.has(stagesPrefix(name)));
    const found = await Promise.all(
      looked.map((name) =>
        this.#from.depart(name, this.#store, 0).then(
          () => [],
          (error: unknown) => {
            if (isOfRuns(error)) return [name];
            throw error;
          },
        ),
      ),
    );
    const refused = found.flat();
    if (refused.length > 0) throw hasRuns(...refused);
  }

  /**
   * All queues, before the first task goes: what is published to the other store from now on is to find its subscriptions,
   * and what is paused to stay so. Once for each queue: what somebody changes there later stays.
   */
  async #announce(queues: QueueSummary[]): Promise<void> {
    const fresh = queues.filter(({ movedTo }) => movedTo !== this.#store);
    if (fresh.length === 0 || this.#isStopped) return;
    const there = new Map((await this.#to.queues()).map((queue) => [queue.name, queue]));
    const subscriptions = Map.groupBy(await this.#from.subscriptions(), ({ queue }) => queue);
    for (const queue of fresh) {
      await this.#carryPause(queue);
      const policy = there.get(queue.name)?.policy;
      if (!policy || isDefault(policy))
        await this.#to.declare(queue.name, changesOf(queue.policy), { force: true });
      for (const { pattern, group } of subscriptions.get(queue.name) ?? [])
        await this.#to.subscribe(pattern, group, {});
    }
  }

  /** An operator's, not that of a move. */
  async #carryPause({ name, paused, movedTo }: QueueSummary): Promise<void> {
    if (paused && movedTo === undefined) await this.#to.pause(name, true);
  }

  async #moveQueue(name: string): Promise<void> {
    if (this.#isStopped) return;
    await this.#hold(name);
    if (!this.#moved.has(name)) this.#moved.set(name, 0);
    while (!this.#isStopped) {
      const count = await this.#moveBatch(name);
      if (count === 0) return;
      const moved = this.#moved.get(name)! + count;
      this.#moved.set(name, moved);
      this.#options.onProgress?.({ queue: name, moved });
    }
  }

  /**
   * From here on the queue hands nothing out where it was: a group's tasks would run in both stores. The pause says that it
   * is a move's: whoever runs an interrupted one again must not take it for an operator's. That one is in the other store by
   * now.
   */
  async #hold(name: string): Promise<void> {
    const [queue] = await this.#from.queues(name);
    if (!queue || queue.movedTo === this.#store) return;
    await this.#carryPause(queue);
    await this.#from.pause(name, true, { movedTo: this.#store });
  }

  async #moveBatch(queue: string): Promise<number> {
    const tasks = await this.#depart(queue);
    if (tasks.length === 0) return 0;
    this.#batch.learn(tasks);
    await this.#to.arrive(tasks);
    await this.#cancelThere(tasks.filter((task) => task.cancelRequested).map((task) => task.origin));
    const { cancelled } = await this.#from.gone(
      tasks.map((task) => ({ id: task.origin, cancelled: task.cancelRequested })),
    );
    // Somebody cancelled them while they were on their way.
    await this.#cancelThere(cancelled);
    if (cancelled.length > 0) await this.#from.gone(cancelled.map((id) => ({ id, cancelled: true })));
    return tasks.length;
  }

  async #depart(queue: string): Promise<TravellingTask[]> {
    try {
      return await this.#from.depart(queue, this.#store, this.#batch.limit);
    } catch (error) {
      if (!isOfRuns(error)) throw error;
      await this.#letRunsEnd(queue);
      throw new DibsError(
        "UNSUPPORTED",
        `${hasRuns(queue).message} They began while it was being moved: its pipeline goes on here, and what was moved stays moved.`,
      );
    }
  }

  /** Hands out again what this pipeline has here, but for what an operator had paused: that is paused there. */
  async #letRunsEnd(queue: string): Promise<void> {
    const prefix = stagesPrefix(queue);
    const there = new Map((await this.#to.queues()).map(({ name, paused }) => [name, paused]));
    for (const { name, movedTo } of await this.#from.queues()) {
      if (movedTo === this.#store && stagesPrefix(name) === prefix)
        await this.#from.pause(name, there.get(name) ?? false);
    }
  }

  async #cancelThere(origins: string[]): Promise<void> {
    for (const origin of origins) {
      await this.#to.cancel(origin).catch((error: unknown) => {
        // It has ended there, longer ago than it is kept.
        if (!isDibsError(error) || error.code !== "TASK_NOT_FOUND") throw error;
      });
    }
  }

  async #left(queues: QueueSummary[]): Promise<{ left: number; running: number }> {
    const stats = await Promise.all(queues.map(({ name }) => this.#from.stats(name)));
    const sum = (countOf: (depth: DepthByState) => number): number =>
      stats.reduce((total, { depth }) => total + countOf(depth), 0);
    const all = (depth: DepthByState): number => Object.values(depth).reduce((a, b) => a + b, 0);
    return { left: sum(all), running: sum(({ claimed }) => claimed) };
  }

  async #report(left: number): Promise<Moved> {
    const there = new Map((await this.#to.queues()).map((queue) => [queue.name, queue.paused]));
    const queues = [...this.#moved].map(([name, moved]) => ({
      name,
      moved,
      paused: there.get(name) ?? false,
    }));
    const schedules = (await this.#from.schedules()).filter(({ task }) => this.#moved.has(task.queue));
    return {
      moved: queues.reduce((sum, queue) => sum + queue.moved, 0),
      left,
      queues,
      schedules: schedules.map(({ name }) => name),
    };
  }
}

/** Of all that `depart` says no to, only this is beyond what it can do. */
function isOfRuns(error: unknown): boolean {
  return isDibsError(error) && error.code === "UNSUPPORTED";
}

function isDefault(policy: QueuePolicy): boolean {
  return Object.keys(changesOf(policy)).length === 0;
}

/** Weights that make no difference, since something was changed after them, would be refused there. */
function changesOf({ groups, ...policy }: QueuePolicy): Partial<QueuePolicy> {
  const isChanged = ([name, value]: [string, unknown]): boolean =>
    JSON.stringify(value) !== JSON.stringify(DEFAULT_POLICY[name as keyof QueuePolicy]);
  const weight = uselessWeight(groups) === null ? groups.weight : {};
  const whole = { ...policy, groups: { ...groups, weight } };
  return Object.fromEntries(Object.entries(whole).filter(isChanged));
}

/** How many tasks a batch has: few where they are large, since all of it is in memory. */
class BatchSize {
  limit = 16;

  learn(tasks: TravellingTask[]): void {
    const bytes = tasks.reduce((sum, task) => sum + bytesOf(task), 0);
    if (bytes > ENOUGH_BYTES) this.limit = Math.max(1, Math.floor(this.limit / 2));
    else if (bytes < ENOUGH_BYTES / 4) this.limit = Math.min(MOST_TASKS, this.limit * 2);
  }
}

function bytesOf({ data, result, pending, steps }: TravellingTask): number {
  const bodies = [data, result, pending?.result, ...steps.map(({ value }) => value)];
  return bodies.reduce<number>((sum, body) => sum + byteLength(body ?? ""), 0);
}
