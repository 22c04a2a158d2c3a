import type { Queue } from "../transaction/queue-cache.ts";
import { BEGIN, type Connection, type Value } from "../connection/connection.ts";
import { catalogueLock } from "../connection/locks.ts";
import { DROP_INBOX_FLOOR, RAISE_INBOX_FLOOR } from "./inbox-floor.ts";
import { PLANNING, setLocally } from "../connection/settings.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * The positions at which scans of the lines begin. While any transaction stays open, and until the next VACUUM,
 * PostgreSQL keeps the index entries of tasks that have left a line. A scan from the front would read all of them, more
 * each time. So each line has a floor, and no row is below it (docs/decisions/0029).
 *
 * A floor is raised while no batch is open, so that no transaction is about to insert a row below it. A batch that
 * inserts a row below the floor lowers the floor in the same transaction. A statement sees line and floor in one
 * snapshot, so it misses no row.
 */
export interface Position {
  rank: number;
  pos: number;
}

/**
 * The lines that are ordered by time, with their ids in the table `floor`. Each belongs to the whole store. The id of a
 * queue's line is the queue's id.
 */
const TIMES = {
  scheduled: -1,
  ready_elsewhere: -2,
  ttl: -3,
  hand: -4,
  session: -5,
  gate: -6,
  lane: -7,
} as const;

export type TimeLine = keyof typeof TIMES;

// `n` numbers the generations of a floor: each raise begins a new one. The floor is the lowest row of the newest
// generation. The raise deletes the rows of the generation before it, and no statement reads them.
const floorOf = (line: string, columns: string): string =>
  `SELECT ${columns} FROM dibs.floor WHERE floor.line = ${line} ORDER BY n DESC, floor.rank, floor.pos LIMIT 1`;

const valueOf = (line: string, column: "rank" | "pos"): string => `(${floorOf(line, `floor.${column}`)})`;

/** WHERE clause of a scan of a queue's line. Without a floor, the scan begins at a rank that is below all ranks. */
export const aboveFloor = (queue: string, table: "ready" | "ready_elsewhere" = "ready"): string =>
  `(${table}.rank, ${table}.pos) >= (coalesce(${valueOf(queue, "rank")}, '-32768'::int2), coalesce(${valueOf(queue, "pos")}, 0))`;

/** WHERE clause of a scan of a line that is ordered by time. `column`: the column of its order. */
export const sinceFloor = (line: TimeLine, column: string): string =>
  `${column} >= coalesce(${valueOf(`${TIMES[line]}`, "pos")}, '-9223372036854775808'::int8)`;

// Inserts a row instead of updating one, so that transactions that lower the same floor do not wait for each other.
const LOWER = `
  INSERT INTO dibs.floor (line, n, rank, pos) SELECT $1::int4, n, $2::int2, $3::int8
  FROM (${floorOf("$1", "n, rank, pos")}) AS floor WHERE (floor.rank, floor.pos) > ($2::int2, $3::int8)`;

/** Lowers the floors of one batch. */
export class Floors {
  /** Queues whose floors were lowered for tasks that have now left the line. */
  readonly loweredFloors = new Set<string>();
  readonly #tx: Tx;
  /** The lowest position of each line at which this batch has inserted a row. */
  readonly #lowered = new Map<number, Position>();

  constructor(tx: Tx) {
    this.#tx = tx;
  }

  begin(): void {
    this.#lowered.clear();
    this.loweredFloors.clear();
  }

  /** A row is inserted at a position that may be below the floor: an old position, or a higher priority. */
  lower(queue: Queue, rank: number, pos: number): void {
    this.#lowerTo(queue.id, { rank, pos });
  }

  /** As `lower`, for a line that is ordered by time. */
  lowerTime(line: TimeLine, at: number): void {
    this.#lowerTo(TIMES[line], { rank: 0, pos: at });
  }

  /**
   * A task left the line. If its position was not the last one when it entered, the floor was lowered for it, and can
   * be raised.
   */
  tookFromLine(queue: Queue, task: { rank: number; failures: number; groupKey: string | null }): void {
    if (task.failures > 0 || task.rank < 0 || task.groupKey !== null) this.loweredFloors.add(queue.name);
  }

  #lowerTo(line: number, position: Position): void {
    const known = this.#lowered.get(line);
    if (known && !isBelow(position, known)) return;
    this.#lowered.set(line, position);
    this.#tx.put(LOWER, line, position.rank, position.pos);
  }
}

function isBelow(a: Position, b: Position): boolean {
  return a.rank < b.rank || (a.rank === b.rank && a.pos < b.pos);
}

/** The table and the column of each line that is ordered by time. */
const ORDER: Record<TimeLine, { table: string; column: string; only?: string }> = {
  scheduled: { table: "scheduled", column: "due" },
  ready_elsewhere: { table: "ready_elsewhere", column: "until" },
  ttl: { table: "ttl", column: "expires_at" },
  hand: { table: "claim", column: "deadline", only: "session IS NULL" },
  session: { table: "session", column: "(heartbeat_at + lease)" },
  gate: { table: "gate", column: "wake_at", only: "wake_at IS NOT NULL" },
  lane: { table: "lane", column: "wake_at", only: "wake_at IS NOT NULL" },
};

const times = (select: (line: TimeLine, order: { column: string; from: string }) => string): string =>
  Object.entries(ORDER)
    .map(([line, { table, column, only = "true" }]) =>
      select(line as TimeLine, { column, from: `dibs.${table} WHERE ${only}` }),
    )
    .join(" UNION ALL ");

const headOf = (table: "ready" | "ready_elsewhere", queue: string, from = aboveFloor(queue, table)): string =>
  `(SELECT rank, pos FROM dibs.${table} WHERE ${table}.queue = ${queue} AND ${from} ORDER BY rank, pos LIMIT 1)`;

// New tasks get the last position and lower no floor, unless their priority is high. So the floor stays below the
// positions that they can get.
const RAISE = `
  WITH found AS MATERIALIZED (
    SELECT queue.id AS line,
      CASE WHEN (head.rank, head.pos) <= (0, last.n) THEN head.rank ELSE 0 END AS rank,
      CASE WHEN (head.rank, head.pos) <= (0, last.n) THEN head.pos ELSE last.n + 1 END AS pos
    FROM unnest($1::text[]) AS wanted (name) JOIN dibs.queue ON queue.name = wanted.name COLLATE "C"
    CROSS JOIN (SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS n FROM dibs.seq) AS last
    LEFT JOIN LATERAL (
      ${headOf("ready", "queue.id")} UNION ALL ${headOf("ready_elsewhere", "queue.id")} ORDER BY rank, pos LIMIT 1) AS head ON true
    UNION ALL ${times(
      (line, { column, from }) => `
    SELECT ${TIMES[line]}, 0,
      coalesce((SELECT min(${column}) FROM ${from} AND ${sinceFloor(line, column)}), 9223372036854775807)`,
    )}
  ), risen AS MATERIALIZED (
    SELECT found.line, found.rank, found.pos, floor.n FROM found
    LEFT JOIN LATERAL (${floorOf("found.line", "n, rank, pos")}) AS floor ON true
    WHERE (found.rank, found.pos) IS DISTINCT FROM (floor.rank, floor.pos)
  ), old AS (
    DELETE FROM dibs.floor USING risen WHERE floor.line = risen.line AND floor.n = risen.n
  ), ${RAISE_INBOX_FLOOR}
  INSERT INTO dibs.floor (line, n, rank, pos) SELECT line, coalesce(n, 0) + 1, rank, pos FROM risen`;

/** The server cancels a raise after this time. All batches wait for it, also if the server is slow or this client dies. */
const STATEMENT_TIMEOUT_MS = 2_000;

/**
 * Executes a statement in its own transaction. COMMIT ends the transaction even after a failure. Floors can be computed
 * again, so the commit is not flushed to disk.
 */
async function inOwnTransaction(
  link: Connection,
  first: string,
  sql: string,
  values: Value[] = [],
): Promise<void> {
  const settings = setLocally({
    ...PLANNING,
    synchronous_commit: "off",
    statement_timeout: `${STATEMENT_TIMEOUT_MS}`,
    idle_in_transaction_session_timeout: `${STATEMENT_TIMEOUT_MS}`,
  });
  const steps = await Promise.allSettled([
    link.exec(`${BEGIN}; ${settings}; ${first}`),
    link.query(sql, values),
    link.exec("COMMIT"),
  ]);
  for (const step of steps) if (step.status === "rejected") throw step.reason;
}

/**
 * Raises the floors of these queues, and of the lines that are ordered by time. It waits until no batch is open, and
 * new batches wait until it is done. It fails if it has to wait longer than `patience` (in milliseconds).
 */
export async function raiseFloors(
  link: Connection,
  queues: readonly string[],
  patience = MIN_PATIENCE_MS,
): Promise<void> {
  const exclusive = `SELECT pg_advisory_xact_lock(${catalogueLock(link.schema)})`;
  const first = `${setLocally({ lock_timeout: `${patience}` })}; ${exclusive}`;
  await inOwnTransaction(link, first, RAISE, [queues]);
}

/** Finds rows below the floors. There should be none. It scans the lines from the front. */
export const BELOW_FLOORS = `
  WITH floor AS MATERIALIZED (
    SELECT DISTINCT ON (line) line, rank, pos FROM dibs.floor ORDER BY line, n DESC, rank, pos)
  SELECT floor.line, head.rank, head.pos FROM floor CROSS JOIN LATERAL (
    ${headOf("ready", "floor.line", "true")} UNION ALL ${headOf("ready_elsewhere", "floor.line", "true")} ORDER BY rank, pos LIMIT 1) AS head
  WHERE floor.line > 0 AND (head.rank, head.pos) < (floor.rank, floor.pos)
  UNION ALL
  SELECT floor.line, 0, head.pos FROM floor JOIN (${times(
    (line, { column, from }) => `SELECT ${TIMES[line]} AS line, (SELECT min(${column}) FROM ${from}) AS pos`,
  )}) AS head ON head.line = floor.line WHERE head.pos < floor.pos`;

const DROP_FLOORS = `
  WITH inbox AS (${DROP_INBOX_FLOOR})
  DELETE FROM dibs.floor USING (${BELOW_FLOORS}) AS below WHERE floor.line = below.line`;

/**
 * Removes each floor that has rows below it, so that scans of that line begin at the front again. Only a bug could leave
 * such rows, and no claim would find their tasks.
 */
export async function checkFloors(link: Connection): Promise<void> {
  await inOwnTransaction(link, "", DROP_FLOORS);
}

/** A queue's floor is raised once per so many claimed tasks, on average. Scans skip at most about as many dead entries. */
const CLAIMS_PER_RAISE = 2_000;
/** The pause between two raises. Each failure makes it four times as long, and a success makes it short again. */
const MIN_PAUSE_MS = 200;
const MAX_PAUSE_MS = 60_000;
/**
 * How long a raise waits for open batches, and lets new ones wait. It is a twentieth of the pause, so it grows after
 * failures, while raises become rarer.
 */
const MIN_PATIENCE_MS = 50;
const MAX_PATIENCE_MS = 1_000;
/** Raises also happen without claims: heartbeats of sessions change the lines that are ordered by time. */
const AT_LEAST_EVERY_MS = 60_000;
const CHECK_EVERY_MS = 300_000;
/** After a check that failed. */
const CHECK_AGAIN_MS = 30_000;

/**
 * Decides when to raise floors. Each claimed task makes its queue due with the probability 1 / CLAIMS_PER_RAISE: so many
 * processes with few claims each raise as often as one process with all of these claims.
 */
export class Raising {
  readonly #now: () => number;
  readonly #random: () => number;
  readonly #due = new Set<string>();
  /** No raise before this time; infinite while one is in progress. */
  #from = Number.NEGATIVE_INFINITY;
  #pause = MIN_PAUSE_MS;
  #raisedAt: number;
  #checkFrom: number;

  constructor({ now = () => performance.now(), random = Math.random } = {}) {
    this.#now = now;
    this.#random = random;
    this.#raisedAt = now();
    this.#checkFrom = now() + CHECK_EVERY_MS;
  }

  /** Tasks were claimed. */
  note(tasks: readonly { queue: string }[]): void {
    for (const { queue } of tasks) if (this.#random() < 1 / CLAIMS_PER_RAISE) this.#due.add(queue);
  }

  /** Tasks for which the floors of these queues were lowered have left the line. */
  noteLoweredFloors(queues: Iterable<string>): void {
    for (const queue of queues) this.#due.add(queue);
  }

  /**
   * The queues whose floors are due to be raised, with the patience of that raise; undefined if no raise is due. The
   * caller reports the outcome with `raised` or `failed`. Until then no other raise is due.
   */
  take(): { queues: string[]; patience: number } | undefined {
    const now = this.#now();
    const isDue = this.#due.size > 0 || now - this.#raisedAt >= AT_LEAST_EVERY_MS;
    if (!isDue || now < this.#from) return undefined;
    const queues = [...this.#due];
    this.#due.clear();
    this.#from = Number.POSITIVE_INFINITY;
    const patience = Math.min(Math.max(this.#pause / 20, MIN_PATIENCE_MS), MAX_PATIENCE_MS);
    return { queues, patience };
  }

  raised(): void {
    this.#pause = MIN_PAUSE_MS;
    this.#raisedAt = this.#now();
    this.#from = this.#raisedAt + this.#pause;
  }

  failed(queues: Iterable<string>): void {
    this.noteLoweredFloors(queues);
    this.#pause = Math.min(this.#pause * 4, MAX_PAUSE_MS);
    this.#from = this.#now() + this.#pause;
  }

  /**
   * Whether the caller must check the floors now. If so, the caller reports the outcome with `checked`, and until then
   * no other check is due.
   */
  takeCheck(): boolean {
    if (this.#now() < this.#checkFrom) return false;
    this.#checkFrom = Number.POSITIVE_INFINITY;
    return true;
  }

  checked(isDone: boolean): void {
    this.#checkFrom = this.#now() + (isDone ? CHECK_EVERY_MS : CHECK_AGAIN_MS);
  }
}
