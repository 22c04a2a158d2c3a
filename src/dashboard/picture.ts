import type { DibsEvent } from "../core/events.ts";
import type { Port } from "../core/port.ts";
import type { TaskRecord, WorkerRecord } from "../core/task.ts";
import { advise } from "../pools/advise.ts";
import type { EventTap } from "./event-tap.ts";
import { KneePoints } from "./knee-points.ts";
import type { KneePoint, LineCell, LiveWorker, QueueFrame } from "./live-frames.ts";
import { Moves, moveOf } from "./moves.ts";
import { RecentFlow } from "./recent-flow.ts";
import { Rounds } from "./rounds.ts";

/** The state is read so often, unless reading takes long. */
const EVERY_MS = 500;
/** Reading one queue is cheap, and a picture must not stand still on a busy machine. */
const REST = 4;
/** Cells one to one: all of a short queue, and those before the head of a long one. */
const MOST_CELLS = 400;
const HEAD_CELLS = 64;
const MOST_CLAIMED = 200;
const MOST_WORKERS = 100;
/** How long a lost worker is shown. */
const LOST_MS = 10_000;
/** Of how much time the trend of the depth is. */
const TREND_MS = 30_000;
/** Writes that a page may be behind before it gets a gap. */
const KEPT_WRITES = 50;

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
  /** For the next write, in the order in which it happened: moves, a gap, moves after it. */
  #lines: string[] = [];
  #missed = 0;
  #shown = new Map<string, LiveWorker>();
  /** Ids that left the line since the last reading began: what is read may be older than their events. */
  #left = new Set<string>();
  /** Ids that left their worker since then. */
  #letGo = new Set<string>();
  #isLong = false;
  #depths: { at: number; ready: number }[] = [];
  #state: string | undefined;
  /** A state that has not been written. */
  #isNew = false;
  #writes: Write[] = [];
  #written = 0;

  constructor(port: Port, tap: EventTap, queue: string, observed: readonly KneePoint[]) {
    this.queue = queue;
    this.#port = port;
    this.#flow = new RecentFlow(this.#now);
    this.#knee = new KneePoints(observed);
    // First the events, then the state: no move between them is missed.
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

  /** live.ts calls it ten times a second: makes a write of what happened, for all pages. */
  tick(): void {
    this.#endMoves();
    this.#endGap();
    if (this.#isNew) this.#lines.push(this.#state!);
    this.#isNew = false;
    const lines = this.#lines;
    this.#lines = [];
    if (lines.length === 0) return;
    this.#writes.push({ number: ++this.#written, lines });
    if (this.#writes.length > KEPT_WRITES) this.#writes.shift();
  }

  /** The lines after a write. A page that is too far behind gets a gap and the state. */
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
    // A listed page with `added` is sorted out by the page itself; a task that came back is in the line again.
    if (kind === "added" || kind === "redriven" || kind === "lost" || kind === "released")
      this.#left.delete(task);
    else this.#left.add(task);
    if (kind === "claimed") this.#letGo.delete(task);
    else this.#letGo.add(task);
    this.#endGap();
    this.#moves.add(move);
    this.#flow.add(move, this.#now);
  }

  #noteLost(id: string): void {
    const worker = this.#shown.get(id);
    if (worker) this.#lost.set(id, { at: this.#now, worker: { ...worker, state: "lost", running: [] } });
    void this.#rounds.now();
  }

  #gap(missed: number): void {
    this.#endMoves();
    this.#missed += missed;
    this.#flow.forget(this.#now);
    void this.#rounds.now();
  }

  #endMoves(): void {
    const moves = this.#moves.take();
    if (moves) this.#lines.push(JSON.stringify(moves));
  }

  #endGap(): void {
    if (this.#missed > 0) this.#lines.push(JSON.stringify({ type: "gap", missed: this.#missed }));
    this.#missed = 0;
  }

  async #read(): Promise<void> {
    const { queue } = this;
    const readAt = this.#now;
    this.#left = new Set();
    this.#letGo = new Set();
    const port = this.#port;
    const [stats, queues, ready, claimed, workers] = await Promise.all([
      port.stats(queue),
      port.queues({ queue }),
      // Of a queue that was long half a second ago, only the head is read.
      port.list({ queue, state: "ready", limit: this.#isLong ? HEAD_CELLS : MOST_CELLS }),
      port.list({ queue, state: "claimed", limit: MOST_CLAIMED }),
      port.workers({ queue }),
    ]);
    const now = this.#now;
    const [known] = queues.items;
    this.#isLong = stats.depth.ready > MOST_CELLS;
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
      line: this.#cells(ready.tasks.slice(0, this.#isLong ? HEAD_CELLS : MOST_CELLS)),
      workers: shown.slice(0, MOST_WORKERS),
      moreWorkers: Math.max(0, shown.length - MOST_WORKERS),
      isRunningComplete: claimed.tasks.length < MOST_CLAIMED,
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
    this.#isNew = true;
  }

  #cells(tasks: TaskRecord[]): LineCell[] {
    return tasks.filter(({ id }) => !this.#left.has(id)).map(({ id, attempt }) => [id, attempt]);
  }

  #describe(workers: WorkerRecord[], claimed: TaskRecord[], now: number): LiveWorker[] {
    const running = claimed.filter(({ id }) => !this.#letGo.has(id));
    const held = Map.groupBy(running, ({ worker }) => worker);
    const live = workers.map((worker): LiveWorker => {
      const { id, name, host, pid, concurrency, claims, silentFor } = worker;
      const running = (held.get(id) ?? [])
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
