import type { QueuePolicy } from "../core/queue/policy.ts";
import type { DeadPattern, TaskRecord, TaskState } from "../core/task/task.ts";
import type { AlertKind } from "../pools/alert-rules.ts";

/**
 * What the dashboard's page gets over HTTP beyond the paths of docs/guides/http.md; the live feed is in live-frames.ts.
 * All paths are relative to the page's base URL, so that it also works below a prefix in another app.
 *
 *   GET  v1/me                              Me; needs no token
 *   GET  v1/history                         FlowHistory of all queues that the caller may read
 *   GET  v1/queues/{queue}/history          History; ?from=&to=&points=
 *   POST v1/queues/{queue}/preview          body: a policy, as for PUT v1/queues/{queue}; PolicyPreview, changes nothing
 *   GET  v1/search                          SearchPage; ?q=&queue=&limit=&after=
 *   GET  v1/dead                            DeadOverview; ?by=fingerprint|worker|header:NAME
 *   GET  v1/jobs, POST v1/jobs              { jobs: BulkJob[] }; body NewBulkJob, answers BulkJob (201)
 *   GET  v1/jobs/{id}, POST v1/jobs/{id}/stop       BulkJob
 *   GET  v1/audit                           AuditPage; ?after=&limit=; needs admin:*
 *   GET  v1/alerts/states                   AlertStates
 *   GET  v1/demo, POST v1/demo              Demo; body DemoChange
 *
 * Times are milliseconds since 1970, durations are milliseconds, rates are per second. Failures are problem documents
 * (RFC 9457): `detail` is a sentence for people, `code` the library's code.
 */
export interface Me {
  /** The server asks for a token and the request had none: show the sign-in. A wrong token is answered with 401. */
  signIn: boolean;
  /** The token's name; null without tokens, or before the sign-in. */
  name: string | null;
  /**
   * What it may do: `admin:*`, `read:shop.*`, … A kind is add, work, read or admin (which includes the others), and a
   * star in the pattern stands for any characters. The page shows an action only where a scope covers it. Empty before
   * the sign-in.
   */
  scopes: string[];
  version: string;
  /** How people know the store: a file's name, or host and database; no password. Null before the sign-in. */
  store: string | null;
  engine: "sqlite" | "postgres" | "memory" | null;
  startedAt: number;
  now: number;
  /** The caller may start and steer the demo's traffic: `v1/demo`. */
  demo: boolean;
}

/**
 * Of one queue, `points` values per series at equal distances, oldest first. Null: not recorded, because no server ran
 * or the queue did not exist.
 */
export interface History {
  queue: string;
  /** The first value is about `from` to `from + step`, and so on. */
  from: number;
  step: number;
  series: Record<HistorySeries, (number | null)[]>;
}

/**
 * `depth`: ready and waiting tasks at the end of each step; `oldest`: age of the oldest ready task then; `dead`: dead
 * letters then; `workers`: workers then. `added`, `done`, `failed`: per second. `wait`: mean time from add to claim,
 * `service`: mean time of an attempt; null also where there was none.
 */
export type HistorySeries = (typeof HISTORY_SERIES)[number];
export const HISTORY_SERIES = [
  "depth",
  "oldest",
  "dead",
  "workers",
  "added",
  "done",
  "failed",
  "wait",
  "service",
] as const;

/**
 * The last quarter of an hour of all queues together, as this server saw it, oldest first. Null: not recorded. A caller
 * that may not read all queues gets the sum of those it may read, of the 2,000 that are recorded one by one.
 */
export interface FlowHistory {
  /** The first value is about `from` to `from + step`, and so on. */
  from: number;
  step: number;
  series: Record<FlowSeries, (number | null)[]>;
}

/** The series of `History` whose sum over queues means something at a glance. */
export type FlowSeries = (typeof FLOW_SERIES)[number];
export const FLOW_SERIES = ["depth", "added", "done", "failed"] as const satisfies HistorySeries[];

/** What a change of a policy would do. A policy that is not valid is refused with INVALID, as PUT would. */
export interface PolicyPreview {
  before: QueuePolicy;
  after: QueuePolicy;
  /** One for each field that changes. */
  changes: PolicyChange[];
}

export interface PolicyChange {
  /** `lease`, `backoff`, `groups`, … */
  field: string;
  from: unknown;
  to: unknown;
  /** A sentence for people, with the numbers of now. */
  effect: string;
}

/**
 * A search. `q` has words, all of which must match: `state:dead`, `queue:emails`, `id:…`, `key:…` (groupKey or
 * idempotencyKey), `error:…`, `header:NAME=VALUE` or `header:NAME`, `worker:…`, `older:1h`, `newer:10m`, and any other
 * word or "quoted text", which is searched in the payload. A word that is the id of a task finds that task.
 */
export interface SearchPage {
  tasks: FoundTask[];
  /** Pass it as `after` to search further; null: everything was searched. */
  next: string | null;
  searched: {
    /** What was understood, as a sentence for people. */
    text: string;
    /** Tasks that were compared in this call. */
    looked: number;
    /** Tasks in the queues and states that are searched, now. */
    of: number;
    /** The states and how many queues were searched. */
    states: TaskState[];
    queues: number;
    /** Where this call stopped: the queue and state; null if it is complete. */
    until: { queue: string; state: TaskState } | null;
    /** Large payloads are compared by their first 1,024 bytes only: how many of them there were. */
    shortened: number;
  };
}

/** As in `GET v1/queues/{queue}/tasks`: a large payload is shortened, and `truncated` has its size. */
export interface FoundTask extends Omit<TaskRecord, "data" | "result"> {
  data: unknown;
  encoding?: "base64";
  result: unknown;
}

/** The dead letters of all queues, grouped: the most frequent first. */
export interface DeadOverview {
  /** Dead letters of all queues that the caller may read. */
  total: number;
  groups: (DeadPattern & { queue: string })[];
  /** Queues with dead letters. Only the 50 with the most are grouped, 20 groups each. */
  queues: { queue: string; dead: number }[];
}

/** Work on everything that matches, which the server carries out in small batches. Jobs end with the server. */
export interface NewBulkJob {
  /** redrive and discard: dead letters. cancel: tasks that have not ended. retry: dead letters, without their steps. */
  action: BulkAction;
  /** Without `q`, one queue. With `q`, it may be left out: all queues in which the caller may do this. */
  queue?: string;
  /** Which; all of the queue if nothing is given. For dead letters as in `POST …/dead/redrive`. */
  ids?: string[];
  pattern?: string;
  error?: string;
  /** Everything that a search with this text finds, as `GET v1/search`. Not together with the three above. */
  q?: string;
  /** At most so many tasks per second; as fast as possible unless set. */
  rate?: number;
}

export type BulkAction = "redrive" | "discard" | "cancel" | "retry";

export interface BulkJob {
  id: string;
  action: BulkAction;
  queue: string | null;
  /** A sentence for people: `Redrive the dead letters of emails that match "timeout"`. */
  text: string;
  /** Who started it. */
  by: string;
  /** `failed`: `error` says why; what was done stays done. */
  state: "running" | "stopped" | "finished" | "failed";
  /** Tasks that match, counted at the start; null: not counted, because a search has to find them. */
  total: number | null;
  /** Tasks that were changed. */
  done: number;
  /** Tasks that matched and could not be changed, because they had moved on. */
  skipped: number;
  startedAt: number;
  endedAt: number | null;
  error: string | null;
}

/** Who did what through this server, the newest first: its last thousand entries, which end with the server. */
export interface AuditPage {
  entries: AuditEntry[];
  next: string | null;
}

/** An administrator's action, or a declaration that created or changed something. */
export interface AuditEntry {
  at: number;
  /** The token's name. */
  by: string;
  verb: string;
  /** A star: all queues. Absent if an id names the subject, and for tokens. */
  queue?: string;
  /** An id. */
  task?: string;
  /** An id. */
  run?: string;
  schedule?: string;
  pipeline?: string;
  /** The name of a token that was created or revoked. */
  token?: string;
  /** A declaration that differs from the stored one, by a token that may not change it: nothing was done. */
  refused?: true;
}

/** The rules of the alerts and their states. `GET v1/alerts/alerts/decisions` has the changes, the newest first. */
export interface AlertStates {
  /** A process evaluates them now. */
  running: boolean;
  rules: { queue: string; when: AlertKind; above: number; clear: number; for: number }[];
  /** Of rules that are raised, or about to be raised or cleared (`since`). */
  states: { queue: string; when: AlertKind; raised: boolean; since: number | null }[];
}

/** The demo's traffic on this server. */
export interface Demo {
  running: boolean;
  /** Tasks per second of its producers, and its workers. */
  rate: number;
  workers: number;
  /** The queue to look at first. */
  queue: string;
  /** What the slider and the buttons allow. */
  limits: { rate: { min: number; max: number }; workers: { min: number; max: number } };
}

/** Only what is to change. `running: false` ends the demo's processes. */
export interface DemoChange {
  running?: boolean;
  rate?: number;
  workers?: number;
}
