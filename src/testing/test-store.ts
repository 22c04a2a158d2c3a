import type { Dibs } from "../api/dibs.ts";
import { open } from "../api/open.ts";
import type { Queue } from "../api/queue.ts";
import type { TaskInfo } from "../api/task-handle.ts";
import { refuseSurplus } from "../core/input/arguments.ts";
import { invalid } from "../core/errors/errors.ts";
import type { Logger } from "../core/process/logger.ts";
import { checkNames } from "../core/input/options.ts";
import type { Handler } from "../worker/task.ts";
import { type Added, describeMatch, matches } from "./match.ts";
import { ManualClock } from "./manual-clock.ts";

/** A store for one test: in memory, on a clock that the test moves. `openTestStore()` opens it. */

export interface TestStoreOptions {
  /** The first moment of its clock; default 1 January 2026. */
  start?: Date | undefined;
  /** As for open(). */
  logger?: Logger | undefined;
}

export interface DrainOptions<Data = unknown, Out = unknown> {
  /** Handles the tasks. Default: the workers that the code under test has started. */
  handler?: Handler<Data, Out> | undefined;
  /** Also moves the clock to whatever may start later: delayed tasks, retries, and tasks that a limit holds back. */
  scheduled?: boolean | undefined;
}

/** How many tasks ended while the queue was drained. */
export interface Drained {
  done: number;
  dead: number;
}

/** States of tasks that were added and have not ended. */
const ADDED_STATES = ["ready", "waiting", "scheduled", "claimed"] as const;

export class TestStore implements AsyncDisposable {
  readonly dibs: Dibs;
  readonly clock: ManualClock;

  /** @internal Created by openTestStore(). */
  constructor(dibs: Dibs, clock: ManualClock) {
    this.dibs = dibs;
    this.clock = clock;
  }

  /** Resolves when no task of the queue can run now, including those that its tasks have added. */
  async drain<In, Out = unknown, Data = unknown>(
    queue: string | Queue<In, Out, Data>,
    options: DrainOptions<Data, Out> = {},
  ): Promise<Drained> {
    checkNames(options, ["handler", "scheduled"], "drain");
    const drained = this.#queue(queue);
    const before = await this.#ended(drained.name);
    const worker = options.handler && drained.work(options.handler as Handler);
    try {
      await worker?.ready;
      await this.#untilIdle(drained, options.scheduled ?? false);
    } finally {
      await worker?.stop();
    }
    const after = await this.#ended(drained.name);
    return { done: after.done - before.done, dead: after.dead - before.dead };
  }

  /** Tasks of the queue that were added and have not ended, in the order in which they were added. */
  async added(queue: string | { name: string }, match: Added = {}): Promise<TaskInfo[]> {
    const pages = ADDED_STATES.map((state) =>
      this.#queue(queue).tasks({ state, limit: 1_000, payloads: "full" }),
    );
    const tasks = (await Promise.all(pages)).flatMap((page) => page.tasks);
    return tasks.filter((task) => matches(task, match)).sort((a, b) => (a.id < b.id ? -1 : 1));
  }

  /** Returns the task that was added with these fields. Throws if there is none. */
  async assertAdded(queue: string | { name: string }, match: Added = {}): Promise<TaskInfo> {
    const [found] = await this.added(queue, match);
    if (found) return found;
    const others = (await this.added(queue)).slice(0, 5).map(({ data }) => JSON.stringify(data));
    const instead = others.length === 0 ? "It has no tasks." : `It has ${others.join(", ")}.`;
    throw new Error(`No task with ${describeMatch(match)} in queue ${this.#queue(queue).name}. ${instead}`);
  }

  /** Throws if a task was added with these fields. */
  async refuteAdded(queue: string | { name: string }, match: Added = {}): Promise<void> {
    const [found] = await this.added(queue, match);
    if (!found) return;
    const { name } = this.#queue(queue);
    throw new Error(`Task ${found.id} with ${JSON.stringify(found.data)} was added to queue ${name}.`);
  }

  async close(): Promise<void> {
    await this.dibs.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #queue(queue: string | { name: string }): Queue {
    return this.dibs.queue(typeof queue === "string" ? queue : queue.name);
  }

  /** Counted by settlements: ended tasks may be removed while the clock moves. */
  async #ended(queue: string): Promise<Drained> {
    const lines = (await this.dibs.metrics()).split("\n");
    const count = (state: string): number =>
      lines
        .filter((line) => line.startsWith(`dibs_tasks_settled_total{queue="${queue}",`))
        .filter((line) => line.includes(`state="${state}"`))
        .reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
    return { done: count("done"), dead: count("dead") };
  }

  async #untilIdle(queue: Queue, passesTime: boolean): Promise<void> {
    for (;;) {
      const { depth, workers, heldBack, paused } = await queue.stats();
      const isRunnable = depth.ready > 0 && heldBack === null && !paused;
      if (isRunnable && workers === 0) {
        throw invalid(
          `No worker serves queue "${queue.name}". Start one before drain(), or pass one: drain(queue, { handler }).`,
        );
      }
      if (isRunnable || depth.claimed > 0) await new Promise((resolve) => setImmediate(resolve));
      else if (passesTime && (depth.scheduled > 0 || (heldBack?.until && !paused)))
        await this.#passToNext(queue, heldBack?.until ?? null);
      else return;
    }
  }

  /** Moves the clock to the next task that is due, or to the moment at which a limit lets tasks start. */
  async #passToNext(queue: Queue, heldBackUntil: Date | null): Promise<void> {
    const { tasks } = await queue.tasks({ state: "scheduled", limit: 1_000 });
    const now = this.clock.read().wall;
    const moments = tasks.map(({ dueAt }) => dueAt!.getTime());
    if (heldBackUntil) moments.push(heldBackUntil.getTime());
    await this.clock.advance(moments.length === 0 ? 0 : Math.max(0, Math.min(...moments) - now));
  }
}

/** A store in memory for one test, on a clock that stands still until the test moves it. */
export async function openTestStore(options: TestStoreOptions = {}): Promise<TestStore> {
  checkNames(options, ["start", "logger"], "openTestStore");
  const clock = new ManualClock(options.start);
  const { logger } = options;
  // No other process changes the store. A poll every two seconds would make days take minutes.
  const dibs = await open(":memory:", { clock, poll: "1h", ...(logger && { logger }) });
  return new TestStore(dibs, clock);
}

refuseSurplus(TestStore, "store", {
  promises: {
    drain: "queue, options",
    added: "queue, match",
    assertAdded: "queue, match",
    refuteAdded: "queue, match",
    close: "",
  },
});
