import type { DibsEvent } from "../core/event/events.ts";
import type { Port } from "../core/port.ts";
import type { TaskRecord, WorkerRecord } from "../core/task/task.ts";
import { advise } from "../pools/advise.ts";
import type { EventTap } from "./event-tap.ts";
import { KneePoints } from "./knee-points.ts";
import type { KneePoint, LineCell, LiveWorker, QueueFrame } from "./live-frames.ts";
import { Moves, moveOf } from "./moves.ts";
import { RecentFlow } from "./recent-flow.ts";
import { Rounds } from "./rounds.ts";

/** The time between two readings of the state. It is longer if a reading takes long. */
const EVERY_MS = 500;
/** The pause between two readings, as a multiple of the time that one takes. */
const REST = 4;
/** A queue with at most so many ready tasks shows a cell for each of them; a longer one only for its first tasks. */
const MAX_CELLS = 400;
const HEAD_CELLS = 64;
const MAX_CLAIMED = 200;
const MAX_WORKERS = 100;
/** How long a lost worker is shown. */
const LOST_MS = 10_000;
/** The time over which the trend of the depth is computed. */
const TREND_MS = 30_000;
/** How many writes a page may be behind before it gets a gap. */
const STORED_WRITES = 50;

/** What was sent to all pages at one moment: lines of JSON. */
interface Write {
  number: number;
  lines: string[];
}

/**
 * The live picture of one queue, evaluated once for all pages that show it: its state, read from the store, and what
 * moved in between, from the events. live.ts creates it for the first page, and closes it after the last one.
 */
export class Picture {
  readonly queue: string;
  readonly #port: Port;
  readonly #rounds: Rounds;
  readonly #ends: (() => void)[] = [];
  readonly #moves = new Moves();
  readonly #flow: RecentFlow;
  readonly #knee: KneePoints;
  readonly #lost = new Map<string, { at: number; worker: LiveWorker }>();
  /** The lines of the next write, in the order of what they report: moves, a gap, moves after it. */
  #lines: string[] = [];
  /** Events that the next gap reports as missed. */
  #missed = 0;
  /** The workers of the last reading, by id. */
  #shown = new Map<string, LiveWorker>();
  /**
   * Tasks that, by the events since the last reading began, have left the line, and that no worker has any more. The
   * reading may be older than these events.
   */
  #leftLine = new Set<string>();
  #leftWorker = new Set<string>();
  /** The queue had more than MAX_CELLS ready tasks at the last reading. */
  #isLong = false;
  #depths: { at: number; ready: number }[] = [];
  #state: string | undefined;
  #hasNewState = false;
  #writes: Write[] = [];
  /** The number of the last write. */
  #written = 0;

  constructor(port: Port, tap: EventTap, queue: string, observed: readonly KneePoint[]) {
    this.queue = queue;
    this.#port = port;
    this.#flow = new RecentFlow(this.#now);
    this.#knee = new KneePoints(observed);
    // Listens to the events before it reads the state, so that no move in between is missed.
    this.#ends.push(
      tap.listen({ queue, event: (event) => this.#note(event), gap: (missed) => this.#gap(missed) }),
    );
    this.#rounds = new Rounds({ every: EVERY_MS, rest: REST, read: () => this.#read() });
    this.#ends.push(this.#rounds.watch());
  }

  get ready(): Promise<void> {
    return this.#rounds.first;
  }

  /** Where a new page begins: the state, and the number of the last write. */
  get snapshot(): { lines: string[]; written: number } {
    const lines = this.#state === undefined ? [] : [this.#state];
    return { lines, written: this.#written };
  }

  /** Makes a write of what happened since the last one, for all pages. live.ts calls it ten times a second. */
  tick(): void {
    this.#writeMoves();
    this.#writeGap();
    if (this.#hasNewState) this.#lines.push(this.#state!);
    this.#hasNewState = false;
    const lines = this.#lines;
    this.#lines = [];
    if (lines.length === 0) return;
    this.#writes.push({ number: ++this.#written, lines });
    if (this.#writes.length > STORED_WRITES) this.#writes.shift();
  }

  /** The lines after the write with this number. A page that is too far behind gets a gap and the state. */
  after(written: number): { lines: string[]; written: number } {
    if (written === this.#written) return { lines: [], written };
    const first = this.#writes[0]!.number;
    if (written < first - 1) {
      const gap = JSON.stringify({ type: "gap", missed: first - 1 - written });
      return { lines: [gap, ...this.snapshot.lines], written: this.#written };
    }
    const lines = this.#writes.slice(written - first + 1).flatMap((write) => write.lines);
    return { lines, written: this.#written };
  }

  close(): void {
    for (const end of this.#ends) end();
  }

  get #now(): number {
    return this.#port.clock.read().wall;
  }

  #note(event: DibsEvent): void {
    if (event.type === "worker.lost") return this.#noteLost(event.worker);
    const move = moveOf(event);
    if (!move) {
      if (event.type.startsWith("queue.")) void this.#rounds.now();
      return;
    }
    const [kind, task] = move;
    // These tasks are in the line now. If the reading has them too, the page gets both the task and the event, and shows
    // the task once.
    if (kind === "added" || kind === "redriven" || kind === "lost" || kind === "released")
      this.#leftLine.delete(task);
    else this.#leftLine.add(task);
    if (kind === "claimed") this.#leftWorker.delete(task);
    else this.#leftWorker.add(task);
    this.#writeGap();
    this.#moves.add(move);
    this.#flow.add(move, this.#now);
  }

  #noteLost(id: string): void {
    const worker = this.#shown.get(id);
    if (worker) this.#lost.set(id, { at: this.#now, worker: { ...worker, state: "lost", running: [] } });
    void this.#rounds.now();
  }

  #gap(missed: number): void {
    this.#writeMoves();
    this.#missed += missed;
    this.#flow.forget(this.#now);
    void this.#rounds.now();
  }

  #writeMoves(): void {
    const moves = this.#moves.take();
    if (moves) this.#lines.push(JSON.stringify(moves));
  }

  #writeGap(): void {
    if (this.#missed > 0) this.#lines.push(JSON.stringify({ type: "gap", missed: this.#missed }));
    this.#missed = 0;
  }

  async #read(): Promise<void> {
    const { queue } = this;
    const readAt = this.#now;
    this.#leftLine = new Set();
    this.#leftWorker = new Set();
    const port = this.#port;
    const [stats, queues, ready, claimed, workers] = await Promise.all([
      port.stats(queue),
      port.queues({ queue }),
      // If the queue was long at the last reading, only its first tasks are read.
      port.list({ queue, state: "ready", limit: this.#isLong ? HEAD_CELLS : MAX_CELLS }),
      port.list({ queue, state: "claimed", limit: MAX_CLAIMED }),
      port.workers({ queue }),
    ]);
    const now = this.#now;
    const [known] = queues.items;
    this.#isLong = stats.depth.ready > MAX_CELLS;
    const flow = this.#flow.rates(now);
    const done = flow?.done ?? stats.rates.donePerSecond;
    if (flow) this.#knee.observe(stats.workers, done, stats.depth.ready > 0 || done > 0, now);
    const shown = this.#describe(workers.items, claimed.tasks, now);
    const frame: QueueFrame = {
      type: "queue",
      now,
      readAt,
      queue,
      stats,
      policy: known?.policy as QueueFrame["policy"],
      advice: advise(stats, workers.items),
      line: this.#cells(ready.tasks.slice(0, this.#isLong ? HEAD_CELLS : MAX_CELLS)),
      workers: shown.slice(0, MAX_WORKERS),
      moreWorkers: Math.max(0, shown.length - MAX_WORKERS),
      isRunningComplete: claimed.tasks.length < MAX_CLAIMED,
      flow: flow
        ? {
            ...{ addedPerSecond: flow.added, donePerSecond: flow.done, failedPerSecond: flow.failed },
            spanMs: flow.spanMs,
          }
        : withSpan(stats.rates),
      trend: this.#trend(stats.depth.ready, now),
      usual: stats.serviceTimes?.p50 ?? null,
      knee: this.#knee.list,
    };
    this.#state = JSON.stringify(known ? frame : { type: "noQueue", queue });
    this.#hasNewState = true;
  }

  #cells(tasks: TaskRecord[]): LineCell[] {
    return tasks.filter(({ id }) => !this.#leftLine.has(id)).map(({ id, attempt }) => [id, attempt]);
  }

  #describe(workers: WorkerRecord[], claimed: TaskRecord[], now: number): LiveWorker[] {
    const held = claimed.filter(({ id }) => !this.#leftWorker.has(id));
    const heldBy = Map.groupBy(held, ({ worker }) => worker);
    const live = workers.map((worker): LiveWorker => {
      const { id, name, host, pid, concurrency, claims, silentFor } = worker;
      const running = (heldBy.get(id) ?? [])
        .sort((a, b) => a.startedAt! - b.startedAt!)
        .map((task) => ({ task: task.id, attempt: task.attempt, startedAt: task.startedAt! }));
      return {
        ...{ id, name, host, pid, concurrency, claims, silentFor, running },
        state: running.length > 0 || claims > 0 ? "busy" : "idle",
        donePerSecond: this.#flow.rateOf(id, now),
      };
    });
    for (const [id, { at }] of this.#lost) if (now - at > LOST_MS) this.#lost.delete(id);
    this.#shown = new Map(live.map((worker) => [worker.id, worker]));
    const lost = [...this.#lost.values()].filter(({ worker }) => !this.#shown.has(worker.id));
    return [...lost.map(({ worker }) => worker), ...live].sort(
      (a, b) => Number(a.state === "idle") - Number(b.state === "idle"),
    );
  }

  #trend(ready: number, now: number): number | null {
    this.#depths.push({ at: now, ready });
    while (this.#depths[0]!.at < now - TREND_MS) this.#depths.shift();
    const first = this.#depths[0]!;
    return now - first.at < 2_000 ? null : ((ready - first.ready) * 1_000) / (now - first.at);
  }
}

function withSpan({ windowMs, ...rates }: QueueFrame["stats"]["rates"]): QueueFrame["flow"] {
  return { ...rates, spanMs: windowMs };
}
