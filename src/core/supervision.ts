/**
 * Work that one process at a time does for all processes of a store: a pool, the alerts, or recording the history of a
 * queue (then the name is the queue's). The process holds the name under a lease; others that want it wait. Its last
 * decisions are stored, so that all can read them.
 */
export const SUPERVISED_KINDS = ["pool", "alerts", "history"] as const;
export type SupervisedKind = (typeof SUPERVISED_KINDS)[number];

export type SupervisionEventType =
  | "pool.started"
  | "pool.resized"
  | "pool.crashing"
  | "pool.stopped"
  | "alert.raised"
  | "alert.cleared";

export const SUPERVISION_EVENTS: readonly SupervisionEventType[] = [
  ...(["pool.started", "pool.resized", "pool.crashing", "pool.stopped"] as const),
  ...(["alert.raised", "alert.cleared"] as const),
];

/** Takes or renews a name. */
export interface SuperviseCall {
  kind: SupervisedKind;
  name: string;
  /** Identifies the process among all that ever wanted the name. */
  holder: string;
  host: string;
  pid: number;
  /** The queues that it is about. They decide which tokens may use and see it. */
  queues: string[];
  /** How long the caller holds the name without another call, in milliseconds; 0: it gives the name up now. */
  lease: number;
  /** JSON: what the holder says about itself. */
  report: string;
  /** What it has decided since the last call. */
  entries?: NewEntry[];
}

export interface NewEntry {
  type: SupervisionEventType;
  /** The queue that it is about, or the first one. */
  queue: string;
  /** Sentences for people: the reasons. */
  reasons: string[];
  /** The size of a pool before and after. */
  from?: number;
  to?: number;
}

export interface SupervisionEntry extends NewEntry {
  at: number;
}

export interface SuperviseOutcome {
  /** The caller holds the name. */
  held: boolean;
  /** The holder before this call; null: no process has ever held the name. */
  before: SupervisedRecord | null;
}

export interface SupervisedRecord extends Omit<SuperviseCall, "lease" | "entries"> {
  /** The name is held until then, by the engine's clock; null: it was given up. */
  heldUntil: number | null;
  /** Milliseconds until then, from now; 0 if it is not held. */
  heldFor: number;
}

/** Entries that are stored for each name. */
export const STORED_ENTRIES = 1_000;
