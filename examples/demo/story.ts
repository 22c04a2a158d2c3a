// Turns the events of the store into what the screen shows: rates, the claims of each worker, and news as text.

import type { Dibs, DibsEvent, QueueStats } from "../../src/index.ts";
import type { Added, Job } from "./queue.ts";

export interface Tally {
  done: number;
  failed: number;
  /** Ids of the tasks it holds, the earliest first. */
  holds: Set<string>;
}

const NEWS_KEPT = 50;
/** Seconds shown by the sparklines. */
export const SECONDS_SHOWN = 24;
/** Frequent news of one kind is shown once in so many seconds. The figures include the rest. */
const PAUSE_S = { dead: 8, elsewhere: 3 };

export class Story {
  readonly #started = performance.now();
  readonly news: { at: number; text: string }[] = [];
  readonly tallies = new Map<string, Tally>();
  /** Per second, since the start. */
  readonly added: number[] = [];
  readonly done: number[] = [];
  stats: QueueStats | undefined;
  /** Of the tasks that `add` returned. */
  readonly known = new Map<string, Job>();
  /** Done more than once. There must be none. */
  doubled = 0;
  readonly #doneIds = new Set<string>();
  /** The worker that failed a task last, for tasks that wait for another worker. */
  readonly #failedBy = new Map<string, { worker: string; crashed: boolean }>();
  readonly #lastNews = new Map<string, number>();
  #onNews: (text: string) => void = () => {};

  get seconds(): number {
    return (performance.now() - this.#started) / 1_000;
  }

  /** Tasks that `add` returned and that the store does not have in any state. There must be none. */
  get lost(): number {
    if (!this.stats) return 0;
    const stored = Object.values(this.stats.depth).reduce((sum, count) => sum + count, 0);
    return Math.max(0, this.#knownAtStats - stored);
  }
  #knownAtStats = 0;

  onNews(listener: (text: string) => void): void {
    this.#onNews = listener;
  }

  tell(text: string): void {
    this.news.push({ at: this.seconds, text });
    if (this.news.length > NEWS_KEPT) this.news.shift();
    this.#onNews(text);
  }

  hearOf({ ids, jobs }: Added): void {
    ids.forEach((id, index) => this.known.set(id, jobs[index]!));
  }

  async look(queue: { stats(): Promise<QueueStats> }): Promise<void> {
    const known = this.known.size;
    this.stats = await queue.stats();
    this.#knownAtStats = known;
  }

  async follow(dibs: Dibs, signal: AbortSignal): Promise<void> {
    for await (const event of dibs.events({ signal })) this.#take(event);
  }

  nameOf(id: string): string {
    const job = this.known.get(id);
    return job ? `${job.kind} ${job.number}` : `task …${id.slice(-6)}`;
  }

  tally(worker: string): Tally {
    const tally = this.tallies.get(worker) ?? { done: 0, failed: 0, holds: new Set<string>() };
    this.tallies.set(worker, tally);
    return tally;
  }

  #take(event: DibsEvent): void {
    if (event.type === "gap") return this.tell(`${event.missed} events were missed`);
    if (!("taskId" in event)) return;
    const id = event.taskId;
    // A worker's id is its name and a number.
    const worker = event.worker?.split("#")[0];
    const tally = worker === undefined ? undefined : this.tally(worker);
    if (event.type === "task.claimed") tally?.holds.add(id);
    else if (event.type !== "task.progress") tally?.holds.delete(id);
    switch (event.type) {
      case "task.added":
        return count(this.added, this.seconds);
      case "task.done":
        count(this.done, this.seconds);
        tally!.done++;
        if (this.#doneIds.has(id)) this.doubled++;
        this.#doneIds.add(id);
        return this.#cameRight(id, worker!);
      case "task.failed":
        tally!.failed++;
        this.#failedBy.set(id, { worker: worker!, crashed: event.detail?.startsWith("LeaseLost") ?? false });
        return;
      case "task.dead":
        tally!.failed++;
        this.#failedBy.delete(id);
        return this.#tellSome(
          "dead",
          `${this.nameOf(id)} is a dead letter: it failed ${event.attempt} times`,
        );
      case "task.claimed":
        return this.#cameBack(id, worker!);
      default:
        return;
    }
  }

  #cameBack(id: string, worker: string): void {
    const failed = this.#failedBy.get(id);
    if (failed?.crashed)
      this.tell(`${this.nameOf(id)}, which ${failed.worker} held, came back: ${worker} has it`);
  }

  #cameRight(id: string, worker: string): void {
    const failed = this.#failedBy.get(id);
    this.#failedBy.delete(id);
    if (!failed || failed.crashed) return;
    this.#tellSome("elsewhere", `${failed.worker} failed at ${this.nameOf(id)}; ${worker} did it`);
  }

  #tellSome(sort: keyof typeof PAUSE_S, text: string): void {
    if (this.seconds - (this.#lastNews.get(sort) ?? Number.NEGATIVE_INFINITY) < PAUSE_S[sort]) return;
    this.#lastNews.set(sort, this.seconds);
    this.tell(text);
  }
}

function count(buckets: number[], seconds: number): void {
  const second = Math.floor(seconds);
  while (buckets.length <= second) buckets.push(0);
  buckets[second]!++;
}
