import { showAttempt } from "../../core/task/retry.ts";
import type { QueueStats } from "../../api/queue-types.ts";
import type { TaskInfo } from "../../api/task-handle.ts";
import { escapeControls } from "../../core/errors/show.ts";
import { describeHeldBack } from "../commands/queues.ts";
import { formatAge, formatDuration, formatRate } from "../human.ts";
import { paint } from "../output.ts";
import { type Column, formatTable } from "../table.ts";
import { clipPainted, clipTo } from "../width.ts";
import type { Snapshot } from "./snapshot.ts";

/** The lines of `dibs top`, from a snapshot and what the person has selected. Pure: the screen writes them. */
export interface View {
  /** The index of the selected queue. */
  selected: number;
  /** The queue that is open; null: all queues. */
  open: string | null;
  /** The last failure or what a key did; null: nothing to say. */
  message: string | null;
  address: string;
}

export interface Size {
  columns: number;
  rows: number;
}

export function draw(snapshot: Snapshot | null, view: View, { columns, rows }: Size): string[] {
  const head = [title(snapshot, view), ""];
  const foot = ["", paint("faint", clipTo(keysOf(view), columns))];
  if (view.message !== null) foot.unshift(paint("amber", clipTo(escapeControls(view.message), columns)));
  const body = snapshot === null ? ["…"] : bodyOf(snapshot, view, columns, rows - head.length - foot.length);
  const room = Math.max(1, rows - head.length - foot.length);
  const lines = [...head, ...body.slice(0, room), ...foot].slice(0, rows);
  // A longer line would take two rows, and push the first ones out of the screen.
  return lines.map((line) => clipPainted(line, columns));
}

function title(snapshot: Snapshot | null, { open, address }: View): string {
  const time = snapshot?.at.toISOString().slice(11, 19) ?? "";
  const name = open === null ? "dibs top" : `dibs top: ${escapeControls(open)}`;
  return `${paint("bold", name)}  ${paint("faint", `${escapeControls(address)}  ${time}`)}`;
}

function keysOf({ open }: View): string {
  return open === null
    ? "↑ ↓ select · Enter open · p pause or resume · q quit"
    : "Esc back · p pause or resume · q quit";
}

function bodyOf(snapshot: Snapshot, view: View, columns: number, rows: number): string[] {
  const { queues } = snapshot;
  if (view.open !== null) {
    const stats = queues.find(({ queue }) => queue === view.open);
    return stats ? queueLines(stats, snapshot, columns) : ["This queue is gone. Press Esc."];
  }
  if (queues.length === 0) return ["There are no queues yet."];
  const workers = workerLines(snapshot, columns);
  // Half of the screen at least is for queues; the selected one stays visible.
  const room = Math.max(
    3,
    Math.min(queues.length + 1, rows - Math.min(workers.length + 1, Math.floor(rows / 2))),
  );
  const [head, ...lines] = formatTable(queues, columnsFor(columns), columns - 2);
  const from = Math.max(0, Math.min(view.selected - room + 2, lines.length - room + 1));
  const marked = lines.map((line, index) =>
    index === view.selected ? `${paint("accent", "▸")} ${line}` : `  ${line}`,
  );
  return [`  ${head!}`, ...marked.slice(from, from + room - 1), "", ...workers];
}

/** Cells of the strip. In a narrow terminal, it makes room for figures. */
const STRIP = 20;
const NARROW_STRIP = 8;
const NARROW = 100;

/** The head of the line is on the left: what is claimed, then what is ready. One cell is one task, until it is full. */
function strip({ depth, paused }: QueueStats, cells: number): string {
  const claimed = Math.min(depth.claimed, cells);
  const ready = Math.min(depth.ready + depth.waiting, cells - claimed);
  const rest = "·".repeat(cells - claimed - ready);
  return `${"▣".repeat(claimed)}${(paused ? "▨" : "■").repeat(ready)}${rest}`;
}

export const QUEUE_COLUMNS = queueColumns(STRIP);

function queueColumns(cells: number): readonly Column<QueueStats>[] {
  return [
    { head: "QUEUE", cell: ({ queue, paused }) => (paused ? `${queue} (paused)` : queue), isCut: true },
    {
      head: "LINE",
      cell: (stats) => strip(stats, cells),
      dropsAt: 5,
      colour: ({ paused }) => (paused ? "amber" : "accent"),
    },
    { head: "READY", cell: ({ depth }) => depth.ready },
    { head: "CLAIMED", cell: ({ depth }) => depth.claimed, dropsAt: 6 },
    {
      head: "LATER",
      cell: ({ depth }) => depth.waiting + depth.scheduled + depth.parked + depth.verifying,
      dropsAt: 1,
    },
    {
      head: "DEAD",
      cell: ({ depth }) => depth.dead,
      dropsAt: 3,
      colour: ({ depth }) => (depth.dead > 0 ? "red" : "faint"),
    },
    { head: "IN/S", cell: ({ rates }) => formatRate(rates.addedPerSecond), isNumber: true, dropsAt: 8 },
    { head: "OUT/S", cell: ({ rates }) => formatRate(rates.donePerSecond), isNumber: true, dropsAt: 9 },
    {
      head: "OLDEST",
      cell: ({ oldestAge }) => (oldestAge === null ? "" : formatDuration(oldestAge)),
      dropsAt: 2,
    },
    { head: "WORKERS", cell: ({ workers }) => workers, dropsAt: 4 },
    // Beyond this many workers, more of them add nothing.
    { head: "KNEE", cell: kneeOf, isNumber: true, dropsAt: 7 },
    {
      head: "HELD BACK",
      cell: ({ heldBack }) => describeHeldBack(heldBack),
      colour: () => "amber",
      isOptional: true,
    },
  ];
}

function columnsFor(width: number): readonly Column<QueueStats>[] {
  return width < NARROW ? queueColumns(NARROW_STRIP) : QUEUE_COLUMNS;
}

function kneeOf({ advice: { knee } }: QueueStats): string {
  return knee.workers === null ? "" : formatRate(knee.workers);
}

interface WorkerRow {
  name: string;
  claims: number;
  concurrency: number;
  queues: string;
  runs: string;
}

export const WORKER_COLUMNS: readonly Column<WorkerRow>[] = [
  { head: "WORKER", cell: ({ name }) => name },
  { head: "CLAIMS", cell: ({ claims }) => claims },
  { head: "OF", cell: ({ concurrency }) => concurrency, dropsAt: 2 },
  { head: "QUEUES", cell: ({ queues }) => queues, dropsAt: 1 },
  { head: "RUNS", cell: ({ runs }) => runs, isCut: true },
];

export function workerRows({ workers, running, at }: Snapshot): WorkerRow[] {
  return workers.map(({ id, name, claims, concurrency, queues }) => ({
    ...{ name, claims, concurrency, queues: queues.join(" ") },
    runs: running
      .filter((task) => task.worker === id)
      .map((task) => describeTask(task, at))
      .join(", "),
  }));
}

function describeTask({ id, queue, startedAt, progress }: TaskInfo, at: Date): string {
  const share = progress ? ` ${Math.round(progress.value * 100)} %` : "";
  return `${queue} ${id.slice(-8)} ${formatAge(startedAt, at.getTime())}${share}`;
}

function workerLines(snapshot: Snapshot, columns: number): string[] {
  const rows = workerRows(snapshot);
  if (rows.length === 0) return [paint("faint", "  No worker runs.")];
  return formatTable(rows, WORKER_COLUMNS, columns - 2).map((line) => `  ${line}`);
}

const TASK_COLUMNS: readonly Column<TaskInfo>[] = [
  { head: "RUNNING", cell: ({ id }) => id },
  { head: "FOR", cell: ({ startedAt }) => formatAge(startedAt) },
  { head: "ATTEMPT", cell: ({ attempt, maxAttempts }) => showAttempt(attempt, maxAttempts, "/") },
  {
    head: "PROGRESS",
    cell: ({ progress }) => (progress ? `${Math.round(progress.value * 100)} % ${progress.note ?? ""}` : ""),
    isOptional: true,
  },
  { head: "DATA", cell: ({ data }) => JSON.stringify(data) ?? "", isCut: true },
];

function queueLines(stats: QueueStats, { running }: Snapshot, columns: number): string[] {
  const tasks = running.filter(({ queue }) => queue === stats.queue);
  const summary = stats.advice.summary.map((sentence) => clipTo(escapeControls(sentence), columns));
  const now =
    tasks.length === 0 ? [paint("faint", "Nothing runs.")] : formatTable(tasks, TASK_COLUMNS, columns);
  return [
    ...formatTable([stats], columnsFor(columns), columns),
    "",
    ...summary,
    ...kneeLines(stats),
    "",
    ...now,
  ];
}

function kneeLines({ advice: { knee } }: QueueStats): string[] {
  if (knee.workers === null || knee.ratePerWorker === null) return [];
  const each = `a worker does ${formatRate(knee.ratePerWorker)}/s and ${formatRate(knee.arrivals)}/s arrive`;
  return [`The knee is at ${formatRate(knee.workers)} workers: ${each}. More of them add nothing.`];
}
