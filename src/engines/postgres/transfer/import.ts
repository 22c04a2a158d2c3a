import { governsGroups, isGated, resolvePolicy } from "../../../core/queue/policy.ts";
import type {
  ChildEntry,
  DocumentEntry,
  GateState,
  GroupEntry,
  KeyEntry,
  PartEntry,
  QueueEntry,
  RunEntry,
  StoreRecord,
  SubscriptionEntry,
} from "../../../core/record/record.ts";
import { formatPart } from "../../../core/run/run-part.ts";
import { importTasks } from "./import-tasks.ts";
import { errorCell } from "../flows/child-error.ts";
import { numbers } from "../statements/text.ts";
import { insertRows } from "../statements/insert-rows.ts";
import { bodyCells, safeText } from "./rows.ts";
import { placeIn, type Target } from "./target.ts";

/** Writes records of an export, in their order, into a store that is being filled, for transfer.ts. */
export async function importRecords(target: Target, records: readonly StoreRecord[]): Promise<void> {
  const of = <T extends StoreRecord["type"]>(type: T) =>
    records.filter((record): record is StoreRecord & { type: T } => record.type === type);
  for (const record of of("queue")) await importQueue(target, record);
  await importGroups(target, of("group"));
  for (const record of of("subscription")) await importSubscription(target, record);
  await importDocuments(target, of("document"));
  await importRuns(target, of("run"));
  await importParts(target, of("part"));
  await importChildren(target, of("child"));
  await importTasks(target, of("task"));
  await importKeys(target, of("key"));
}

const INSERT_QUEUE = `
  INSERT INTO dibs.queue (name, named, declared, paused, created_at, revision)
  SELECT $1, $2, $3, $4, $5, revision FROM dibs.store WHERE one = 1 RETURNING id`;
const INSERT_GATE = `
  INSERT INTO dibs.gate (queue, meter, held_until, wake_at, reviewed) VALUES ($1, $2, $3, $4, $5)`;

async function importQueue({ link, queues }: Target, record: QueueEntry): Promise<void> {
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
async function importGroups({ link, queues }: Target, records: readonly GroupEntry[]): Promise<void> {
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

async function importSubscription({ link, queues }: Target, record: SubscriptionEntry): Promise<void> {
  const { pattern, group, queue, createdAt } = record;
  await link.all(INSERT_SUBSCRIPTION, createdAt, queues.get(queue)!.id, pattern, group);
  await link.all(COUNT_SUBSCRIPTION);
}

function importDocuments({ link }: Target, records: readonly DocumentEntry[]): Promise<void> {
  return insertRows(
    link,
    "document",
    records.map(({ kind, name, value, dueAt = null }) => ({
      ...{ kind, name, value: safeText(value), due_at: dueAt ?? null },
    })),
  );
}

/** Before their tasks, which add to `dead`. */
async function importRuns(target: Target, records: readonly RunEntry[]): Promise<void> {
  await insertRows(
    target.link,
    "run",
    records.map((record) => {
      const { queue, pipeline, stages, underWay, state, endedAt, result } = record;
      const { seq, createdAt } = placeIn(target, record.id);
      const [text, bytes] = bodyCells(result);
      return {
        ...{ id: seq, created_at: createdAt, queue, pipeline, stages: JSON.stringify(stages) },
        counts: record.counts ? JSON.stringify(record.counts) : null,
        ...{ under_way: underWay, dead: 0, state: state ?? null, ended_at: endedAt ?? null, result: text },
        result_bytes: bytes,
      };
    }),
  );
  await insertRows(
    target.link,
    "run_signal",
    records.flatMap(({ id, signals = [] }) =>
      signals.map(({ name, value: given }) => {
        const [value, bytes] = bodyCells(given);
        return { run: placeIn(target, id).seq, name: safeText(name), value, bytes };
      }),
    ),
  );
}

function importParts(target: Target, records: readonly PartEntry[]): Promise<void> {
  return insertRows(
    target.link,
    "run_part",
    records.map((record) => {
      const { stage, part, state, startedAt, endedAt, awaitsJoin } = record;
      const { seq, createdAt } = placeIn(target, record.id);
      const [text, bytes] = bodyCells(awaitsJoin?.result);
      return {
        ...{ task: seq, run: placeIn(target, record.run).seq, created_at: createdAt, stage },
        ...{ part: formatPart(part), state: state ?? null, started_at: startedAt ?? null },
        ...{
          ended_at: endedAt ?? null,
          awaits_join: awaitsJoin !== undefined,
          result: text,
          result_bytes: bytes,
        },
      };
    }),
  );
}

/** Before the tasks: a child is special. */
async function importChildren(target: Target, records: readonly ChildEntry[]): Promise<void> {
  await insertRows(
    target.link,
    "child",
    records.map(({ id, parent, n, name, queue, state = null, endedAt = null, result, error }) => {
      const { seq, createdAt } = placeIn(target, id);
      const [text, bytes] = bodyCells(result);
      return {
        ...{ task: seq, parent: placeIn(target, parent).seq, created_at: createdAt, n, name: safeText(name) },
        ...{ queue, state, ended_at: endedAt, error: error ? errorCell(error) : null },
        ...{ result: text, result_bytes: bytes },
      };
    }),
  );
  const parents = new Set(records.map(({ parent }) => placeIn(target, parent).seq));
  // A family may be divided between two batches of records.
  if (parents.size > 0) await target.link.all(INSERT_FAMILIES, numbers([...parents]));
}

const INSERT_FAMILIES = `
  INSERT INTO dibs.family (parent) SELECT unnest($1::int8[]) ON CONFLICT DO NOTHING`;

function importKeys(target: Target, records: readonly KeyEntry[]): Promise<void> {
  return insertRows(
    target.link,
    "idempotency",
    records.map(({ queue, key, task, forgetAt, state }) => {
      const { seq, createdAt } = placeIn(target, task);
      return {
        ...{ queue: target.queues.get(queue)!.id, key, task: seq, created_at: createdAt },
        ...{ forget_at: forgetAt ?? null, state: state ?? null },
      };
    }),
  );
}
