import type { TaskEntry } from "../../../core/record/record.ts";
import { type DepthByState, NO_DEPTH, rankOf } from "../../../core/task/task.ts";
import type { ImportTarget } from "../../../engine/import-rows.ts";
import type { Connection } from "../connection/connection.ts";
import { enterLineAsImported } from "../line/enter-line.ts";
import { insertRows } from "../statements/insert-rows.ts";
import { numbers } from "../statements/text.ts";
import type { ImportedQueue, Queues } from "./import.ts";

/** What an import writes of tasks besides their own rows: the line, lanes and counters. import.ts calls it. */

/** A task whose own rows are written. */
interface Arrival {
  record: TaskEntry;
  seq: number;
  queue: ImportedQueue;
}

/** After the runs and their parts: a task that is a part is special. */
export async function importTasks(
  link: Connection,
  queues: Queues,
  target: ImportTarget,
  records: readonly TaskEntry[],
): Promise<void> {
  if (records.length === 0) return;
  const arrivals = records.map((record): Arrival => {
    return { record, seq: target.place(record.id).seq, queue: queues.get(record.queue)! };
  });
  const inState = (state: TaskEntry["state"]): Arrival[] =>
    arrivals.filter(({ record }) => record.state === state);
  await enterLines(link, inState("ready"));
  await noteStepsAside(link, inState("verifying"));
  const dead = inState("dead");
  if (dead.length > 0) await link.all(COUNT_DEAD, numbers(dead.map(({ seq }) => seq)));
  await insertLanes(link, arrivals);
  await count(link, arrivals);
}

const COUNT_DEAD = `
  UPDATE dibs.run SET dead = dead + part.count
  FROM (SELECT run, count(*) FROM dibs.run_part WHERE task = ANY ($1::int8[]) GROUP BY run) AS part
  WHERE run.id = part.run`;

const OF_FLOWS = `
  SELECT task FROM dibs.run_part WHERE task = ANY ($1::int8[])
  UNION ALL SELECT task FROM dibs.child WHERE task = ANY ($1::int8[])`;

async function enterLines(link: Connection, arrivals: readonly Arrival[]): Promise<void> {
  if (arrivals.length === 0) return;
  const parts = await link.all<{ task: number }>(OF_FLOWS, numbers(arrivals.map(({ seq }) => seq)));
  const ofFlow = new Set(parts.map(({ task }) => task));
  const inLine = ({ record, seq: task, queue }: Arrival) => {
    const { groupKey, idempotencyKey, steps, feedback, failures = 0 } = record;
    const has = [groupKey, idempotencyKey, steps, feedback].some((value) => value !== undefined);
    return {
      ...{ pos: record.linePos ?? record.pos ?? task, task, queue: queue.id, rank: rankOf(record), failures },
      special: has || ofFlow.has(task),
      group_key: queue.limited ? (groupKey ?? null) : null,
    };
  };
  await enterLineAsImported(link, {
    ready: arrivals.filter(({ record }) => !record.elsewhere).map(inLine),
    elsewhere: arrivals.flatMap((arrival) => {
      const { elsewhere } = arrival.record;
      if (!elsewhere) return [];
      return { ...inLine(arrival), until: elsewhere.until, avoid: JSON.stringify(elsewhere.avoid) };
    }),
  });
}

/** Verifying tasks whose groups go on. */
async function noteStepsAside(link: Connection, arrivals: readonly Arrival[]): Promise<void> {
  const aside = arrivals.filter(({ record }) => record.groupKey !== undefined && !record.blocksGroup);
  const rows = aside.map(({ seq: task }) => ({ task }));
  await insertRows(link, "stepped_aside", rows);
}

/** Heads of groups, and tasks that block theirs. */
function insertLanes(link: Connection, arrivals: readonly Arrival[]): Promise<void> {
  const holding = arrivals.filter(
    ({ record }) => record.groupKey !== undefined && (record.state === "ready" || record.blocksGroup),
  );
  const lanes = Map.groupBy(holding, ({ queue, record }) => `${queue.id} ${record.groupKey}`);
  return insertRows(
    link,
    "lane",
    [...lanes.values()].map((some) => ({
      ...{ queue: some[0]!.queue.id, group_key: some[0]!.record.groupKey!, holders: some.length },
    })),
    `ON CONFLICT (queue, group_key) DO UPDATE SET holders = lane.holders + excluded.holders`,
  );
}

const STATES = Object.keys(NO_DEPTH) as (keyof DepthByState)[];

function count(link: Connection, arrivals: readonly Arrival[]): Promise<void> {
  const rows = [...Map.groupBy(arrivals, ({ queue }) => queue)].map(([{ id }, some]) => {
    const depth = { ...NO_DEPTH };
    for (const { record } of some) depth[record.state]++;
    return { queue: id, ...depth };
  });
  return insertRows(
    link,
    "depth",
    rows,
    `ON CONFLICT (queue) DO UPDATE SET ${STATES.map((state) => `${state} = depth.${state} + excluded.${state}`).join(", ")}`,
  );
}
