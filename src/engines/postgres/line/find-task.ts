import type { EndState } from "../../../core/task/task.ts";
import type { Held, TransitionTask } from "./line.ts";
import { TASK_COLUMNS, type TaskRow, transitionTaskFrom, verifyingFrom } from "./held.ts";
import { lookUp } from "../statements/look-up.ts";
import { StaleRead } from "../connection/batch-conflicts.ts";
import { RANK } from "../statements/rank.ts";
import { fromText } from "../statements/text.ts";
import { processInboxFromFront, processInboxOf } from "./inbox.ts";
import type { Line } from "./enter-line.ts";
import type { Tx } from "../transaction/tx.ts";

/** The location of a task: its state, and the row that says so. */
export type Place =
  | { state: "claimed"; held: Held; progress: { value: number; note: string | null } | null }
  | { state: "verifying"; held: Held }
  | { state: "ready"; table: Line; pos: number }
  | { state: "scheduled"; due: number }
  | { state: "parked"; due: number; signal: string }
  | { state: "waiting" }
  | { state: EndState };

/** A task and its location, with everything that a transition needs. */
export interface Found extends TransitionTask {
  place: Place;
}

const IN_PLACE = (table: string): string =>
  `${table}.queue = task.queue AND ${table}.rank = ${RANK} AND ${table}.pos = coalesce(task.pos, task.seq)`;

// One statement sees one snapshot: a task is in exactly one of these tables.
const FIND = (more: { columns: string; joins: string }): string => `
  SELECT task.seq AS task, task.queue, ${TASK_COLUMNS},
    claim.fence, claim.failures AS claim_failures, claim.worker, claim.session, claim.started_at, claim.cancelled,
    claim.progress, claim.note, claim.special,
    verifying.fence AS verifying, verifying.failures AS verifying_failures, verifying.worker AS verifying_worker,
    verifying.started_at AS verifying_started_at,
    ended.state AS ended, dead.task AS dead,
    ready.failures AS ready_failures, ready_elsewhere.failures AS elsewhere_failures,
    scheduled.due, scheduled.failures AS scheduled_failures, scheduled.blocks_group, scheduled.signal,
    waiting.failures AS waiting_failures${more.columns}
  FROM unnest($1::int8[]) WITH ORDINALITY AS wanted (seq, i)
  CROSS JOIN ${lookUp("task", "task.seq = wanted.seq")}
  LEFT JOIN ${lookUp("claim", "claim.task = task.seq")} ON true
  LEFT JOIN ${lookUp("verifying", { task: "task.seq" })} ON true
  LEFT JOIN ${lookUp("ended", { task: "task.seq" })} ON true
  LEFT JOIN ${lookUp("dead", { task: "task.seq" })} ON true
  LEFT JOIN ${lookUp("ready", IN_PLACE("ready"))} ON true
  LEFT JOIN ${lookUp("ready_elsewhere", IN_PLACE("ready_elsewhere"))} ON true
  LEFT JOIN ${lookUp("scheduled", { queue: "task.queue", pos: "coalesce(task.pos, task.seq)" })} ON true
  LEFT JOIN ${lookUp(
    "waiting",
    `waiting.queue = task.queue AND waiting.group_key = task.group_key AND waiting.pos = coalesce(task.pos, task.seq)`,
  )} ON true
  ${more.joins}
  ORDER BY i`;
const FIND_PLAIN = FIND({ columns: "", joins: "" });
/**
 * In a queue with limits, the position of a ready task may differ from the task's own: its row is found by the group.
 */
const BY_GROUP = (name: string, table: Line): string => `
  LEFT JOIN ${lookUp(
    table,
    { queue: "task.queue", group_key: "task.group_key", task: "task.seq" },
    { as: name },
  )} ON true`;
const FIND_LIMITED = FIND({
  columns: `,
    turn.pos AS turn_pos, turn.failures AS turn_failures, elsewhere_turn.pos AS elsewhere_turn_pos,
    elsewhere_turn.failures AS elsewhere_turn_failures, ready_sticky.pos AS sticky_pos, ready_sticky.failures AS sticky_failures, stepped_aside.task AS stepped_aside`,
  joins: `${BY_GROUP("turn", "ready")} ${BY_GROUP("elsewhere_turn", "ready_elsewhere")} ${BY_GROUP("ready_sticky", "ready_sticky")}
  LEFT JOIN ${lookUp("stepped_aside", `stepped_aside.task = task.seq`)} ON true`,
});

interface FoundRow extends TaskRow {
  task: number;
  queue: number;
  fence: number | null;
  claim_failures: number;
  worker: string;
  session: number | null;
  started_at: number;
  cancelled: boolean;
  progress: number | null;
  note: string | null;
  special: boolean;
  verifying: number | null;
  verifying_failures: number;
  verifying_worker: string;
  verifying_started_at: number;
  ended: Exclude<EndState, "dead"> | null;
  dead: number | null;
  ready_failures: number | null;
  elsewhere_failures: number | null;
  due: number | null;
  scheduled_failures: number;
  blocks_group: boolean;
  signal: string | null;
  waiting_failures: number | null;
  turn_pos?: number | null;
  turn_failures?: number | null;
  elsewhere_turn_pos?: number | null;
  elsewhere_turn_failures?: number | null;
  sticky_pos?: number | null;
  sticky_failures?: number | null;
  stepped_aside?: number | null;
}

export async function findTask(tx: Tx, id: string): Promise<Found | undefined> {
  const known = tx.place(id);
  if (!known) return undefined;
  const found = await findBySeq(tx, known.seq);
  return found?.createdAt === known.createdAt ? found : undefined;
}

export async function findBySeq(tx: Tx, seq: number): Promise<Found | undefined> {
  return (await findMany(tx, [seq]))[0];
}

/** In the given order. Tasks that do not exist are left out. */
export async function findMany(tx: Tx, seqs: readonly number[]): Promise<Found[]> {
  if (seqs.length === 0) return [];
  const find = async (): Promise<FoundRow[]> => {
    const found = await tx.all<FoundRow>(tx.queues.hasLimits ? FIND_LIMITED : FIND_PLAIN, seqs);
    await tx.queues.load(found.map((row) => row.queue));
    return found.filter((row) => tx.queues.ifAny(row.queue));
  };
  let rows = await find();
  // A task that a caller's transaction has just added has no state until its inbox entry is processed.
  for (const process of tx.isReading ? [] : [processInboxOf, processInboxFromFront]) {
    const queues = queuesOfUnplaced(rows);
    if (queues.length === 0) break;
    await process(tx, queues);
    rows = await find();
  }
  if (!tx.isReading && queuesOfUnplaced(rows).length > 0)
    throw new StaleRead("A task is in none of the states.");
  return rows.map((row) => foundFrom(tx, row));
}

function queuesOfUnplaced(rows: FoundRow[]): number[] {
  return [...new Set(rows.filter(isUnplaced).map(({ queue }) => queue))];
}

function isUnplaced(row: FoundRow): boolean {
  const { fence, verifying, ended, dead, due, waiting_failures: waiting } = row;
  return [fence, verifying, ended, dead, due, waiting].every((at) => at === null) && !lineOf(row);
}

function foundFrom(tx: Tx, row: FoundRow): Found {
  const head = transitionTaskFrom(tx.queues.of(row.queue), {
    ...row,
    failures: 0,
    special: undefined,
  });
  if (row.fence !== null) {
    const { fence, worker, session, started_at: startedAt, cancelled, special: stepped } = row;
    const held = {
      ...{ ...head, failures: row.claim_failures, stepped },
      ...{ fence, worker, session, startedAt, cancelled },
    };
    const progress = row.progress === null ? null : { value: row.progress, note: row.note };
    return { ...held, place: { state: "claimed", held, progress } };
  }
  if (row.verifying !== null) {
    const held = verifyingFrom(
      { ...head, failures: row.verifying_failures },
      {
        ...{ fence: row.verifying, worker: row.verifying_worker, started_at: row.verifying_started_at },
        stepped_aside: row.stepped_aside != null,
      },
    );
    return { ...held, place: { state: "verifying", held } };
  }
  const task = { ...head, blocksGroup: false };
  if (row.ended !== null) return { ...task, place: { state: row.ended } };
  if (row.dead !== null) return { ...task, place: { state: "dead" } };
  const line = lineOf(row);
  if (line) {
    const { table, pos, failures } = line;
    return { ...head, failures, place: { state: "ready", table, pos } };
  }
  if (row.due !== null) {
    const { due } = row;
    return {
      ...task,
      blocksGroup: row.blocks_group,
      failures: row.scheduled_failures,
      place:
        row.signal === null
          ? { state: "scheduled", due }
          : { state: "parked", due, signal: fromText(row.signal) },
    };
  }
  return { ...task, failures: row.waiting_failures ?? 0, place: { state: "waiting" } };
}

function lineOf(row: FoundRow): { table: Line; pos: number; failures: number } | undefined {
  if (row.ready_failures !== null) return { table: "ready", pos: row.pos, failures: row.ready_failures };
  if (row.elsewhere_failures !== null)
    return { table: "ready_elsewhere", pos: row.pos, failures: row.elsewhere_failures };
  if (row.turn_pos != null) return { table: "ready", pos: row.turn_pos, failures: row.turn_failures! };
  if (row.elsewhere_turn_pos != null)
    return { table: "ready_elsewhere", pos: row.elsewhere_turn_pos, failures: row.elsewhere_turn_failures! };
  if (row.sticky_pos != null)
    return { table: "ready_sticky", pos: row.sticky_pos, failures: row.sticky_failures! };
  return undefined;
}

const PENDING: ReadonlySet<string> = new Set(["ready", "waiting", "scheduled", "parked"]);

/** It is neither claimed nor verifying, and has not ended. */
export function isPending({ place }: Found): boolean {
  return PENDING.has(place.state);
}
