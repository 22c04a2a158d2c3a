import type { Op } from "../../../engine/engine.ts";
import { lookUp } from "../statements/look-up.ts";
import { LocksNeeded } from "../connection/batch-conflicts.ts";
import { numbers } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * Locks on rows of `dibs.run`. A transaction that moves a task of a run, or ends the run, locks the run's row. So one
 * of several parts that finish at once is the last, and a cancel and a verdict of one run exclude each other.
 *
 * The lock order of a transaction is in locks.ts. A transaction waits for runs only when it begins, in the order of
 * their ids. Later it only tries: if another transaction holds the run, the batch is rolled back, and starts again with
 * a wait for that run. So no transaction waits for a run while others wait for its locks.
 */

/** The tasks of runs among `$1`, and the tasks of runs about which tasks among `$1` ask for a verdict. */
const CONCERNED = `
  SELECT wanted.task AS given, run_part.task, run_part.run FROM unnest($1::int8[]) AS wanted (task)
  CROSS JOIN ${lookUp("run_part", { task: "wanted.task" }, { columns: "task, run" })}
  UNION ALL
  SELECT wanted.task, run_part.task, run_part.run FROM unnest($1::int8[]) AS wanted (task)
  CROSS JOIN ${lookUp("verifying", "verifying.asked = wanted.task", { columns: "task" })}
  CROSS JOIN ${lookUp("run_part", { task: "verifying.task" }, { columns: "task, run" })}`;
/** Locks the runs of CONCERNED and the runs `$2`. */
const LOCK = (how: "FOR UPDATE" | "FOR UPDATE SKIP LOCKED"): string => `
  WITH concerned AS MATERIALIZED (${CONCERNED}), locked AS MATERIALIZED (
    SELECT id FROM dibs.run
    WHERE id = ANY (ARRAY (SELECT run FROM concerned UNION SELECT unnest($2::int8[]))) ORDER BY id ${how})
  SELECT NULL::int8 AS given, NULL::int8 AS task, id AS run, true AS mine FROM locked
  UNION ALL
  SELECT given, task, run, run = ANY (ARRAY (SELECT id FROM locked)) FROM concerned`;
const WAIT = LOCK("FOR UPDATE");
const TRY = LOCK("FOR UPDATE SKIP LOCKED");

interface Row {
  /** Both are null in a row for a run of `$2`. */
  given: number | null;
  task: number | null;
  run: number;
  mine: boolean;
}

/** The runs that a batch is known to need before it begins. */
export interface RunsNeeded {
  runs: readonly number[];
  /** Tasks that it settles or cancels. */
  tasks: readonly number[];
}

export const NO_RUNS: RunsNeeded = { runs: [], tasks: [] };

/** From its operations, and from earlier tries of the batch. */
export function runsNeeded(tx: Tx, ops: readonly Op[], runs: readonly number[]): RunsNeeded {
  const cancelled = ops.flatMap((op) =>
    op.verb === "cancelRun" || (op.verb === "signal" && op.of === "runs") ? (tx.place(op.id)?.seq ?? []) : [],
  );
  const tasks = ops.flatMap((op) => (op.verb === "cancel" ? (tx.place(op.id)?.seq ?? []) : []));
  // Few stores have runs. Elsewhere the settlements of a batch, up to a thousand, are not looked up.
  const settled = tx.runs.areMet ? settledBy(tx, ops) : [];
  return { runs: [...runs, ...cancelled], tasks: [...tasks, ...settled] };
}

/** The tasks that a batch settles. */
export function settledBy(tx: Tx, ops: readonly Op[]): number[] {
  return ops.flatMap((op) => (op.verb === "settle" ? (tx.place(op.id)?.seq ?? []) : []));
}

export class RunLocks {
  readonly #tx: Tx;
  readonly #ours = new Set<number>();
  /** Tasks without a run, and tasks whose run is locked. */
  readonly #covered = new Set<number>();
  #areMet = false;

  constructor(tx: Tx) {
    this.#tx = tx;
  }

  /** This connection has met tasks of runs. Most stores have none. */
  get areMet(): boolean {
    return this.#areMet;
  }

  noteMet(): void {
    this.#areMet = true;
  }

  forget(): void {
    this.#ours.clear();
    this.#covered.clear();
  }

  /** Waits for all of them. Only for a transaction that holds no other lock yet. */
  async begin({ runs, tasks }: RunsNeeded): Promise<void> {
    if (runs.length === 0 && tasks.length === 0) return;
    this.#note(tasks, await this.#tx.all<Row>(WAIT, numbers(tasks), numbers(runs)));
  }

  /** Locks the runs of these tasks, and of the tasks about which they ask for verdicts, until the commit. */
  async hold(tasks: readonly number[]): Promise<void> {
    const rows = await this.#try(tasks);
    if (rows.some(({ mine }) => !mine)) this.#startAgain(rows.map(({ run }) => run));
  }

  async holdRun(run: number): Promise<void> {
    if (this.#ours.has(run)) return;
    const rows = await this.#tx.all<Row>(TRY, numbers([]), numbers([run]));
    this.#note([], rows);
    if (rows.length === 0) this.#startAgain([run]);
  }

  /** As `hold`, for a sweep, which skips what is locked: returns the tasks whose runs other transactions hold. */
  async tryToHold(tasks: readonly number[]): Promise<Set<number>> {
    return new Set((await this.#try(tasks)).flatMap(({ given, mine }) => (mine ? [] : given!)));
  }

  async #try(tasks: readonly number[]): Promise<Row[]> {
    const open = tasks.filter((task) => !this.#covered.has(task));
    if (open.length === 0) return [];
    const rows = await this.#tx.all<Row>(TRY, numbers(open), numbers([]));
    const isBusy = rows.some(({ mine }) => !mine);
    this.#note(isBusy ? [] : open, rows);
    return rows.filter(({ given }) => given !== null);
  }

  #note(tasks: readonly number[], rows: readonly Row[]): void {
    for (const task of tasks) this.#covered.add(task);
    for (const { task, run, mine } of rows) {
      if (!mine) continue;
      this.#ours.add(run);
      if (task !== null) this.#covered.add(task);
    }
    if (rows.length > 0) this.#areMet = true;
  }

  #startAgain(runs: readonly number[]): never {
    throw new LocksNeeded({ runs: [...new Set([...this.#ours, ...runs])] });
  }
}
