import { closedError } from "../../../engine/transfer.ts";
import { countsText, firstCounts } from "../../../core/run/run.ts";
import { DibsError, invalid } from "../../../core/errors/errors.ts";
import { isLarger, queueFull, tooLarge } from "../../../core/input/limits.ts";
import { formatTaskId, parseTaskId } from "../../../core/task/task-id.ts";
import { holdsKey } from "../../../core/task/unique.ts";
import { copiesOf } from "../../../core/topic/topic.ts";
import type { AddedTask, Addition, NewMessage, NewTask } from "../../../core/task/task.ts";
import { storedContentType, storedHeaders } from "../../../core/task/add-rules.ts";
import { CallerConnection } from "./caller.ts";
import { readOnly, tooOld } from "./caller-failure.ts";
import { THIS_MOMENT } from "../statements/clock.ts";
import { channelOf } from "../connection/notifier.ts";
import { elsewhere, IDENTITY, type Identity, isSame } from "../connection/identity.ts";
import { checkKnown, CLOSED, describeSchema } from "../schema/migrations.ts";
import { KEY, type KeyRow } from "./read-latest.ts";
import type { KnownQueue, StoreLookups } from "./store-lookups.ts";
import { toColumns } from "../statements/text.ts";

/**
 * Adds and acks (caller-ack.ts) in the caller's transaction. It writes rows that no other transaction knows yet, and
 * leaves an entry in the inbox. What changes other rows, such as a group's, is done by the batch that processes the entry
 * after the commit (line/inbox.ts).
 *
 * Values are passed as one parameter of type text that contains JSON: some libraries encode a parameter of type json a
 * second time.
 */
export class CallerTransaction {
  readonly link: CallerConnection;
  readonly lookups: StoreLookups;
  #header!: HeaderRow;
  now = 0;
  /** The transaction's number; undefined until it has left an inbox entry. */
  xid: string | undefined;

  private constructor(link: CallerConnection, lookups: StoreLookups) {
    this.link = link;
    this.lookups = lookups;
  }

  static async begin(tx: unknown, lookups: StoreLookups): Promise<CallerTransaction> {
    const within = new CallerTransaction(new CallerConnection(tx, lookups), lookups);
    await within.#readHeader();
    await within.#checkStore();
    if (within.#header.read_only === "on") throw readOnly();
    return within;
  }

  async #readHeader(): Promise<void> {
    const [row] = await this.link.all<HeaderRow>(HEADER);
    if (!row) throw tooOld("the store was made");
    checkKnown(this.lookups.schema, row.needs);
    if (row.closed !== null) throw closedError(row.closed, describeSchema(this.lookups.schema));
    this.#header = row;
    this.now = Number(row.clock);
  }

  /** Checks that `tx` leads to this store: another one may have tables of the same names. */
  async #checkStore(): Promise<void> {
    let mine = await this.lookups.identity();
    for (let tries = 1; !isSame(mine, this.#header); tries++) {
      const { schema, where } = this.lookups;
      if (tries > MOST_TRIES) throw elsewhere(mine.salt === this.#header.salt, schema, where);
      // Between the two reads the server may have crashed, or the store may have been created again: read both again.
      mine = await this.lookups.identity({ refresh: true });
      await this.#readHeader();
    }
  }

  /** Whether it is REPEATABLE READ or SERIALIZABLE: then it reads the store as it was at its first statement. */
  get hasFixedSnapshot(): boolean {
    return !this.#header.isolation.startsWith("read ");
  }

  // ── Add ─────────────────────────────────────────────────────────────────────────────────────────────────

  async add(tasks: NewTask[]): Promise<AddedTask[]> {
    const queues = await this.queuesOf(tasks);
    await this.check(tasks, queues);
    return this.addChecked(tasks, queues);
  }

  queuesOf(tasks: NewTask[]): Promise<Map<string, KnownQueue>> {
    return this.lookups.queues([...new Set(tasks.map((task) => task.queue))]);
  }

  async addChecked(tasks: NewTask[], queues: Map<string, KnownQueue>): Promise<AddedTask[]> {
    const added: AddedTask[] = [];
    const rows: object[] = [];
    const seqs = await this.#numbers(tasks.length);
    for (const [index, task] of tasks.entries()) {
      const { id: queue, policy } = queues.get(task.queue)!;
      const seq = seqs[index]!;
      const existing = task.idempotencyKey === undefined ? undefined : await this.#takeKey(queue, task, seq);
      if (existing) {
        added.push(existing);
        continue;
      }
      const ttl = task.ttl ?? policy.ttl;
      const due = task.delay !== undefined && task.delay > 0 ? this.now + task.delay : null;
      rows.push(rowOf(task, { seq, queue, due, expires_at: ttl === null ? null : this.now + ttl }));
      const state = due === null ? "ready" : "scheduled";
      added.push({ id: this.#id(this.now, seq), queue: task.queue, state, existing: false });
    }
    if (rows.length === 0) return added;
    await this.link.run(INSERT_TASKS, JSON.stringify(rows), this.now);
    await this.notifyAtCommit();
    return added;
  }

  async #numbers(count: number): Promise<number[]> {
    const rows = await this.link.all<{ n: string; began: string }>(NEXT, count);
    if (rows[0]) this.checkBegun(rows[0]);
    return rows.map(({ n }) => Number(n));
  }

  /**
   * Checks that `tx` is inside a transaction: outside, each statement has its own transaction time. Called before
   * anything is written, so that no part of an operation is committed without the rest.
   */
  checkBegun({ began }: { began: string }): void {
    if (began !== this.#header.began) {
      throw invalid(
        "tx is not inside a transaction: begin one first, on a client and not on a pool, and commit it afterwards.",
      );
    }
  }

  /** Adds the message to the queues of the subscriptions that exist now. The commit may come much later. */
  async publish(message: NewMessage): Promise<AddedTask[]> {
    return this.add(await this.fanOut([message]));
  }

  async fanOut(additions: readonly Addition[]): Promise<NewTask[]> {
    const tasks: NewTask[] = [];
    for (const addition of additions) {
      if ("topic" in addition)
        tasks.push(...copiesOf(addition, await this.lookups.reachedBy(addition.topic)));
      else tasks.push(addition);
    }
    return tasks;
  }

  async check(tasks: NewTask[], queues: Map<string, KnownQueue>): Promise<void> {
    for (const [index, task] of tasks.entries()) {
      const { maxPayload } = queues.get(task.queue)!.policy;
      const what = tasks.length > 1 ? `The payload of task ${index}` : "The payload";
      if (isLarger(task.data, maxPayload)) throw tooLarge(what, task.data, maxPayload, task.queue);
    }
    for (const [name, { policy }] of queues) {
      // With "drop-oldest", the next batch that adds to the queue drops its oldest tasks.
      if (policy.maxDepth === null || policy.overflow === "drop-oldest") continue;
      const count = tasks.filter((task) => task.queue === name).length;
      const depth = await this.lookups.depth(name);
      if (depth + count > policy.maxDepth) throw queueFull(name, depth, count, policy.maxDepth);
    }
  }

  /**
   * Takes the key for a new task; returns the task that has it already. The caller's transaction locks the key's row until
   * its commit: another add with the same key waits for that, and then finds this task, or none after a rollback.
   */
  async #takeKey(queue: number, task: NewTask, seq: number): Promise<AddedTask | undefined> {
    const key = task.idempotencyKey!;
    // Reads the key first: an insert would lock the row of a used key, and the end of that task would wait for the
    // caller.
    const row = await this.#findKey(queue, key);
    if (row) {
      const known = await this.#known(task.queue, row);
      if (!(await this.#isFree(task, row, known))) return known;
      // If another transaction has taken the key meanwhile, this deletes nothing, and TAKE_KEY finds that task.
      await this.link.run(RELEASE_KEY, queue, key, row.task);
    }
    if ((await this.link.run(TAKE_KEY, queue, key, seq, this.now)) > 0) return undefined;
    return this.#known(task.queue, (await this.#findKey(queue, key))!);
  }

  /** Whether a unique task may take the key over from the task that has it. */
  async #isFree({ unique }: NewTask, row: KeyRow, { id, state }: AddedTask): Promise<boolean> {
    if (unique === undefined) return false;
    const failures = (await this.lookups.stateOf(id))?.failures ?? 0;
    const createdAt = Number(row.created_at);
    if (!holdsKey(unique, { state, failures, createdAt }, this.now)) return true;
    if (unique.on === "keep") return false;
    throw new DibsError(
      "UNSUPPORTED",
      `tx: unique with on: "${unique.on}" would change task ${id}, which other transactions use. Use on: "keep", or add ` +
        `without tx.`,
    );
  }

  /**
   * A key that was taken after the caller's snapshot is visible only on our connection. A key that only the caller's
   * transaction sees is its own, or it has been deleted since the snapshot. FOR SHARE fails for a deleted one.
   */
  async #findKey(queue: number, key: string): Promise<KeyRow | undefined> {
    const { latest } = this.lookups;
    const known = this.hasFixedSnapshot ? await latest.key(queue, key, this.now) : undefined;
    if (known) return known;
    const [row] = await this.link.all<KeyRow>(
      this.hasFixedSnapshot ? `${KEY} FOR SHARE` : KEY,
      queue,
      key,
      this.now,
    );
    return row;
  }

  async #known(queue: string, row: KeyRow): Promise<AddedTask> {
    const id = this.#id(Number(row.created_at), Number(row.task));
    const state = (await this.lookups.stateOf(id))?.state ?? row.state ?? "ready";
    return { id, queue, state, existing: true };
  }

  #id(createdAt: number, seq: number): string {
    return formatTaskId(createdAt, seq, this.#header.salt);
  }

  seqOf(id: string): number | undefined {
    return parseTaskId(id, this.#header.salt)?.seq;
  }

  /** Notifies other processes when the caller commits. */
  async notifyAtCommit(): Promise<void> {
    const message = JSON.stringify({ from: "", foreign: true });
    const [row] = await this.link.all<{ xid: string }>(NOTIFY, channelOf(this.lookups.schema), message);
    this.xid = row!.xid;
  }
}

const MOST_TRIES = 3;

/**
 * An ack of a stage is refused: it would lock the run's row until the caller commits, and all parts of the run would wait
 * for that.
 */
export function stageRefused(id: string): DibsError {
  return new DibsError(
    "UNSUPPORTED",
    `tx: task ${id} is a stage of a run. Your transaction cannot add the run's next stage. Ack the task without tx.`,
  );
}

/** It would lock the family until the caller commits, and all other children would wait to end. */
export function childRefused(id: string): DibsError {
  return new DibsError(
    "UNSUPPORTED",
    `tx: task ${id} was spawned by another task. Your transaction cannot wake its parent. Ack the task without tx.`,
  );
}

interface HeaderRow extends Identity {
  needs: number;
  closed: string | null;
  began: string;
  isolation: string;
  read_only: "on" | "off";
  clock: string;
}

export const BEGAN = `transaction_timestamp()::text AS began`;
const HEADER = `
  SELECT needs, ${CLOSED}, ${IDENTITY}, ${BEGAN}, current_setting('transaction_isolation') AS isolation,
    current_setting('transaction_read_only') AS read_only,
    (${THIS_MOMENT})::text AS clock
  FROM dibs.store WHERE one = 1`;
const NEXT = `SELECT nextval('dibs.seq')::text AS n, ${BEGAN} FROM generate_series(1, $1::int4)`;
const NOTIFY = `SELECT pg_notify($1, $2)::text AS sent, pg_current_xact_id()::text AS xid`;
const RELEASE_KEY = `
  DELETE FROM dibs.idempotency WHERE queue = $1::int4 AND key = $2 AND task = $3::int8 RETURNING 1 AS released`;
const TAKE_KEY = `
  INSERT INTO dibs.idempotency (queue, key, task, created_at) VALUES ($1::int4, $2, $3::int8, $4::int8)
  ON CONFLICT (queue, key) DO UPDATE
  SET task = excluded.task, created_at = excluded.created_at, forget_at = NULL, state = NULL
  WHERE idempotency.forget_at <= $4::int8 RETURNING 1 AS taken`;

const INSERT_TASKS = `
  WITH given AS (
    SELECT * FROM json_to_recordset($1::text::json) AS each (seq int8, queue int4, due int8, expires_at int8, priority int2,
      max_attempts int4, cost int8, urgent bool, group_key text, idempotency_key text, content_type text, headers text,
      data text, bytes text, run_queue text, pipeline text, stages text, counts text, stage text)
  ), begun AS (
    INSERT INTO dibs.run (id, created_at, queue, pipeline, stages, counts, under_way, dead)
    SELECT seq, $2::int8, run_queue, pipeline, stages, counts, 1, 0 FROM given WHERE pipeline IS NOT NULL
  ), parts AS (
    INSERT INTO dibs.run_part (task, run, created_at, stage, part)
    SELECT seq, seq, $2::int8, stage, '' FROM given WHERE pipeline IS NOT NULL
  ), added AS (
    INSERT INTO dibs.task (seq, queue, created_at, priority, group_key, expires_at, max_attempts, cost, urgent,
      idempotency_key, content_type, headers, data, bytes)
    SELECT seq, queue, $2::int8, priority, group_key, expires_at, max_attempts, cost, urgent, idempotency_key,
      content_type, headers, data, decode(bytes, 'base64')
    FROM given)
  INSERT INTO dibs.inbox (task, due, queue) SELECT seq, due, queue FROM given ORDER BY seq`;

function rowOf(task: NewTask, more: object): object {
  const [data, bytes] = toColumns(task.data);
  return {
    ...more,
    priority: task.priority ?? 0,
    max_attempts: task.maxAttempts ?? null,
    cost: task.cost ?? null,
    urgent: task.urgent || null,
    group_key: task.groupKey ?? null,
    idempotency_key: task.idempotencyKey ?? null,
    content_type: storedContentType(task),
    headers: storedHeaders(task),
    data,
    bytes: bytes && Buffer.from(bytes).toString("base64"),
    ...(task.run && {
      run_queue: task.queue,
      pipeline: task.run.pipeline,
      stages: JSON.stringify(task.run.stages),
      counts: countsText(firstCounts(task.run.stages)),
      stage: task.run.stages[0]!.name,
    }),
  };
}
