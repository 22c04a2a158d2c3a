import type { Op } from "../../../engine/engine.ts";
import { lookUp } from "../statements/look-up.ts";
import { LocksNeeded } from "../connection/batch-conflicts.ts";
import { numbers } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * Locks on rows of `dibs.run` and `dibs.family`. A transaction that moves a task of a run, or ends the run, locks the
 * run's row. So one of several parts that finish at once is the last, and a cancel and a verdict of one run exclude each
 * other. In the same way, a transaction that moves a child or its parent locks the row of the family. Here a family has
 * the number of the parent with a minus sign, so that runs and families are one kind of number.
 *
 * The lock order of a transaction is in locks.ts. A transaction waits for runs only when it begins, in the order of
 * their ids. Later it only tries: if another transaction holds the run, the batch is rolled back, and starts again with
 * a wait for that run. So no transaction waits for a run while others wait for its locks.
 */

const JUDGED = `CROSS JOIN ${lookUp("verifying", "verifying.asked = wanted.task", { columns: "task" })}`;
/** The runs and families of a list of tasks. */
const flowsOf = (tasks: string, task: string): string => `
  SELECT wanted.task AS given, run_part.run FROM ${tasks} CROSS JOIN ${lookUp("run_part", { task }, { columns: "run" })}
  UNION ALL
  SELECT wanted.task, 0 - child.parent FROM ${tasks} CROSS JOIN ${lookUp("child", { task }, { columns: "parent" })}
  UNION ALL
  SELECT wanted.task, 0 - family.parent FROM ${tasks} CROSS JOIN ${lookUp("family", `family.parent = ${task}`)}`;
const WANTED = `unnest($1::int8[]) AS wanted (task)`;
/** For the tasks `$1`, and for those about which they ask for a verdict. */
const CONCERNED = `${flowsOf(WANTED, "wanted.task")} UNION ALL ${flowsOf(`${WANTED} ${JUDGED}`, "verifying.task")}`;
/** Locks the runs and families of CONCERNED, and those of `$2`. */
const LOCK = (how: "FOR UPDATE" | "FOR UPDATE SKIP LOCKED"): string => `
  WITH concerned AS MATERIALIZED (${CONCERNED}), locked AS MATERIALIZED (
    SELECT id FROM dibs.run
    WHERE id = ANY (ARRAY (SELECT run FROM concerned UNION SELECT unnest($2::int8[]))) ORDER BY id ${how}
  ), families AS MATERIALIZED (
    SELECT 0 - parent AS id FROM dibs.family
    WHERE parent = ANY (ARRAY (SELECT 0 - run FROM concerned UNION SELECT 0 - id FROM unnest($2::int8[]) AS given (id)))
    ORDER BY parent ${how})
  SELECT NULL::int8 AS given, id AS run, true AS mine FROM locked
  UNION ALL
  SELECT NULL, id, true FROM families
  UNION ALL
  SELECT given, run, run = ANY (ARRAY (SELECT id FROM locked UNION ALL SELECT id FROM families)) FROM concerned`;
const WAIT = LOCK("FOR UPDATE");
const TRY = LOCK("FOR UPDATE SKIP LOCKED");

interface Row {
  /** Null in a row for a run of `$2`. */
  given: number | null;
  run: number;
  mine: boolean;
}

/** The runs that a batch is known to need before it begins. */
export interface RunsNeeded {
  runs: readonly number[];
  /** Tasks that it settles or cancels, or that spawn. */
  tasks: readonly number[];
}

export const NO_RUNS: RunsNeeded = { runs: [], tasks: [] };

/** From its operations, and from earlier tries of the batch. */
export function runsNeeded(tx: Tx, ops: readonly Op[], runs: readonly number[]): RunsNeeded {
  const cancelled = ops.flatMap((op) =>
    op.verb === "cancelRun" || (op.verb === "signal" && op.of === "runs") ? (tx.place(op.id)?.seq ?? []) : [],
  );
  const tasks = ops.flatMap((op) =>
    op.verb === "cancel" || op.verb === "spawn" ? (tx.place(op.id)?.seq ?? []) : [],
  );
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
  /** Tasks without a run or relatives, and tasks whose run and families are locked. */
  readonly #covered = new Set<number>();
  #areMet = false;
  #holdsFamilies = false;

  constructor(tx: Tx) {
    this.#tx = tx;
  }

  /** This transaction holds families. If not, none of the tasks for which it holds locks is a parent or a child. */
  get holdsFamilies(): boolean {
    return this.#holdsFamilies;
  }

  /** This transaction has begun it. */
  noteFamily(parent: number): void {
    this.#ours.add(0 - parent);
    this.#holdsFamilies = true;
    this.#areMet = true;
  }

  /** This connection has met tasks of runs or families. Most stores have none. */
  get areMet(): boolean {
    return this.#areMet;
  }

  noteMet(): void {
    this.#areMet = true;
  }

  forget(): void {
    this.#ours.clear();
    this.#holdsFamilies = false;
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

  /**
   * As `hold`, when the rows of these tasks are locked. A task that had no children when it was looked up first may have
   * spawned some since, until its claim was locked.
   */
  async recheck(tasks: readonly number[]): Promise<void> {
    for (const task of tasks) this.#covered.delete(task);
    await this.hold(tasks);
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
    for (const { run, mine } of rows) {
      if (!mine) continue;
      this.#ours.add(run);
      this.#holdsFamilies ||= run < 0;
    }
    if (rows.length > 0) this.#areMet = true;
  }

  #startAgain(runs: readonly number[]): never {
    throw new LocksNeeded({ runs: [...new Set([...this.#ours, ...runs])] });
  }
}
