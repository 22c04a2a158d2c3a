import { closedError } from "../../../engine/transfer.ts";
import { DibsError, invalid } from "../../../core/errors.ts";
import { isLarger, queueFull, tooLarge } from "../../../core/limits.ts";
import type { QueuePolicy } from "../../../core/policy.ts";
import { formatTaskId, parseTaskId } from "../../../core/task-id.ts";
import { copiesOf } from "../../../core/topic.ts";
import type { AddedTask, Addition, NewMessage, NewTask, TaskState } from "../../../core/task.ts";
import { contentTypeOf, headersOf } from "../verbs/add-columns.ts";
import { CallersLink } from "./caller.ts";
import { readOnly, tooOld } from "./caller-failure.ts";
import { THIS_MOMENT } from "../statements/clock.ts";
import { channelOf } from "../connection/notifier.ts";
import { elsewhere, IDENTITY, type Identity, isSame } from "../connection/identity.ts";
import { checkKnown, CLOSED, describeSchema } from "../schema/migrations.ts";
import { KEY, type KeyRow, type ReadLatest } from "./read-latest.ts";
import { toColumns } from "../statements/text.ts";

/** What of the store is looked up on our own connection: the caller's may see an older moment. */
export interface StoreLookups {
  schema: string;
  /** For messages; nothing secret. */
  where: string;
  /** Which store this is, as it was last asked or anew. */
  identity(how?: { anew: true }): Promise<Identity>;
  /** Made if they are new, and kept even if the caller rolls back. */
  queues(names: string[]): Promise<Map<string, KnownQueue>>;
  /** Tasks that wait, for a queue's maxDepth. */
  depth(queue: string): Promise<number>;
  stateOf(id: string): Promise<TaskState | undefined>;
  /** The queues of the subscriptions that a topic reaches. */
  reachedBy(topic: string): Promise<string[]>;
  look: ReadLatest;
}

export interface KnownQueue {
  id: number;
  policy: QueuePolicy;
}

/**
 * Adds and acks (caller-ack.ts) within a transaction of the caller's. It writes rows that nobody else knows of yet, and leaves
 * a note in the inbox; what would need others' rows is done by the batch that takes the note up after the commit (inbox.ts).
 * Values travel as JSON, and as a text, which every library passes on alike: of a parameter that is json some make JSON.
 */
export class CallerTransaction {
  readonly link: CallersLink;
  readonly around: StoreLookups;
  #header!: HeaderRow;
  now = 0;
  /** Of the transaction, once it has left something for after its commit. */
  xid: string | undefined;

  private constructor(link: CallersLink, around: StoreLookups) {
    this.link = link;
    this.around = around;
  }

  static async begin(tx: unknown, around: StoreLookups): Promise<CallerTransaction> {
    const within = new CallerTransaction(new CallersLink(tx, around), around);
    await within.#readHeader();
    await within.#checkStore();
    if (within.#header.read_only === "on") throw readOnly();
    return within;
  }

  async #readHeader(): Promise<void> {
    const [row] = await this.link.all<HeaderRow>(HEADER);
    if (!row) throw tooOld("the store was made");
    checkKnown(this.around.schema, row.needs);
    if (row.closed !== null) throw closedError(row.closed, describeSchema(this.around.schema));
    this.#header = row;
    this.now = Number(row.clock);
  }

  /** The names of its tables are those of any store. */
  async #checkStore(): Promise<void> {
    let mine = await this.around.identity();
    for (let tries = 1; !isSame(mine, this.#header); tries++) {
      const { schema, where } = this.around;
      if (tries > MOST_TRIES) throw elsewhere(mine.salt === this.#header.salt, schema, where);
      // The server may have crashed since we asked, or the store been made anew; and its next life begin between the two questions.
      mine = await this.around.identity({ anew: true });
      await this.#readHeader();
    }
  }

  /** It sees the store as it was at its first statement, and not as it is. */
  get seesOneMoment(): boolean {
    return !this.#header.isolation.startsWith("read ");
  }

  // ── Add ─────────────────────────────────────────────────────────────────────────────────────────────────

  async add(tasks: NewTask[]): Promise<AddedTask[]> {
    const queues = await this.queuesOf(tasks);
    await this.check(tasks, queues);
    return this.addChecked(tasks, queues);
  }

  queuesOf(tasks: NewTask[]): Promise<Map<string, KnownQueue>> {
    return this.around.queues([...new Set(tasks.map((task) => task.queue))]);
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
    await this.leave();
    return added;
  }

  async #numbers(count: number): Promise<number[]> {
    const rows = await this.link.all<{ n: string; began: string }>(NEXT, count);
    if (rows[0]) this.checkBegun(rows[0]);
    return rows.map(({ n }) => Number(n));
  }

  /**
   * Without a transaction each statement is one by itself, with a time of its own. Asked before anything is written: half of
   * what belongs together could be left behind.
   */
  checkBegun({ began }: { began: string }): void {
    if (began !== this.#header.began) {
      throw invalid(
        "tx is not inside a transaction: begin one first, on a client and not on a pool, and commit it afterwards.",
      );
    }
  }

  /** To those who have subscribed by now, and not by the commit: which may be long in coming. */
  async publish(message: NewMessage): Promise<AddedTask[]> {
    return this.add(await this.fanOut([message]));
  }

  async fanOut(additions: readonly Addition[]): Promise<NewTask[]> {
    const tasks: NewTask[] = [];
    for (const addition of additions) {
      if ("topic" in addition) tasks.push(...copiesOf(addition, await this.around.reachedBy(addition.topic)));
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
      if (policy.maxDepth === null) continue;
      const count = tasks.filter((task) => task.queue === name).length;
      const depth = await this.around.depth(name);
      if (depth + count > policy.maxDepth) throw queueFull(name, depth, count, policy.maxDepth);
    }
  }

  /** The key's row is the caller's until the commit: who comes with the same one waits, and finds this task or none. */
  async #takeKey(queue: number, task: NewTask, seq: number): Promise<AddedTask | undefined> {
    const key = task.idempotencyKey!;
    // Looked for first: to ask for one that is taken locks its row, and whoever ends that task would wait for the caller.
    const row = await this.#findKey(queue, key);
    if (row) return this.#known(task.queue, row);
    if ((await this.link.run(TAKE_KEY, queue, key, seq, this.now)) > 0) return undefined;
    return this.#known(task.queue, (await this.#findKey(queue, key))!);
  }

  /**
   * One that was taken since the transaction's only moment is seen on our own connection, and one that only the transaction sees
   * is its own: or has been forgotten since, and then cannot be locked.
   */
  async #findKey(queue: number, key: string): Promise<KeyRow | undefined> {
    const { look } = this.around;
    const known = this.seesOneMoment ? await look.key(queue, key, this.now) : undefined;
    if (known) return known;
    const [row] = await this.link.all<KeyRow>(
      this.seesOneMoment ? `${KEY} FOR SHARE` : KEY,
      queue,
      key,
      this.now,
    );
    return row;
  }

  async #known(queue: string, row: KeyRow): Promise<AddedTask> {
    const id = this.#id(Number(row.created_at), Number(row.task));
    const state = (await this.around.stateOf(id)) ?? row.state ?? "ready";
    return { id, queue, state, existing: true };
  }

  #id(createdAt: number, seq: number): string {
    return formatTaskId(createdAt, seq, this.#header.salt);
  }

  seqOf(id: string): number | undefined {
    return parseTaskId(id, this.#header.salt)?.seq;
  }

  /** Told when the caller commits, and never if it does not. */
  async leave(): Promise<void> {
    const message = JSON.stringify({ from: "", foreign: true });
    const [row] = await this.link.all<{ xid: string }>(TELL, channelOf(this.around.schema), message);
    this.xid = row!.xid;
  }
}

const MOST_TRIES = 3;

/** The ack would lock the run's row until the caller commits, and all parts of the run would wait for it. */
export function noStageWithin(id: string): DibsError {
  return new DibsError(
    "UNSUPPORTED",
    `tx: task ${id} is a stage of a run, which a transaction of yours cannot take on. Ack it without tx.`,
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
const TELL = `SELECT pg_notify($1, $2)::text AS told, pg_current_xact_id()::text AS xid`;
const TAKE_KEY = `
  INSERT INTO dibs.idempotency (queue, key, task, created_at) VALUES ($1::int4, $2, $3::int8, $4::int8)
  ON CONFLICT (queue, key) DO UPDATE
  SET task = excluded.task, created_at = excluded.created_at, forget_at = NULL, state = NULL
  WHERE idempotency.forget_at <= $4::int8 RETURNING 1 AS taken`;

const INSERT_TASKS = `
  WITH given AS (
    SELECT * FROM json_to_recordset($1::text::json) AS each (seq int8, queue int4, due int8, expires_at int8, priority int2,
      max_attempts int4, cost int8, urgent bool, group_key text, idempotency_key text, content_type text, headers text,
      data text, bytes text, run_queue text, pipeline text, stages text, stage text)
  ), begun AS (
    INSERT INTO dibs.run (id, created_at, queue, pipeline, stages, under_way, dead)
    SELECT seq, $2::int8, run_queue, pipeline, stages, 1, 0 FROM given WHERE pipeline IS NOT NULL
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
    content_type: contentTypeOf(task),
    headers: headersOf(task),
    data,
    bytes: bytes && Buffer.from(bytes).toString("base64"),
    ...(task.run && {
      run_queue: task.queue,
      pipeline: task.run.pipeline,
      stages: JSON.stringify(task.run.stages),
      stage: task.run.stages[0]!.name,
    }),
  };
}
