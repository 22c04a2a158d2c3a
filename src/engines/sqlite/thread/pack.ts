import type { AddedTask, Body, ClaimedTask, NewTask } from "../../../core/task/task.ts";
import type { ClaimOutcome } from "../../../engine/claim-request.ts";
import type { Op, Outcome, Verbs } from "../../../engine/engine.ts";
import { type HeaderColumns, headerColumns, packHeaders, unpackHeaders } from "./pack-headers.ts";

/**
 * The form in which batches cross between threads. To copy an object from one thread to another costs about as much as
 * all that SQLite does for it; to copy a list of texts or numbers costs almost nothing. So frequent operations and
 * outcomes cross as columns (one list per field), and the others as objects. Unpacking returns what was packed.
 */
export type PackedOps = (Adds | AddMany | Publishes | Successes | { op: Op })[];
export type PackedOutcomes = (Added | Published | Done | ClaimColumns | Listened | { outcome: Outcome })[];

/**
 * Operations that follow each other, each of which adds one task to the same queue. The tasks have data, a content type
 * and headers, and no other options.
 */
interface Adds extends HeaderColumns {
  queue: string;
  data: Body[];
}

/** One operation that adds many such tasks to one queue. */
interface AddMany extends HeaderColumns {
  into: string;
  all: Body[];
}

/** Operations that follow each other, each of which publishes one message to the same topic. */
interface Publishes {
  topic: string;
  messages: Body[];
}

/** Settlements that follow each other, each a success that adds no tasks. */
interface Successes {
  ids: string[];
  fences: number[];
  results: (Body | null)[];
}

export function packOps(ops: readonly Op[]): PackedOps {
  const packed: PackedOps = [];
  let last: PackedOps[number] | undefined;
  for (const op of ops) {
    if (isPlainAdd(op) && op.tasks.length > 1) {
      const { tasks } = op;
      const all = tasks.map(({ data }) => data);
      packed.push((last = { into: tasks[0]!.queue, all, ...headerColumns() }));
      for (const task of tasks) packHeaders(last, task);
    } else if (isPlainAdd(op)) {
      const task = op.tasks[0]!;
      const { queue, data } = task;
      if (!last || !("queue" in last) || last.queue !== queue)
        packed.push((last = { queue, data: [], ...headerColumns() }));
      last.data.push(data);
      packHeaders(last, task);
    } else if (isPlainPublish(op)) {
      const { topic, data } = op.message;
      if (!last || !("topic" in last) || last.topic !== topic) packed.push((last = { topic, messages: [] }));
      last.messages.push(data);
    } else if (isPlainSuccess(op)) {
      if (!last || !("fences" in last)) packed.push((last = { ids: [], fences: [], results: [] }));
      last.ids.push(op.id);
      last.fences.push(op.fence);
      last.results.push(op.settlement.result);
    } else {
      packed.push((last = { op }));
    }
  }
  return packed;
}

/** The number of operations, where an add counts as many as it has tasks. */
export function sizeOf(packed: PackedOps): number {
  return packed.reduce((size, piece) => size + sizeOfPiece(piece), 0);
}

function sizeOfPiece(piece: PackedOps[number]): number {
  if ("op" in piece) return piece.op.verb === "add" ? piece.op.tasks.length : 1;
  if ("queue" in piece) return piece.data.length;
  if ("into" in piece) return piece.all.length;
  return "topic" in piece ? piece.messages.length : piece.ids.length;
}

export function unpackOps(packed: PackedOps): Op[] {
  const ops: Op[] = [];
  for (const piece of packed) {
    if ("op" in piece) {
      ops.push(piece.op);
    } else if ("queue" in piece) {
      for (const task of unpackTasks(piece.queue, piece.data, piece))
        ops.push({ verb: "add", tasks: [task] });
    } else if ("into" in piece) {
      ops.push({ verb: "add", tasks: unpackTasks(piece.into, piece.all, piece) });
    } else if ("topic" in piece) {
      const { topic } = piece;
      for (const data of piece.messages) ops.push({ verb: "publish", message: { topic, data } });
    } else {
      for (const [i, id] of piece.ids.entries()) {
        const settlement = { kind: "done" as const, result: piece.results[i]! };
        ops.push({ verb: "settle", id, fence: piece.fences[i]!, settlement });
      }
    }
  }
  return ops;
}

function unpackTasks(queue: string, all: readonly Body[], columns: HeaderColumns): NewTask[] {
  const tasks: NewTask[] = [];
  unpackHeaders(columns, (index, contentType, headers) => {
    const task: NewTask = { queue, data: all[index]! };
    if (contentType !== undefined) task.contentType = contentType;
    if (headers) task.headers = headers;
    tasks.push(task);
  });
  return tasks;
}

function isPlainAdd(op: Op): op is Op<"add"> {
  if (op.verb !== "add" || op.tasks.length === 0) return false;
  const { queue } = op.tasks[0]!;
  for (const task of op.tasks) if (task.queue !== queue || !hasOnly(ADD_COLUMNS, task)) return false;
  return true;
}

function isPlainPublish(op: Op): op is Op<"publish"> {
  return op.verb === "publish" && hasOnly(PUBLISH_COLUMNS, op.message);
}

const ADD_COLUMNS = new Set(["queue", "data", "contentType", "headers"]);
const PUBLISH_COLUMNS = new Set(["topic", "data"]);

function hasOnly(columns: ReadonlySet<string>, task: object): boolean {
  for (const name in task) if (!columns.has(name)) return false;
  return true;
}

function isPlainSuccess(op: Op): op is Op<"settle"> & { settlement: { kind: "done" } } {
  return (
    op.verb === "settle" &&
    op.settlement.kind === "done" &&
    op.spent === undefined &&
    addsNothing(op.settlement)
  );
}

function addsNothing({ adds, each, next }: { adds?: unknown; each?: unknown; next?: unknown }): boolean {
  return adds === undefined && each === undefined && next === undefined;
}

/** The outcomes of adds that follow each other, if all their tasks are new and ready: the ids of the tasks. */
interface Added {
  ids: string[];
}

/** The outcomes of publishes that follow each other, and reached the same queues: one ready task in each. */
interface Published {
  /** The number of publishes. */
  count: number;
  /** The queues. */
  reached: string[];
  /** The ids of the tasks: those of the first publish, in the order of the queues, then those of the second. */
  copies: string[];
}

/** The outcomes of successes that follow each other: their number. */
interface Done {
  done: number;
}

/** The outcome of `listen`. The events are one text with a line for each: to copy many short texts would take longer. */
interface Listened extends Omit<Verbs["listen"]["out"], "events"> {
  events: string;
}

/** The outcome of a claim. */
interface ClaimColumns extends Omit<ClaimOutcome, "tasks">, HeaderColumns {
  queues: string[];
  ids: string[];
  fences: number[];
  attempts: number[];
  createdAt: number[];
  data: Body[];
  /** The fields of tasks that do not have the defaults (hasDefaults), with the index of the task. */
  special: [number, Special][];
}

type Special = Pick<
  ClaimedTask,
  "maxAttempts" | "priority" | "groupKey" | "cost" | "stepped" | "feedback" | "run"
>;

export function packOutcomes(outcomes: readonly Outcome[], ops: readonly Op[]): PackedOutcomes {
  const packed: PackedOutcomes = [];
  let last: PackedOutcomes[number] | undefined;
  for (const [i, outcome] of outcomes.entries()) {
    const op = ops[i]!;
    if (op.verb === "settle" && "ok" in outcome && (outcome.ok as { state: string }).state === "done") {
      if (!last || !("done" in last)) packed.push((last = { done: 0 }));
      last.done++;
    } else if (op.verb === "add" && op.tasks.length > 0 && areReady(outcome)) {
      if (!last || !("ids" in last) || "fences" in last) packed.push((last = { ids: [] }));
      for (const { id } of outcome.ok) last.ids.push(id);
    } else if (isPlainPublish(op) && areReady(outcome)) {
      const { ok } = outcome;
      if (!last || !("copies" in last) || !isSameReach(last.reached, ok)) {
        packed.push((last = { count: 0, reached: ok.map(({ queue }) => queue), copies: [] }));
      }
      last.count++;
      for (const { id } of ok) last.copies.push(id);
    } else if (op.verb === "claim" && "ok" in outcome) {
      packed.push((last = packClaim(outcome.ok as ClaimOutcome)));
    } else if (op.verb === "listen" && "ok" in outcome) {
      const listened = outcome.ok as Verbs["listen"]["out"];
      packed.push((last = { ...listened, events: listened.events.join("\n") }));
    } else {
      packed.push((last = { outcome }));
    }
  }
  return packed;
}

/** `ops`: the operations that have these outcomes. */
export function unpackOutcomes(packed: PackedOutcomes, ops: readonly Op[]): Outcome[] {
  const outcomes: Outcome[] = [];
  for (const piece of packed) {
    if ("outcome" in piece) {
      outcomes.push(piece.outcome);
    } else if ("done" in piece) {
      for (let i = 0; i < piece.done; i++) outcomes.push(DONE);
    } else if ("fences" in piece) {
      outcomes.push({ ok: unpackClaim(piece) });
    } else if ("events" in piece) {
      outcomes.push({ ok: { ...piece, events: piece.events === "" ? [] : piece.events.split("\n") } });
    } else if ("copies" in piece) {
      const { count, reached, copies } = piece;
      for (let i = 0; i < count; i++) {
        const from = i * reached.length;
        outcomes.push({
          ok: reached.map((queue, n) => ({ id: copies[from + n]!, queue, state: "ready", existing: false })),
        });
      }
    } else {
      const { ids } = piece;
      for (let from = 0; from < ids.length;) {
        const ok: AddedTask[] = [];
        for (const { queue } of (ops[outcomes.length] as Op<"add">).tasks)
          ok.push({ id: ids[from++]!, queue, state: "ready", existing: false });
        outcomes.push({ ok });
      }
    }
  }
  return outcomes;
}

/** One frozen object for all successes: no code changes an outcome. */
const DONE: Outcome<"settle"> = Object.freeze({ ok: Object.freeze({ state: "done" as const }) });

/** All added or published tasks are new and ready. */
function areReady(outcome: Outcome): outcome is { ok: AddedTask[] } {
  if (!("ok" in outcome)) return false;
  return (outcome.ok as AddedTask[]).every(({ state, existing }) => state === "ready" && !existing);
}

function isSameReach(reached: string[], added: AddedTask[]): boolean {
  return reached.length === added.length && added.every(({ queue }, i) => queue === reached[i]);
}

function packClaim({ tasks, ...rest }: ClaimOutcome): ClaimColumns {
  const columns: ClaimColumns = {
    ...rest,
    queues: [],
    ids: [],
    fences: [],
    attempts: [],
    createdAt: [],
    data: [],
    special: [],
    ...headerColumns(),
  };
  for (const [i, task] of tasks.entries()) {
    columns.queues.push(task.queue);
    columns.ids.push(task.id);
    columns.fences.push(task.fence);
    columns.attempts.push(task.attempt);
    columns.createdAt.push(task.createdAt);
    columns.data.push(task.data);
    packHeaders(columns, task);
    if (!hasDefaults(task, rest.policies[task.queue]!.maxAttempts)) {
      const { maxAttempts, priority, groupKey, cost, stepped, feedback, run } = task;
      columns.special.push([
        i,
        {
          maxAttempts,
          priority,
          groupKey,
          ...(cost !== undefined && { cost }),
          ...(stepped && { stepped }),
          ...(feedback !== undefined && { feedback }),
          ...(run && { run }),
        },
      ]);
    }
  }
  return columns;
}

/** Whether the columns tell all about the task, because its other fields have the values that unpackClaim fills in. */
function hasDefaults(task: ClaimedTask, maxAttempts: number): boolean {
  if (
    task.stepped ||
    task.run ||
    task.cost !== undefined ||
    task.feedback !== undefined ||
    task.groupKey !== null ||
    task.priority !== 0
  )
    return false;
  return task.maxAttempts === maxAttempts;
}

function unpackClaim({
  queues,
  ids,
  fences,
  attempts,
  createdAt,
  data,
  special,
  shapes,
  values,
  ...rest
}: ClaimColumns): ClaimOutcome {
  const tasks: ClaimedTask[] = [];
  unpackHeaders({ shapes, values }, (i, contentType, headers) => {
    const queue = queues[i]!;
    tasks.push({
      id: ids[i]!,
      fence: fences[i]!,
      queue,
      data: data[i]!,
      contentType: contentType!,
      headers: headers!,
      attempt: attempts[i]!,
      maxAttempts: rest.policies[queue]!.maxAttempts,
      priority: 0,
      groupKey: null,
      createdAt: createdAt[i]!,
    });
  });
  for (const [i, fields] of special) Object.assign(tasks[i]!, fields);
  return { tasks, ...rest };
}
