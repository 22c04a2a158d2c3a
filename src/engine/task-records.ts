import type { QueuePolicy } from "../core/queue/policy.ts";
import { parsePart } from "../core/run/run-part.ts";
import { type RunPart, stageQueue } from "../core/run/run.ts";
import {
  type Attempt,
  type AttemptOutcome,
  type Body,
  type EndState,
  fromRank,
  type Headers,
  isEnd,
  JSON_TYPE,
  type TaskRecord,
  type TaskState,
} from "../core/task/task.ts";
import { NEVER } from "../core/task/transition.ts";
import { shownKey } from "../core/task/unique.ts";

/** What `get`, `list`, `history` and `run` answer, from the rows of both SQL engines. `verbs/inspect.ts` reads the rows. */

/** A task and the row of its state. */
interface FoundTask {
  seq: number;
  createdAt: number;
  queue: { name: string; policy: QueuePolicy };
  rank: number;
  groupKey: string | null;
  key: string | null;
  failures: number;
  maxAttempts: number | null;
  expiresAt: number | null;
  place: { state: TaskState } & (
    | { held: { worker: string; startedAt: number; cancelled: boolean } }
    | { due: number; signal: string | null }
    | object
  );
}

/** What is read in addition, and the last attempt of an ended task. */
interface TaskDetails {
  id: string;
  data: Body;
  content_type: string | null;
  headers: string | null;
  cost: number | null;
  endedAt: number | null;
  result: Body | null;
  last: Attempt | undefined;
  progress: TaskRecord["progress"];
}

export function taskRecord(task: FoundTask, details: TaskDetails): Omit<TaskRecord, "run"> {
  const { place } = task;
  const held = "held" in place ? place.held : undefined;
  const ended = isEnd(place.state);
  const last = ended ? details.last : undefined;
  return {
    id: details.id,
    queue: task.queue.name,
    state: place.state,
    data: details.data,
    contentType: details.content_type ?? JSON_TYPE,
    headers: details.headers === null ? {} : (JSON.parse(details.headers) as Headers),
    ...fromRank(task.rank),
    groupKey: task.groupKey,
    ...shownKey(task.key),
    cost: details.cost ?? 1,
    attempt: ended ? (last?.attempt ?? 0) : task.failures + 1,
    maxAttempts: task.maxAttempts ?? task.queue.policy.maxAttempts,
    createdAt: task.createdAt,
    dueAt: "due" in place && place.due !== NEVER ? place.due : null,
    waitsFor: "signal" in place ? place.signal : null,
    expiresAt: task.expiresAt,
    worker: held?.worker ?? last?.worker ?? null,
    startedAt: held?.startedAt ?? last?.startedAt ?? null,
    endedAt: ended ? details.endedAt : null,
    progress: details.progress,
    cancelRequested: held?.cancelled ?? false,
    result: ended ? details.result : null,
    error: place.state === "dead" ? last!.error : null,
  };
}

/** A row of the ledger. */
export interface AttemptRow {
  attempt: number;
  fence: number;
  worker: string;
  started_at: number;
  ended_at: number;
  outcome: AttemptOutcome;
  name: string | null;
  message: string;
  stack: string | null;
  fingerprint: string;
}

/** `textOf`: how the engine decodes text from outside. */
export function attemptFrom(row: AttemptRow, textOf = (text: string): string => text): Attempt {
  const { attempt, fence, worker, outcome, name, stack } = row;
  const error =
    name === null
      ? null
      : {
          name: textOf(name),
          message: textOf(row.message),
          stack: stack === null ? null : textOf(stack),
          fingerprint: textOf(row.fingerprint),
        };
  return { attempt, fence, worker, startedAt: row.started_at, endedAt: row.ended_at, outcome, error };
}

/** A task of a run. The row has its end if the task itself has been removed. */
export interface RunPartRow {
  task: number;
  created_at: number;
  stage: string;
  part: string;
  state: EndState | null;
  started_at: number | null;
  ended_at: number | null;
}

/** `task`: called if the task still exists. Undefined if it was deleted between two statements. */
export function runPart(
  id: string,
  pipeline: string,
  row: RunPartRow,
  task: () => Pick<RunPart, "state" | "startedAt" | "endedAt"> | undefined,
): RunPart | undefined {
  const { stage, created_at: createdAt, state, started_at: startedAt, ended_at: endedAt } = row;
  const end = state === null ? task() : { state, startedAt, endedAt };
  const part = { id, queue: stageQueue(pipeline, stage), stage, part: parsePart(row.part), createdAt };
  return end && { ...part, state: end.state, startedAt: end.startedAt, endedAt: end.endedAt };
}
