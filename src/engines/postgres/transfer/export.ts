import type { Flow } from "../../../core/queue/flow.ts";
import type { NamedPolicy } from "../../../core/queue/policy.ts";
import type { StoreHeader, StoreRecord } from "../../../core/record/record.ts";
import { formatTaskId } from "../../../core/task/task-id.ts";
import {
  type ChildRow,
  childEntry,
  type GateRow,
  gateState,
  headerOf,
  type Ids,
  type KeyRow,
  keyEntry,
  type PartRow,
  partEntry,
  present,
  type RunRow,
  runEntry,
} from "../../../engine/export-rows.ts";
import { THIS_MOMENT } from "../statements/clock.ts";
import type { Connection } from "../connection/connection.ts";
import { errorFromCell } from "../flows/child-error.ts";
import { SIGNALS, signalsFrom } from "../flows/run-signals.ts";
import { fromColumns, fromText, numbers } from "../statements/text.ts";
import { exportTasks } from "./export-tasks.ts";
import { walk } from "./rows.ts";

/** The store that is exported. */
export interface Source extends Ids {
  link: Connection;
  header: StoreHeader;
  /** Names by id. */
  queues: Map<number, string>;
}

const lastOf = (sequence: string): string =>
  `(SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM dibs.${sequence})`;
const HEADER = `
  SELECT salt AS store, ${THIS_MOMENT} AS now,
    ${lastOf("seq")} AS seq, ${lastOf("fence")} AS fence
  FROM dibs.store WHERE one = 1`;

/**
 * The records of a whole store except the last one, in an open transaction with a fixed snapshot; transfer.ts calls it.
 * `paused`: queues that a move has paused, and that are exported as not paused.
 */
export async function* exportStore(
  link: Connection,
  id: string | null,
  paused: readonly string[],
): AsyncGenerator<StoreRecord> {
  const [row] = await link.all<Pick<StoreHeader, "store" | "now" | "seq" | "fence">>(HEADER);
  const header = headerOf(id, row!);
  const source: Source = {
    ...{ link, header, queues: new Map<number, string>() },
    id: (createdAt, seq) => formatTaskId(createdAt, seq, header.store),
  };
  yield header;
  yield* exportQueues(source, new Set(paused));
  yield* exportGroups(source);
  yield* exportSubscriptions(source);
  yield* exportDocuments(source);
  yield* exportRuns(source);
  yield* exportParts(source);
  yield* exportChildren(source);
  yield* exportTasks(source);
  yield* exportKeys(source);
}

/** Small rows at a time. */
const SOME = 1_000;
/** Rows at a time that may have a result of 16 MiB. */
const FEW = 4;

const QUEUES = `
  SELECT queue.id, name, named, declared, paused, created_at, gate.meter, gate.held_until, gate.wake_at, gate.reviewed
  FROM dibs.queue LEFT JOIN LATERAL (
    SELECT * FROM dibs.gate WHERE gate.queue = queue.id ORDER BY n DESC LIMIT 1) AS gate ON true
  ORDER BY queue.id`;
const FLOWS = `
  SELECT queue, slot, sum(added)::int8 AS added, sum(started)::int8 AS claimed, sum(succeeded)::int8 AS done,
    sum(failed)::int8 AS failed, sum(wait_ms)::int8 AS "waitMs", sum(service_ms)::int8 AS "serviceMs"
  FROM (
    SELECT queue, slot, added, started, succeeded, failed, wait_ms, service_ms FROM dibs.flow
    UNION ALL SELECT queue, slot, added, started, succeeded, failed, wait_ms, service_ms FROM dibs.delta) AS part
  WHERE added + started + succeeded + failed + wait_ms + service_ms > 0 GROUP BY queue, slot ORDER BY queue, slot`;

interface QueueRow extends GateRow {
  id: number;
  name: string;
  named: string;
  declared: string | null;
  paused: boolean;
  created_at: number;
  reviewed: string | null;
}

async function* exportQueues(source: Source, byMove: ReadonlySet<string>): AsyncGenerator<StoreRecord> {
  const flows = await source.link.all<Flow & { queue: number; slot: number }>(FLOWS);
  const byQueue = Map.groupBy(flows, ({ queue }) => queue);
  for await (const rows of walk<QueueRow>(source.link, QUEUES, SOME)) {
    for (const row of rows) {
      const { id, name, declared, created_at: createdAt, reviewed } = row;
      source.queues.set(id, name);
      const flow = byQueue.get(id)?.map(({ slot, added, claimed, done, failed, waitMs, serviceMs }) => ({
        ...{ slot, added, claimed, done, failed, waitMs, serviceMs },
      }));
      yield {
        ...{ type: "queue", name, policy: JSON.parse(row.named) as NamedPolicy },
        ...present({ declared }),
        ...(row.paused && !byMove.has(name) && { paused: true as const }),
        ...{ createdAt, ...gateState(row), ...present({ reviewed }) },
        ...(flow && { flow }),
      };
    }
  }
}

const LANES = `
  SELECT queue, group_key, meter, held_until, wake_at FROM dibs.lane
  WHERE meter IS NOT NULL OR held_until IS NOT NULL OR wake_at IS NOT NULL ORDER BY queue, group_key`;

async function* exportGroups({ link, queues }: Source): AsyncGenerator<StoreRecord> {
  type Row = GateRow & { queue: number; group_key: string };
  for await (const rows of walk<Row>(link, LANES, SOME))
    for (const row of rows)
      yield { type: "group", queue: queues.get(row.queue)!, key: row.group_key, ...gateState(row) };
}

const SUBSCRIPTIONS = `SELECT pattern, group_name, queue, created_at FROM dibs.subscription ORDER BY id`;

async function* exportSubscriptions({ link, queues }: Source): AsyncGenerator<StoreRecord> {
  type Row = { pattern: string; group_name: string; queue: number; created_at: number };
  for await (const rows of walk<Row>(link, SUBSCRIPTIONS, SOME))
    for (const { pattern, group_name: group, queue, created_at: createdAt } of rows)
      yield { type: "subscription", pattern, group, queue: queues.get(queue)!, createdAt };
}

const DOCUMENTS = `SELECT kind, name, value, due_at FROM dibs.document ORDER BY kind, name`;

async function* exportDocuments({ link }: Source): AsyncGenerator<StoreRecord> {
  type Row = { kind: string; name: string; value: string; due_at: number | null };
  for await (const rows of walk<Row>(link, DOCUMENTS, FEW))
    for (const { kind, name, value, due_at: dueAt } of rows)
      yield { type: "document", kind, name, value: fromText(value), ...present({ dueAt }) };
}

const RUNS = `SELECT * FROM dibs.run ORDER BY id`;

interface ResultColumns {
  result: string | null;
  result_bytes: Uint8Array | null;
}

async function* exportRuns(source: Source): AsyncGenerator<StoreRecord> {
  for await (const rows of walk<RunRow & ResultColumns>(source.link, RUNS, FEW)) {
    const signals = signalsFrom(await source.link.all(SIGNALS, numbers(rows.map(({ id }) => id))));
    for (const row of rows)
      yield runEntry(source, row, fromColumns(row.result, row.result_bytes), signals.get(row.id) ?? []);
  }
}

const PARTS = `
  SELECT run_part.*, run.created_at AS began_at FROM dibs.run_part JOIN dibs.run ON run.id = run_part.run
  ORDER BY run_part.task`;

async function* exportParts(source: Source): AsyncGenerator<StoreRecord> {
  type Row = PartRow & ResultColumns & { awaits_join: boolean };
  for await (const rows of walk<Row>(source.link, PARTS, FEW)) {
    for (const row of rows) {
      const result = fromColumns(row.result, row.result_bytes);
      yield partEntry(source, row, row.awaits_join ? { result } : null);
    }
  }
}

const CHILDREN = `
  SELECT child.*, parent.created_at AS parent_created_at FROM dibs.child JOIN dibs.task AS parent ON parent.seq = child.parent
  ORDER BY child.parent, child.n`;

async function* exportChildren(source: Source): AsyncGenerator<StoreRecord> {
  for await (const rows of walk<ChildRow & ResultColumns & { error: string | null }>(
    source.link,
    CHILDREN,
    FEW,
  )) {
    for (const row of rows) {
      const kept = { result: fromColumns(row.result, row.result_bytes), error: errorFromCell(row.error) };
      yield childEntry(source, { ...row, name: fromText(row.name) }, kept);
    }
  }
}

const KEYS = `SELECT * FROM dibs.idempotency ORDER BY queue, key`;

async function* exportKeys(source: Source): AsyncGenerator<StoreRecord> {
  for await (const rows of walk<KeyRow>(source.link, KEYS, SOME))
    for (const row of rows) yield keyEntry(source, row, source.queues.get(row.queue)!);
}
