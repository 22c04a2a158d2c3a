import { setTimeout as sleep } from "node:timers/promises";
import { invalid, isDibsError, ontoItself } from "../core/errors.ts";
import { byteLength } from "../core/limits.ts";
import { checkNames, checkObject } from "../core/options.ts";
import { DEFAULT_POLICY, type QueuePolicy, uselessWeight } from "../core/policy.ts";
import type { Port, QueueSummary } from "../core/port.ts";
import { checkQueueName } from "../core/queue-name.ts";
import { show } from "../core/show.ts";
import type { TravellingTask } from "../core/task.ts";
import { verifiedQueue } from "../core/verification.ts";
import { Dibs } from "./dibs.ts";
import { open } from "./open.ts";

export interface MoveOptions {
  /** Only these; all of them unless set. */
  queues?: string[] | undefined;
  /** Go on when nothing is left, and move what producers still add, until `signal`. */
  follow?: boolean | undefined;
  /** Stops after the batch that is under way. */
  signal?: AbortSignal | undefined;
  /** Told after every batch. */
  onProgress?: ((progress: { queue: string; moved: number }) => void) | undefined;
}

export interface Moved {
  /** By this call. */
  moved: number;
  /** What is still in the store that was moved from: nothing, unless the call was stopped. */
  left: number;
  queues: MovedQueue[];
}

export interface MovedQueue {
  name: string;
  moved: number;
  /** In the store that it was moved to, where it was new: as it was in the other. */
  paused: boolean;
}

/** What runs in the store that is left is waited for: its retries are to be moved too. */
const LOOK_EVERY_MS = 200;
/** A batch is one commit in each store: not so large that others would wait for it. */
const MOST_TASKS = 500;
const ENOUGH_BYTES = 4 * 1024 * 1024;

/**
 * Moves all tasks of a store to another, while producers and workers go on: `move("work.db", "postgres://…")`. The
 * queues are paused in the store they leave; what runs there ends there, and is waited for. May be interrupted at any
 * moment and run again: nothing is lost or doubled.
 */
export async function move(
  from: string | Dibs,
  to: string | Dibs,
  options: MoveOptions = {},
): Promise<Moved> {
  checkOptions(options);
  checkStore(from);
  checkStore(to);
  const opened: Dibs[] = [];
  const portOf = async (store: string | Dibs): Promise<Port> => {
    if (store instanceof Dibs) return store.port;
    const dibs = await open(store);
    opened.push(dibs);
    return dibs.port;
  };
  try {
    return await new Mover(await portOf(from), await portOf(to), options).run();
  } finally {
    for (const dibs of opened) await dibs.close();
  }
}

function checkStore(store: unknown): void {
  if (store instanceof Dibs || (typeof store === "string" && store !== "")) return;
  throw invalid(`move() takes two stores, each an address or what open() answered; got ${show(store)}.`);
}

function checkOptions(options: MoveOptions): void {
  checkObject(options, "The options of move");
  checkNames(options, ["queues", "follow", "signal", "onProgress"], "move");
  if (options.queues !== undefined && !Array.isArray(options.queues))
    throw invalid(`queues must be an array of names; got ${show(options.queues)}.`);
  options.queues?.forEach(checkQueueName);
  options.queues?.forEach((name, _, names) => {
    const judged = verifiedQueue(name);
    if (judged !== undefined && !names.includes(judged))
      throw invalid(`Queue "${name}" asks for verdicts on what "${judged}" holds: move them together.`);
  });
  if (options.follow && !options.signal)
    throw invalid("follow goes on until its signal is aborted: give a signal.");
}

/**
 * Each batch is held in the one store, taken in by the other and removed from the first, in three commits. Killed
 * after any of them, the next run is handed the same batch again, and the other store knows what it has taken in.
 */
class Mover {
  readonly #from: Port;
  readonly #to: Port;
  readonly #options: MoveOptions;
  readonly #moved = new Map<string, number>();
  readonly #batch = new BatchSize();
  #store = 0;

  constructor(from: Port, to: Port, options: MoveOptions) {
    this.#from = from;
    this.#to = to;
    this.#options = options;
  }

  async run(): Promise<Moved> {
    const { signal, follow } = this.#options;
    this.#store = (await this.#to.arrive([])).store;
    if ((await this.#from.arrive([])).store === this.#store) throw ontoItself();
    for (;;) {
      const queues = await this.#queues();
      for (const queue of queues) await this.#moveQueue(queue);
      const left = await this.#left(queues);
      if (signal?.aborted || (left === 0 && !follow)) return this.#report(left);
      await sleep(LOOK_EVERY_MS, undefined, signal && { signal }).catch(() => {});
    }
  }

  async #queues(): Promise<QueueSummary[]> {
    const { queues } = this.#options;
    const all = await this.#from.queues();
    return queues ? all.filter(({ name }) => queues.includes(name)) : all;
  }

  async #moveQueue(queue: QueueSummary): Promise<void> {
    const { name } = queue;
    if (!this.#moved.has(name)) await this.#prepare(queue);
    while (!this.#options.signal?.aborted) {
      const count = await this.#moveBatch(name);
      if (count === 0) return;
      const moved = this.#moved.get(name)! + count;
      this.#moved.set(name, moved);
      this.#options.onProgress?.({ queue: name, moved });
    }
  }

  /**
   * From here on the queue hands nothing out where it was: a group's tasks would run in both stores. What the other
   * store has set for it already stays. Pausing makes it, so that this is the first step: a run that was interrupted
   * in between must not take the pause of the move for the queue's own.
   */
  async #prepare({ name, policy, paused }: QueueSummary): Promise<void> {
    const [there] = await this.#to.queues(name);
    if (!there && paused) await this.#to.pause(name, true);
    if (!there || isDefault(there.policy)) await this.#to.declare(name, changesOf(policy), { force: true });
    await this.#from.pause(name, true);
    this.#moved.set(name, 0);
  }

  async #moveBatch(queue: string): Promise<number> {
    const tasks = await this.#from.depart(queue, this.#store, this.#batch.limit);
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

  async #cancelThere(origins: string[]): Promise<void> {
    for (const origin of origins) {
      await this.#to.cancel(origin).catch((error: unknown) => {
        // It has ended there, longer ago than it is kept.
        if (!isDibsError(error) || error.code !== "TASK_NOT_FOUND") throw error;
      });
    }
  }

  async #left(queues: QueueSummary[]): Promise<number> {
    const stats = await Promise.all(queues.map(({ name }) => this.#from.stats(name)));
    return stats
      .flatMap(({ depth }) => Object.values(depth) as number[])
      .reduce((sum, count) => sum + count, 0);
  }

  async #report(left: number): Promise<Moved> {
    const there = new Map((await this.#to.queues()).map((queue) => [queue.name, queue.paused]));
    const queues = [...this.#moved].map(([name, moved]) => ({
      name,
      moved,
      paused: there.get(name) ?? false,
    }));
    return { moved: queues.reduce((sum, queue) => sum + queue.moved, 0), left, queues };
  }
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
