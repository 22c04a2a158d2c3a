import { everyItem } from "../core/answer/every-item.ts";
import type { Port } from "../core/port.ts";
import type { QueueFigures, WorkerRecord } from "../core/task/task.ts";
import { raisedAlerts, readAlertStates } from "./alert-states.ts";
import type { QueueRow, TotalsFrame } from "./live-frames.ts";
import type { Sparks } from "./sparks.ts";
import { Rounds } from "./rounds.ts";
import type { Viewer } from "./viewer.ts";

/** A row and the number of the round in which it last changed. */
interface Entry {
  row: QueueRow;
  /** What a change is noticed by: the row without what changes with time alone. */
  mark: string;
  text: string;
  changed: number;
  /** The round in which its sparkline last changed. */
  sparked: number;
}

/**
 * The rows of all queues and their sums, for all pages of a server: read once per round while a page watches, and
 * encoded once for all viewers with the same scopes. live.ts asks for what changed since the last round that a page
 * got.
 */
export class Overview {
  readonly #port: Port;
  readonly #sparks: Sparks;
  readonly #rounds: Rounds;
  readonly #entries = new Map<string, Entry>();
  /** Queues that are gone, with the round in which that was noticed. */
  #removed: { name: string; round: number }[] = [];
  #workers: WorkerRecord[] = [];
  #raised: string[] = [];
  #round = 0;
  /** What viewers with the same scopes get, for this round. */
  readonly #encoded = new Map<string, string>();

  constructor(port: Port, sparks: Sparks) {
    this.#port = port;
    this.#sparks = sparks;
    this.#rounds = new Rounds({ every: EVERY_MS, rest: REST, read: () => this.#read() });
  }

  /** Keeps the rows up to date until the returned function is called. */
  watch(): () => void {
    return this.#rounds.watch();
  }

  /** Resolves when there is a first round, or reading failed. */
  get ready(): Promise<void> {
    return this.#rounds.first;
  }

  /** Grows with each round. */
  get round(): number {
    return this.#round;
  }

  get problem(): string | null {
    return this.#rounds.problem;
  }

  rowsFor(viewer: Viewer): QueueRow[] {
    return [...this.#entries.values()].map(({ row }) => row).filter(({ name }) => viewer.reads(name));
  }

  totalsFor(viewer: Viewer, now: number): string {
    const text = this.#once(`totals ${viewer.scopes}`, () => JSON.stringify(this.#totals(viewer, now)));
    if (this.problem === null) return text;
    return JSON.stringify({ ...this.#totals(viewer, now), problem: this.problem });
  }

  /** A frame with what changed after the round `since`, with all rows if that is 0; undefined: nothing changed. */
  changesFor(viewer: Viewer, since: number): string | undefined {
    const text = this.#once(`rows ${since} ${viewer.scopes}`, () => this.#changes(viewer, since));
    return text === "" ? undefined : text;
  }

  #once(key: string, make: () => string): string {
    const known = this.#encoded.get(key);
    if (known !== undefined) return known;
    const made = make();
    this.#encoded.set(key, made);
    return made;
  }

  #changes(viewer: Viewer, since: number): string {
    const rows: string[] = [];
    for (const { row, text, changed, sparked } of this.#entries.values()) {
      if (changed <= since || !viewer.reads(row.name)) continue;
      const spark = since === 0 || sparked > since ? this.#sparks.of(row.name) : undefined;
      rows.push(spark ? `${text.slice(0, -1)},"spark":${JSON.stringify(spark)}}` : text);
    }
    const gone = since === 0 ? [] : this.#removed.filter(({ round }) => round > since);
    const removed = gone.map(({ name }) => name).filter((name) => viewer.reads(name));
    if (since > 0 && rows.length === 0 && removed.length === 0) return "";
    const reset = since === 0 ? `"reset":true,` : "";
    const without = removed.length === 0 ? "" : `,"removed":${JSON.stringify(removed)}`;
    return `{"type":"queues",${reset}"rows":[${rows.join(",")}]${without}}`;
  }

  #totals(viewer: Viewer, now: number): TotalsFrame {
    const rows = this.rowsFor(viewer);
    const sum = (of: (row: QueueRow) => number): number => rows.reduce((total, row) => total + of(row), 0);
    return {
      type: "totals",
      now,
      queues: rows.length,
      workers: this.#workers.filter(({ queues }) => queues.some((queue) => viewer.reads(queue))).length,
      waiting: sum(({ depth }) => depth.ready + depth.waiting),
      scheduled: sum(({ depth }) => depth.scheduled),
      running: sum(({ depth }) => depth.claimed),
      dead: sum(({ depth }) => depth.dead),
      addedPerSecond: sum(({ rates }) => rates.addedPerSecond),
      donePerSecond: sum(({ rates }) => rates.donePerSecond),
      failedPerSecond: sum(({ rates }) => rates.failedPerSecond),
      alerts: this.#raised.filter((queue) => viewer.reads(queue)).length,
      problem: null,
    };
  }

  async #read(): Promise<void> {
    const [queues, workers, alerts] = await Promise.all([
      everyItem((page) => this.#port.queues({ ...page, stats: true })),
      this.#port.workers(),
      readAlertStates(this.#port),
    ]);
    const round = this.#round + 1;
    const sparked = this.#sparks.minute;
    const names = new Set(queues.map(({ name }) => name));
    const now = this.#port.clock.read().wall;
    for (const { name, paused, stats } of queues) {
      const before = this.#entries.get(name);
      const row: QueueRow = { name, paused, oldestAt: oldestAt(stats!, now, before?.row), ...stats! };
      const hasSpark = before !== undefined && this.#sparkedAt < sparked;
      const mark = JSON.stringify({ ...row, oldestAge: null });
      if (before?.mark === mark && !hasSpark) continue;
      const sparkRound = !before || hasSpark ? round : before.sparked;
      this.#entries.set(name, { row, mark, text: JSON.stringify(row), changed: round, sparked: sparkRound });
    }
    this.#sparkedAt = sparked;
    for (const name of this.#entries.keys()) {
      if (names.has(name)) continue;
      this.#entries.delete(name);
      this.#removed.push({ name, round });
    }
    this.#removed = this.#removed.slice(-MOST_REMOVED);
    this.#workers = workers.items;
    this.#raised = raisedAlerts(alerts);
    this.#encoded.clear();
    this.#round = round;
  }

  #sparkedAt = 0;
}

/** The age and the time are read at different moments: a difference of less than a second is none. */
function oldestAt({ oldestAge }: QueueFigures, now: number, before: QueueRow | undefined): number | null {
  if (oldestAge === null) return null;
  const at = Math.floor(now - oldestAge);
  const last = before?.oldestAt ?? null;
  return last !== null && Math.abs(at - last) < 1_000 ? last : at;
}

const EVERY_MS = 1_000;
/** Reading all queues takes at most 2.5 % of the time of one connection, however many there are. */
const REST = 39;
/** Removed queues that are remembered: a page that is further behind than that gets all rows. */
const MOST_REMOVED = 10_000;
