import type { QueuePolicy } from "../core/queue/policy.ts";
import type { DepthByState, HeldBack, QueueStats } from "../core/task/task.ts";
import type { Advice } from "../pools/advise.ts";
import type { BulkJob } from "./contract.ts";

/**
 * The live feed of the dashboard: `GET v1/live`, a stream of lines, each a `LiveFrame` as JSON. The page imports these
 * types; contract.ts has those of the other answers.
 *
 *   v1/live                          hello, totals, jobs: what every page shows
 *   v1/live?queues=true              in addition the rows of all queues
 *   v1/live?queue=NAME               in addition the live picture of one queue
 *
 * The server writes at most ten times a second, whatever the load; one write may contain several lines. `moves` come
 * with every write in which something moved, `queue` twice a second, `queues` and `totals` once a second.
 *
 * The first lines are a snapshot: hello, totals, jobs, then all rows, or the picture. After that come changes. A page
 * that opens another view closes its stream and opens another one. A page that does not read loses its connection. The
 * stream ends if the token is revoked or the server stops: the page then reads `v1/me`, which answers 401 if it must
 * sign in again, and reconnects otherwise.
 *
 * Times are milliseconds since 1970 by the store's clock, durations are milliseconds, rates are per second. What the
 * token may not see is not there, and is not counted.
 */
export type LiveFrame =
  | HelloFrame
  | TotalsFrame
  | JobsFrame
  | QueuesFrame
  | QueueFrame
  | MovesFrame
  | GapFrame
  | BeatFrame
  | NoQueueFrame;

/** The first line. */
export interface HelloFrame {
  type: "hello";
  version: string;
  /** When this server started: another value after a reconnect says that it was restarted. */
  startedAt: number;
  now: number;
}

/** Sums over all queues that the token may read. */
export interface TotalsFrame {
  type: "totals";
  now: number;
  queues: number;
  workers: number;
  /** Ready, or waiting behind their group. */
  waiting: number;
  scheduled: number;
  running: number;
  dead: number;
  addedPerSecond: number;
  donePerSecond: number;
  failedPerSecond: number;
  /** Alerts that are raised now. */
  alerts: number;
  /** Null: the store answers. Otherwise a sentence about what is wrong. */
  problem: string | null;
}

/** All bulk jobs that the token may see, the newest first; sent again when one of them changed. */
export interface JobsFrame {
  type: "jobs";
  jobs: BulkJob[];
}

/** Rows that are new or changed. */
export interface QueuesFrame {
  type: "queues";
  /** All rows are here: forget those of before. */
  reset?: true;
  rows: QueueRow[];
  /** Names of queues that are gone. */
  removed?: string[];
}

export interface QueueRow {
  name: string;
  paused: boolean;
  depth: DepthByState;
  /** When the oldest ready task was added, exact to a second. A row is not sent again only because it grew older. */
  oldestAt: number | null;
  /** Its age when the row was made. */
  oldestAge: number | null;
  rates: QueueStats["rates"];
  failureRate: number | null;
  serviceTime: number | null;
  waitTime: number | null;
  workers: number;
  heldBack: HeldBack | null;
  /**
   * Tasks that were ready or waiting, minute by minute, the last 30 of them, oldest first; null: not recorded. Absent
   * in a row that changed within a minute: keep the last one. An empty list: nothing is recorded yet.
   */
  spark?: (number | null)[];
}

/** The state of the picture, twice a second, and at once after a gap. */
export interface QueueFrame {
  type: "queue";
  now: number;
  /** When the reading of this state began: claims that are older are in it. */
  readAt: number;
  queue: string;
  /** As `GET v1/queues/{queue}` answers it. */
  stats: QueueStats;
  policy: QueuePolicy;
  /** The verdict and its sentences, the knee and the needed workers. */
  advice: Advice;
  /**
   * The tasks before the head, in the order in which they will be claimed: up to 400 while at most 400 are ready,
   * otherwise the first 64. Complete: a cell that is not in it, and did not move since, is not in the line. Tasks that
   * were claimed while it was read are left out already. An `added` of a task that is already in it adds nothing.
   */
  line: LineCell[];
  /** At most 100, busy ones first. Workers that were lost stay for ten seconds. */
  workers: LiveWorker[];
  /** Workers of the queue that are not in the list. */
  moreWorkers: number;
  /** Whether `running` of all workers has every claimed task of the queue: at most 200 are read. */
  isRunningComplete: boolean;
  /** Over the last five seconds, from the events. After a gap: over the last minute, from the counters. */
  flow: { addedPerSecond: number; donePerSecond: number; failedPerSecond: number; spanMs: number };
  /** How the number of ready tasks changes, per second, over the last 30 seconds; null: not known yet. */
  trend: number | null;
  /** What half of the last successes took at most: the usual time of an attempt; null: none is stored. */
  usual: number | null;
  /** What was observed: throughput with so many workers, newest last, at most one for each number of workers. */
  knee: KneePoint[];
}

/** A ready task: its id, and which attempt the next claim is. */
export type LineCell = [task: string, attempt: number];

export interface KneePoint {
  workers: number;
  donePerSecond: number;
  at: number;
}

export interface LiveWorker {
  /** The instance: a name may have several. `worker` of a move is this id. */
  id: string;
  name: string;
  host: string;
  pid: number;
  state: "busy" | "idle" | "lost";
  concurrency: number;
  /** Tasks of all queues that it holds. */
  claims: number;
  /** Since its last heartbeat. */
  silentFor: number;
  /** Tasks of this queue that it ended per second, over the last five seconds. */
  donePerSecond: number;
  /** Tasks of this queue that it holds, the longest-running first; `isRunningComplete` says whether all are here. */
  running: { task: string; attempt: number; startedAt: number }[];
}

/**
 * What happened to tasks of the queue since the last frame, in the order in which it was committed. If more than
 * `MOST_MOVES` happened, `moves` is empty and `workers` has counts: the page lets the cells stream.
 */
export interface MovesFrame {
  type: "moves";
  moves: Move[];
  /** All of them, listed or not. */
  counts: Record<MoveKind, number>;
  /** Instead of `moves`: what each worker did, at most 100 workers. */
  workers?: [worker: string, claimed: number, done: number, failed: number][];
}

/** Moves in one frame: 600 a second. */
export const MOST_MOVES = 60;

/** `worker` is the id of the instance; null if no worker is involved. `at`: when it was committed. */
export type Move = [kind: MoveKind, task: string, worker: string | null, attempt: number | null, at: number];

export type MoveKind =
  /** Enters the line at its tail, or waits until it is due. */
  | "added"
  /** Goes to `worker`. */
  | "claimed"
  /** Its worker succeeded. */
  | "done"
  /** Its worker failed; the task comes back after its backoff. */
  | "failed"
  /** Its worker was lost, and the task is back at the head at once. */
  | "lost"
  /** Its worker gave it back; the attempt does not count. */
  | "released"
  | "dead"
  /** A dead letter that enters the line again, at its tail. */
  | "redriven"
  /** Waits for a signal, or for a verdict; no worker holds it. */
  | "parked"
  | "verifying"
  | "cancelled"
  | "expired";

/** So many events of the whole store were missed at this place: cells may have moved unseen. A `queue` frame follows. */
export interface GapFrame {
  type: "gap";
  missed: number;
}

/** Nothing else was written for five seconds: the connection is alive. */
export interface BeatFrame {
  type: "beat";
  now: number;
}

/** The queue of the picture does not exist, or was deleted. The stream goes on: it may be created. */
export interface NoQueueFrame {
  type: "noQueue";
  queue: string;
}
