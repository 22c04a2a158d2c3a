import { governsGroups, isGated, resolvePolicy } from "../../../core/queue/policy.ts";
import type {
  GateState,
  GroupEntry,
  QueueEntry,
  StoreRecord,
  SubscriptionEntry,
} from "../../../core/record/record.ts";
import { parseTaskId } from "../../../core/task/task-id.ts";
import { type ImportTarget, rowsOf } from "../../../engine/import-rows.ts";
import type { Connection } from "../connection/connection.ts";
import { errorCell } from "../flows/child-error.ts";
import { insertRows } from "../statements/insert-rows.ts";
import { numbers } from "../statements/text.ts";
import { importTasks } from "./import-tasks.ts";
import { cellsOf } from "./rows.ts";

/** Writes records of an export, in their order, into a store that is being filled, for transfer.ts. */

/** The queues that were imported so far. */
export type Queues = Map<string, ImportedQueue>;

export interface ImportedQueue {
  id: number;
  /** It has a row in `gate`. */
  limited: boolean;
}

const QUEUES = `
  SELECT id, name, EXISTS (SELECT 1 FROM dibs.gate WHERE gate.queue = queue.id) AS limited FROM dibs.queue`;

/** In the open transaction. */
export async function importRecords(link: Connection, records: readonly StoreRecord[]): Promise<void> {
  const of = <T extends StoreRecord["type"]>(type: T) =>
    records.filter((record): record is StoreRecord & { type: T } => record.type === type);
  const [store] = await link.all<{ salt: number }>(`SELECT salt FROM dibs.store WHERE one = 1`);
  const known = await link.all<ImportedQueue & { name: string }>(QUEUES);
  const queues: Queues = new Map(known.map(({ id, name, limited }) => [name, { id, limited }]));
  const target = targetOf(store!.salt, queues);
  for (const record of of("queue")) await importQueue(link, queues, record);
  await importGroups(link, queues, of("group"));
  for (const record of of("subscription")) await importSubscription(link, queues, record);
  const rows = records.flatMap((record) => rowsOf(target, record));
  for (const [table, some] of Map.groupBy(rows, ([name]) => name))
    await insertRows(
      link,
      table,
      some.map(([, row]) => cellsOf(table, row)),
    );
  const parents = new Set(of("child").map(({ parent }) => target.place(parent).seq));
  // A family may be divided between two batches of records.
  if (parents.size > 0) await link.all(INSERT_FAMILIES, numbers([...parents]));
  await importTasks(link, queues, target, of("task"));
}

const INSERT_FAMILIES = `
  INSERT INTO dibs.family (parent) SELECT unnest($1::int8[]) ON CONFLICT DO NOTHING`;

function targetOf(salt: number, queues: Queues): ImportTarget {
  const place = (id: string) => parseTaskId(id, salt)!;
  return {
    place,
    queueId: (name) => queues.get(name)!.id,
    taskColumns: ({ priority = 0, urgent }) => ({ priority, urgent: urgent ?? null }),
    verifyingColumns: ({ verifying }) => ({
      asked: verifying!.asked === undefined ? 0 : place(verifying!.asked).seq,
    }),
    errorText: errorCell,
  };
}

const INSERT_QUEUE = `
  INSERT INTO dibs.queue (name, named, declared, paused, created_at, revision)
  SELECT $1, $2, $3, $4, $5, revision FROM dibs.store WHERE one = 1 RETURNING id`;
const INSERT_GATE = `
  INSERT INTO dibs.gate (queue, meter, held_until, wake_at, reviewed) VALUES ($1, $2, $3, $4, $5)`;

async function importQueue(link: Connection, queues: Queues, record: QueueEntry): Promise<void> {
  const { name, policy, declared = null, paused = false, createdAt, flow = [], reviewed = null } = record;
  const [row] = await link.all<{ id: number }>(
    ...([INSERT_QUEUE, name, JSON.stringify(policy), declared, paused, createdAt] as const),
  );
  const { id } = row!;
  const resolved = resolvePolicy(policy);
  const gate = gateCells(record);
  const hasState = reviewed !== null || Object.values(gate).some((value) => value !== null);
  const limited = hasState || isGated(resolved) || governsGroups(resolved);
  if (limited) await link.all(INSERT_GATE, id, gate.meter, gate.held_until, gate.wake_at, reviewed);
  queues.set(name, { id, limited });
  await insertRows(
    link,
    "flow",
    flow.map(({ slot, added, claimed, done, failed, waitMs, serviceMs }) => ({
      ...{ queue: id, slot, added, started: claimed, succeeded: done, failed },
      ...{ wait_ms: waitMs, service_ms: serviceMs },
    })),
  );
}

function gateCells({ meter, heldUntil, wakeAt }: GateState) {
  return {
    meter: meter ? JSON.stringify(meter) : null,
    held_until: heldUntil ?? null,
    wake_at: wakeAt ?? null,
  };
}

/** Before their tasks, which add to `holders`. */
async function importGroups(link: Connection, queues: Queues, records: readonly GroupEntry[]): Promise<void> {
  for (const { queue: name } of records) {
    const queue = queues.get(name)!;
    if (queue.limited) continue;
    await link.all(INSERT_GATE, queue.id, null, null, null, null);
    queue.limited = true;
  }
  await insertRows(
    link,
    "lane",
    records.map((record) => ({
      ...{ queue: queues.get(record.queue)!.id, group_key: record.key, holders: 0 },
      ...gateCells(record),
    })),
  );
}

const INSERT_SUBSCRIPTION = `
  INSERT INTO dibs.subscription (id, created_at, queue, pattern, group_name)
  SELECT subscribed + 1, $1, $2, $3, $4 FROM dibs.store WHERE one = 1`;
const COUNT_SUBSCRIPTION = `UPDATE dibs.store SET subscribed = subscribed + 1 WHERE one = 1`;

async function importSubscription(
  link: Connection,
  queues: Queues,
  record: SubscriptionEntry,
): Promise<void> {
  const { pattern, group, queue, createdAt } = record;
  await link.all(INSERT_SUBSCRIPTION, createdAt, queues.get(queue)!.id, pattern, group);
  await link.all(COUNT_SUBSCRIPTION);
}
