import { showAttempt } from "../core/task/retry.ts";
import type { Dibs } from "../api/dibs.ts";
import type { AttemptInfo, ChildInfo, TaskInfo } from "../api/task-handle.ts";
import { formatBody, printFields, printHeading } from "./fields.ts";
import { formatAge, formatDuration } from "./human.ts";
import { type Colour, printJson } from "./output.ts";
import { type Column, printTable } from "./table.ts";

/** How `dibs tasks`, `dibs task` and `dibs dead` show tasks. */

const COLOURS: Partial<Record<TaskInfo["state"], Colour>> = {
  claimed: "accent",
  dead: "red",
  done: "green",
  cancelled: "faint",
  expired: "amber",
};

export const TASK_COLUMNS: readonly Column<TaskInfo>[] = [
  { head: "ID", cell: ({ id }) => id },
  { head: "STATE", cell: ({ state }) => state, colour: ({ state }) => COLOURS[state] },
  { head: "AGE", cell: ({ createdAt }) => formatAge(createdAt) },
  { head: "ATTEMPT", cell: ({ attempt, maxAttempts }) => showAttempt(attempt, maxAttempts, "/") },
  { head: "PRIORITY", cell: ({ priority }) => (priority === 0 ? "" : String(priority)), isOptional: true },
  { head: "GROUP", cell: ({ groupKey }) => groupKey ?? "", isOptional: true },
  { head: "KEY", cell: ({ idempotencyKey }) => idempotencyKey ?? "", isOptional: true },
  { head: "DUE", cell: ({ dueAt }) => formatAge(dueAt), isOptional: true },
  {
    head: "WORKER",
    cell: ({ worker, state }) => (state === "claimed" ? (worker ?? "") : ""),
    isOptional: true,
  },
  { head: "DATA", cell: (task) => oneLine(task), isCut: true },
];

/** The last error takes the place of the payload. */
export const DEAD_COLUMNS: readonly Column<TaskInfo>[] = [
  { head: "ID", cell: ({ id }) => id },
  { head: "DIED", cell: ({ endedAt }) => formatAge(endedAt) },
  { head: "ATTEMPTS", cell: ({ attempt }) => attempt },
  { head: "WORKER", cell: ({ worker }) => worker ?? "", isOptional: true },
  {
    head: "ERROR",
    cell: ({ error }) => (error ? `${error.name}: ${error.message}` : ""),
    colour: () => "red",
    isCut: true,
  },
];

function oneLine({ data, truncated }: TaskInfo): string {
  if (data instanceof Uint8Array) return `${truncated?.data ?? data.length} bytes`;
  // A shortened payload is text already.
  return truncated?.data === undefined ? (JSON.stringify(data) ?? "") : `${data as string}…`;
}

const ATTEMPT_COLUMNS: readonly Column<AttemptInfo>[] = [
  { head: "ATTEMPT", cell: ({ attempt }) => attempt },
  {
    head: "OUTCOME",
    cell: ({ outcome }) => outcome,
    colour: ({ outcome, error }) => (outcome === "done" ? "green" : error ? "red" : undefined),
  },
  { head: "STARTED", cell: ({ startedAt }) => startedAt.toISOString() },
  { head: "TOOK", cell: ({ startedAt, endedAt }) => formatDuration(endedAt.getTime() - startedAt.getTime()) },
  { head: "WORKER", cell: ({ worker }) => worker },
  {
    head: "ERROR",
    cell: ({ error }) => (error ? `${error.name}: ${error.message}` : ""),
    isOptional: true,
    isCut: true,
  },
];

/** Others are in the answer of `dibs.task(id).children()`. */
const SHOWN_CHILDREN = 100;

const CHILD_COLUMNS: readonly Column<ChildInfo>[] = [
  { head: "ID", cell: ({ id }) => id },
  { head: "QUEUE", cell: ({ queue }) => queue },
  { head: "STATE", cell: ({ state }) => state, colour: ({ state }) => COLOURS[state] },
  { head: "NAME", cell: ({ name }) => name ?? "", isOptional: true },
  { head: "ENDED", cell: ({ endedAt }) => formatAge(endedAt), isOptional: true },
];

const LOG_COLUMNS: readonly Column<{ attempt: number; at: Date; text: string }>[] = [
  { head: "ATTEMPT", cell: ({ attempt }) => attempt },
  { head: "AT", cell: ({ at }) => at.toISOString() },
  { head: "TEXT", cell: ({ text }) => text, isCut: true },
];

/** Everything about one task, with its ledger. */
export async function printTask(dibs: Dibs, id: string, json: boolean): Promise<void> {
  const handle = dibs.task(id);
  const [task, attempts] = await Promise.all([handle.info(), handle.history()]);
  const spawned = task.children ? await handle.children({ limit: SHOWN_CHILDREN }) : undefined;
  if (json) return printJson({ ...task, ...(spawned && { spawned: spawned.children }), attempts });
  const { error, progress, run } = task;
  printFields([
    ["id", task.id, "bold"],
    ["queue", task.queue],
    ["state", task.cancelRequested ? `${task.state}, cancel requested` : task.state, COLOURS[task.state]],
    ["attempt", showAttempt(task.attempt, task.maxAttempts)],
    ["priority", task.priority === 0 ? undefined : task.priority],
    ["urgent", task.urgent ? "yes" : undefined],
    ["group", task.groupKey ?? undefined],
    ["key", task.idempotencyKey ?? undefined],
    ["run", run ? `${run.id}, stage ${run.stage}` : undefined],
    ["parent", task.parent ? `${task.parent.id}, queue ${task.parent.queue}` : undefined],
    [
      "children",
      task.children ? `${task.children.total}, ${task.children.pending} have not ended` : undefined,
    ],
    ["worker", task.worker ?? undefined],
    [
      "progress",
      progress ? `${Math.round(progress.value * 100)} % ${progress.note ?? ""}`.trim() : undefined,
    ],
    ["waits for", task.waitsFor ?? undefined],
    ["created", task.createdAt.toISOString()],
    ["due", task.dueAt?.toISOString()],
    ["expires", task.expiresAt?.toISOString()],
    ["started", task.startedAt?.toISOString()],
    ["ended", task.endedAt?.toISOString()],
    ["headers", Object.keys(task.headers).length === 0 ? undefined : JSON.stringify(task.headers)],
    ["data", formatBody(task.data)],
    ["result", task.result === null ? undefined : formatBody(task.result)],
    ["error", error ? (error.stack ?? `${error.name}: ${error.message}`) : undefined, "red"],
  ]);
  if (attempts.length > 0) {
    printHeading("Attempts");
    printTable(attempts, ATTEMPT_COLUMNS);
  }
  if (spawned) {
    printHeading("Children");
    printTable(spawned.children, CHILD_COLUMNS);
  }
  const lines = [...attempts, task].flatMap(({ attempt, log }) => log.map((line) => ({ attempt, ...line })));
  if (lines.length === 0) return;
  printHeading("Log");
  printTable(lines, LOG_COLUMNS);
}
