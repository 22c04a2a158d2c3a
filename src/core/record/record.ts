import type { StoredLine } from "../handler/attempt-log.ts";
import type { Flow } from "../queue/flow.ts";
import type { NamedPolicy } from "../queue/policy.ts";
import type { Meter } from "../queue/rate.ts";
import type { StageCounts } from "../run/run.ts";
import type { Stage } from "../run/run.ts";
import type { NextCosts } from "../run/stage-cost.ts";
import type {
  Attempt,
  Body,
  DepthByState,
  EndState,
  Headers,
  Step,
  TaskError,
  TaskState,
} from "../task/task.ts";

/**
 * The records of an export: what a store contains, independent of its engine. An export is a list of records in the
 * order of `RECORD_TYPES`; docs/reference/export-format.md describes each field. Times are instants of the store's
 * clock.
 */
export const EXPORT_FORMAT = 1;

export const RECORD_TYPES = [
  "store",
  "queue",
  "group",
  "subscription",
  "document",
  "run",
  "part",
  "child",
  "task",
  "key",
  "end",
] as const;

export type StoreRecord =
  | StoreHeader
  | QueueEntry
  | GroupEntry
  | SubscriptionEntry
  | DocumentEntry
  | RunEntry
  | PartEntry
  | ChildEntry
  | TaskEntry
  | KeyEntry
  | StoreEnd;

export type RecordType = StoreRecord["type"];

/** The first record. */
export interface StoreHeader {
  type: "store";
  format: number;
  /** Identifies this export: an interrupted import continues only with the same one. */
  export: string;
  /** The number that is part of every task's id. */
  store: number;
  /** The store's clock when the export began. */
  now: number;
  /** The last task number and the last fence. */
  seq: number;
  fence: number;
}

/** The state of the limits of a queue or a group. */
export interface GateState {
  meter?: Meter;
  /** Nothing starts before this time. */
  heldUntil?: number;
  /** When to check again whether more tasks may start. */
  wakeAt?: number;
}

export interface QueueEntry extends GateState {
  type: "queue";
  name: string;
  /** The fields of the policy that declarations named. */
  policy: NamedPolicy;
  /** The last declaration applied, as JSON. */
  declared?: string;
  paused?: true;
  createdAt: number;
  /** After the group policy changed: all groups up to this one have been checked. */
  reviewed?: string;
  /** What passed through the queue recently, by slot of time. */
  flow?: (Flow & { slot: number })[];
}

/** Only groups with state besides their tasks. */
export interface GroupEntry extends GateState {
  type: "group";
  queue: string;
  key: string;
}

/** In the order in which they were made. */
export interface SubscriptionEntry {
  type: "subscription";
  pattern: string;
  group: string;
  queue: string;
  createdAt: number;
}

export interface DocumentEntry {
  type: "document";
  kind: string;
  name: string;
  value: string;
  dueAt?: number;
}

export interface RunEntry {
  type: "run";
  /** The id of its first task. */
  id: string;
  queue: string;
  pipeline: string;
  stages: Stage[];
  underWay: number;
  /** Tasks that are not done, by stage, if its stages are a graph. */
  counts?: StageCounts;
  /** For all its tasks. */
  signals?: RunSignal[];
  state?: Exclude<EndState, "dead">;
  endedAt?: number;
  result?: Body;
}

export interface RunSignal {
  name: string;
  value: Body | null;
}

/** One task of a run. */
export interface PartEntry {
  type: "part";
  id: string;
  run: string;
  stage: string;
  part: number[];
  /** How it ended, if the task itself has been removed. */
  state?: EndState;
  startedAt?: number;
  endedAt?: number;
  /** Its result waits for the other parts. */
  awaitsJoin?: { result: Body | null };
}

/** A child of a task that still exists, in the order of the parents, then of `n`. */
export interface ChildEntry {
  type: "child";
  id: string;
  parent: string;
  n: number;
  name: string;
  queue: string;
  /** How it ended. */
  state?: EndState;
  endedAt?: number;
  /** These two: if the task itself has been removed. */
  result?: Body;
  error?: TaskError;
}

export interface TaskEntry {
  type: "task";
  id: string;
  queue: string;
  /** A claimed task is exported as ready, at its position and without its claim. */
  state: Exclude<TaskState, "claimed">;
  data: Body;
  contentType?: string;
  headers?: Headers;
  priority?: number;
  urgent?: true;
  cost?: number;
  groupKey?: string;
  idempotencyKey?: string;
  maxAttempts?: number;
  expiresAt?: number;
  /** Its position in the order of arrival, if it is not the number in its id: after a redrive. */
  pos?: number;
  failures?: number;
  /** ready: its position in the line, if it differs from its position in the order of arrival. */
  linePos?: number;
  /** ready: offered only to workers other than `avoid` until this time. */
  elsewhere?: { until: number; avoid: string[] };
  /** scheduled, parked: when it is due. */
  dueAt?: number;
  /** parked: the signal. */
  waitsFor?: string;
  /** scheduled, parked, verifying: it blocks the other tasks of its group. */
  blocksGroup?: true;
  verifying?: PendingResult;
  endedAt?: number;
  result?: Body;
  steps?: Step[];
  feedback?: string;
  attempts?: Attempt[];
  /** What its handlers logged, oldest first; the fence tells the attempt. */
  log?: StoredLine[];
}

/** A result that waits for a verdict. */
export interface PendingResult {
  fence: number;
  worker: string;
  startedAt: number;
  /** The task that asks for the verdict; absent if it has been removed. */
  asked?: string;
  result: Body | null;
  /** The tasks that an acceptance adds, as encoded by core/handler/verification.ts. */
  adds?: string;
  each?: true;
  /** Costs of the tasks that follow in its run. */
  next?: NextCosts;
}

/** An idempotency key. It may outlive its task. */
export interface KeyEntry {
  type: "key";
  queue: string;
  key: string;
  task: string;
  forgetAt?: number;
  state?: EndState;
}

/** The last record: without it the export is incomplete. */
export interface StoreEnd {
  type: "end";
  counts: Counts;
}

/** How many of each kind there are. */
export interface Counts {
  queues: number;
  subscriptions: number;
  documents: number;
  runs: number;
  parts: number;
  children: number;
  keys: number;
  attempts: number;
  steps: number;
  lines: number;
  /** By queue; states without tasks are absent. */
  tasks: Record<string, Partial<DepthByState>>;
}

export function noCounts(): Counts {
  return {
    ...{
      queues: 0,
      subscriptions: 0,
      documents: 0,
      runs: 0,
      parts: 0,
      children: 0,
      keys: 0,
      attempts: 0,
      steps: 0,
      lines: 0,
    },
    tasks: {},
  };
}

const COUNTED = {
  queue: "queues",
  subscription: "subscriptions",
  document: "documents",
  run: "runs",
  part: "parts",
  child: "children",
  key: "keys",
} as const;

/** The attempts of a task that are rows of their own: the success of a task that is done is part of its end. */
export function attemptRows({ state, attempts = [] }: TaskEntry): Attempt[] {
  return state === "done" ? attempts.slice(0, -1) : attempts;
}

/** Adds a record to the counts. */
export function countRecord(counts: Counts, record: StoreRecord): void {
  if (record.type in COUNTED) counts[COUNTED[record.type as keyof typeof COUNTED]]++;
  if (record.type !== "task") return;
  const { queue, state, attempts = [], steps = [], log = [], feedback } = record;
  // A line of an import may name a queue "constructor" or "__proto__".
  if (!Object.hasOwn(counts.tasks, queue)) {
    Object.defineProperty(counts.tasks, queue, {
      value: {},
      enumerable: true,
      writable: true,
      configurable: true,
    });
  }
  const depth = counts.tasks[queue]!;
  depth[state] = (depth[state] ?? 0) + 1;
  counts.attempts += attempts.length;
  counts.lines += log.length;
  counts.steps += steps.length + (feedback === undefined ? 0 : 1);
}

/** The first difference as text; undefined if there is none. */
export function differenceOf(expected: Counts, found: Counts): string | undefined {
  for (const name of [...Object.values(COUNTED), "attempts", "steps", "lines"] as const) {
    if (expected[name] !== found[name])
      return `${expected[name]} ${name} were read and ${found[name]} arrived`;
  }
  const queues = new Set([...Object.keys(expected.tasks), ...Object.keys(found.tasks)]);
  for (const queue of queues) {
    const [read, arrived] = [depthOf(expected, queue), depthOf(found, queue)];
    for (const state of new Set([...Object.keys(read), ...Object.keys(arrived)]) as Set<TaskState>) {
      const [one, other] = [read[state] ?? 0, arrived[state] ?? 0];
      if (one !== other) return `of queue "${queue}" ${one} tasks ${state} were read and ${other} arrived`;
    }
  }
  return undefined;
}

function depthOf({ tasks }: Counts, queue: string): Partial<DepthByState> {
  return Object.hasOwn(tasks, queue) ? tasks[queue]! : {};
}

/** Tasks of all states. */
export function tasksOf({ tasks }: Counts): number {
  return Object.values(tasks)
    .flatMap((depth) => Object.values(depth))
    .reduce((sum, count) => sum + count, 0);
}
