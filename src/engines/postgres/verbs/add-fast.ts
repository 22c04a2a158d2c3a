import { storedContentType } from "../../../core/task/add-rules.ts";
import type { AddedTask, NewTask } from "../../../core/task/task.ts";
import { isChild } from "../../../core/handler/children.ts";
import type { RunTask } from "../../../core/run/run.ts";
import { bodiesOf, column, headersColumn, headersSql, type Payloads, textsSql } from "./add-columns.ts";
import { STATEMENT_BEGAN } from "../statements/clock.ts";
import { asKnown } from "../transaction/queue-cache.ts";
import { ENTER_AS_ADDED, noteAdded } from "../line/enter-line.ts";
import type { Value } from "../connection/connection.ts";
import { isOfRun } from "../flows/runs.ts";
import type { SentAhead } from "../statements/statements.ts";
import { numbers } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * The fast path of `add`: plain tasks in one statement. add.ts executes it, and add-together.ts sends it ahead. With 500
 * adds in progress one takes 53 µs of the client's CPU, and 78 on the general path; 15 and 18 of the server's. Medians of
 * four interleaved rounds on a busy machine.
 */

/**
 * Writes plain tasks into `task` and `ready`, and gives them their numbers. It may be sent ahead: $1 and $2 are the version
 * of the queues that this connection knows (send-ahead.ts). The numbers are mostly consecutive, and then only the first is
 * returned: to read thousands of rows would take as long as to write the tasks.
 */
const addPlainlySql = (payloads: Payloads): string => `
  WITH added AS (
    INSERT INTO dibs.task (created_at, seq, queue, priority, max_attempts, content_type, headers, data, bytes)
    SELECT (SELECT ${STATEMENT_BEGAN}), nextval('dibs.seq'), coalesce(queue, $3), coalesce(priority, 0), max_attempts, content_type, headers, data, bytes
    FROM ROWS FROM (unnest($4::int4[], $5::int2[], $6::int4[], $7::text[]), ${headersSql("$8")}, ${textsSql("$9", payloads)}, unnest($10::bytea[]))
      AS each (queue, priority, max_attempts, content_type, headers, data, bytes)
    WHERE $1::int8 IS NULL OR ${asKnown("$1", "$2")}
    RETURNING seq, queue, priority, created_at
  ), placed AS (${ENTER_AS_ADDED})
  SELECT min(created_at), min(seq), CASE WHEN max(seq) - min(seq) >= count(*) THEN (SELECT array_agg(seq ORDER BY seq) FROM added) END
  FROM added`;
const ADD_PLAINLY = { joined: addPlainlySql("joined"), listed: addPlainlySql("listed") };

type Row = [now: number, first: number | null, seqs: string[] | null];

/** Whether each needs only a row in `task` and one in `ready`: no key, group, delay, time-to-live, cost or run. */
export function areAllPlain(tx: Tx, tasks: readonly (NewTask | RunTask)[]): tasks is NewTask[] {
  return tasks.length > 0 && tasks.every((task) => isPlain(tx, task));
}

function isPlain(tx: Tx, task: NewTask | RunTask): boolean {
  if (task.idempotencyKey !== undefined || task.groupKey !== undefined || task.ttl !== undefined)
    return false;
  if (task.delay || task.cost !== undefined || task.urgent || isOfRun(task) || isChild(task)) return false;
  return tx.queues.named(task.queue)?.policy.ttl === null;
}

/** The tasks of each operation, and the outcomes of all. */
export interface Adds {
  adds: NewTask[][];
  added: AddedTask[];
}

/** Sends them ahead if all are plain; `addedAhead` finds the answer by `op`. */
export function addAhead(tx: Tx, op: object, adds: NewTask[][]): void {
  const tasks = adds.flat();
  if (!areAllPlain(tx, tasks)) return;
  const { payloads, values } = valuesFor(tx, tasks, tx.queues.knownBy);
  tx.sendAhead(op, adds, ADD_PLAINLY[payloads], ...values);
}

/** Undefined if nothing was sent ahead, or the store was not as expected and nothing was added. */
export async function addedAhead(tx: Tx, op: object): Promise<Adds | undefined> {
  const sent = tx.sentAhead.get(op) as SentAhead<NewTask[][], Row> | undefined;
  if (!sent) return undefined;
  tx.sentAhead.delete(op);
  const added = addedBy(tx, sent.what.flat(), await sent.answer);
  return added && { adds: sent.what, added };
}

/** All of which are plain. */
export async function addPlainly(tx: Tx, tasks: NewTask[]): Promise<AddedTask[]> {
  const { payloads, values } = valuesFor(tx, tasks);
  return addedBy(tx, tasks, await tx.rows<Row>(ADD_PLAINLY[payloads], ...values))!;
}

function valuesFor(
  tx: Tx,
  tasks: NewTask[],
  known?: { revision: number; epoch: number },
): { payloads: Payloads; values: Value[] } {
  const queue = tx.queues.named(tasks[0]!.queue)!.id;
  const { payloads, texts, bytes } = bodiesOf(tasks);
  const isOneQueue = tasks.every((task) => task.queue === tasks[0]!.queue);
  const values = [
    known?.revision ?? null,
    known?.epoch ?? null,
    queue,
    isOneQueue ? null : numbers(tasks.map((task) => tx.queues.named(task.queue)!.id)),
    column(tasks.map(({ priority }) => priority || null)),
    column(tasks.map(({ maxAttempts }) => maxAttempts ?? null)),
    column(tasks.map(storedContentType)),
    headersColumn(tasks),
    texts,
    bytes,
  ];
  return { payloads, values };
}

/** In the order of the tasks. */
function addedBy(tx: Tx, tasks: NewTask[], [row]: Row[]): AddedTask[] | undefined {
  const [now, first, seqs] = row!;
  if (first === null) return undefined;
  tx.noteWrite();
  const added = numbered(tx, tasks, { now, first, seqs });
  noteAdded(tx, tasks, (index) => seqOf({ first, seqs }, index));
  if (tx.events.listeners > 0)
    for (const { id, queue } of added) tx.events.announce({ type: "task.added", at: now, queue, taskId: id });
  return added;
}

interface Numbers {
  now: number;
  first: number;
  /** If they are not consecutive. */
  seqs: string[] | null;
}

function seqOf({ first, seqs }: Omit<Numbers, "now">, index: number): number {
  return seqs ? Number(seqs[index]) : first + index;
}

function numbered(tx: Tx, tasks: NewTask[], { now, first, seqs }: Numbers): AddedTask[] {
  return tasks.map(({ queue }, index) => ({
    id: tx.id(now, seqOf({ first, seqs }, index)),
    queue,
    state: "ready",
    existing: false,
  }));
}
