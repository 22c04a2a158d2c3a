import type { Reading } from "../../core/clock.ts";
import { advanceTime, type EngineTime, startTime } from "../../core/engine-time.ts";
import { claimLost, DibsError, invalid } from "../../core/errors.ts";
import { isLarger, queueFull, tooLarge } from "../../core/limits.ts";
import type { QueuePolicy } from "../../core/policy.ts";
import { formatTaskId, parseTaskId } from "../../core/task-id.ts";
import { encodeAdds, isVerificationQueue, verificationTask } from "../../core/verification.ts";
import { copiesOf } from "../../core/topic.ts";
import type { AddedTask, Addition, Body, EndState, NewMessage, NewTask, TaskState } from "../../core/task.ts";
import { BOUNDS, type Settlement } from "../../engine/engine.ts";
import { contentTypeOf, headersOf } from "./add.ts";
import { channelOf } from "./herald.ts";
import { checkKnown } from "./migrations.ts";
import { inSchema, toColumns } from "./text.ts";

/** A client of `pg`, or `{ query(sql, params) }` around another library's, which answers the rows. */
export interface Caller {
  query(sql: string, params: unknown[]): unknown;
}

/** What of the store is looked up on our own connection: the caller's may see an older moment. */
export interface Surroundings {
  schema: string;
  /** Of an injected clock; null: the server's own. */
  reading: Reading | null;
  /** Made if they are new, and kept even if the caller rolls back. */
  queues(names: string[]): Promise<Map<string, KnownQueue>>;
  /** Tasks that wait, for a queue's maxDepth. */
  depth(queue: string): Promise<number>;
  stateOf(id: string): Promise<TaskState | undefined>;
  /** The queues of the subscriptions that a topic reaches. */
  reachedBy(topic: string): Promise<string[]>;
}

export interface KnownQueue {
  id: number;
  policy: QueuePolicy;
}

/**
 * Adds and acks within a transaction of the caller's. It writes rows that nobody else knows of yet, and leaves a note in
 * the inbox; what would need others' rows is done by the batch that takes the note up after the commit (inbox.ts).
 * Values travel as JSON, and as a text, which every library passes on alike: of a parameter that is json some make JSON.
 */
export class Within {
  readonly #caller: Caller;
  readonly #around: Surroundings;
  #now = 0;
  #salt = 0;
  /** When the caller's transaction began. */
  #began = "";

  private constructor(caller: Caller, around: Surroundings) {
    this.#caller = caller;
    this.#around = around;
  }

  static async begin(tx: unknown, around: Surroundings): Promise<Within> {
    if (typeof (tx as Caller | null)?.query !== "function") {
      throw invalid(
        "tx must be a client of pg inside its transaction, or { query(sql, params) } that answers the rows.",
      );
    }
    const within = new Within(tx as Caller, around);
    await within.#readHeader();
    return within;
  }

  async #all<Row>(sql: string, ...params: unknown[]): Promise<Row[]> {
    const text = inSchema(sql, this.#around.schema);
    const answer = (await this.#caller.query(text, params)) as Row[] | { rows: Row[] };
    return Array.isArray(answer) ? answer : answer.rows;
  }

  async #readHeader(): Promise<void> {
    const [row] = await this.#all<HeaderRow>(HEADER);
    const { reading, schema } = this.#around;
    checkKnown(schema, row!.needs);
    this.#salt = row!.salt;
    this.#began = row!.began;
    this.#now = reading === null ? Number(row!.clock) : timeOf(row!, reading).now;
  }

  // ── Add ─────────────────────────────────────────────────────────────────────────────────────────────────

  async add(tasks: NewTask[]): Promise<AddedTask[]> {
    if (tasks.some(({ run }) => run)) throw noRunWithin();
    const queues = await this.#queuesOf(tasks);
    await this.#check(tasks, queues);
    return this.#addChecked(tasks, queues);
  }

  #queuesOf(tasks: NewTask[]): Promise<Map<string, KnownQueue>> {
    return this.#around.queues([...new Set(tasks.map((task) => task.queue))]);
  }

  async #addChecked(tasks: NewTask[], queues: Map<string, KnownQueue>): Promise<AddedTask[]> {
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
      const due = task.delay !== undefined && task.delay > 0 ? this.#now + task.delay : null;
      rows.push(rowOf(task, { seq, queue, due, expires_at: ttl === null ? null : this.#now + ttl }));
      const state = due === null ? "ready" : "scheduled";
      added.push({ id: this.#id(this.#now, seq), queue: task.queue, state, existing: false });
    }
    if (rows.length === 0) return added;
    await this.#all(INSERT_TASKS, JSON.stringify(rows), this.#now);
    await this.#leave();
    return added;
  }

  async #numbers(count: number): Promise<number[]> {
    const rows = await this.#all<{ n: string; began: string }>(NEXT, count);
    if (rows[0]) this.#checkBegun(rows[0]);
    return rows.map(({ n }) => Number(n));
  }

  /**
   * Without a transaction each statement is one by itself, with a time of its own. Asked before anything is written: half of
   * what belongs together could be left behind.
   */
  #checkBegun({ began }: { began: string }): void {
    if (began !== this.#began) {
      throw invalid(
        "tx is not inside a transaction: begin one first, on a client and not on a pool, and commit it afterwards.",
      );
    }
  }

  /** To those who have subscribed by now, and not by the commit: which may be long in coming. */
  async publish(message: NewMessage): Promise<AddedTask[]> {
    return this.add(await this.#fanOut([message]));
  }

  async #fanOut(additions: readonly Addition[]): Promise<NewTask[]> {
    const tasks: NewTask[] = [];
    for (const addition of additions) {
      if ("topic" in addition)
        tasks.push(...copiesOf(addition, await this.#around.reachedBy(addition.topic)));
      else tasks.push(addition);
    }
    return tasks;
  }

  async #check(tasks: NewTask[], queues: Map<string, KnownQueue>): Promise<void> {
    for (const [index, task] of tasks.entries()) {
      const { maxPayload } = queues.get(task.queue)!.policy;
      const what = tasks.length > 1 ? `The payload of task ${index}` : "The payload";
      if (isLarger(task.data, maxPayload)) throw tooLarge(what, task.data, maxPayload, task.queue);
    }
    for (const [name, { policy }] of queues) {
      if (policy.maxDepth === null) continue;
      const count = tasks.filter((task) => task.queue === name).length;
      const depth = await this.#around.depth(name);
      if (depth + count > policy.maxDepth) throw queueFull(name, depth, count, policy.maxDepth);
    }
  }

  /** The key's row is the caller's until the commit: who comes with the same one waits, and finds this task or none. */
  async #takeKey(queue: number, task: NewTask, seq: number): Promise<AddedTask | undefined> {
    const key = task.idempotencyKey!;
    const find = (): Promise<KeyRow[]> => this.#all<KeyRow>(KEY, queue, key, this.#now);
    // Looked for first: to ask for one that is taken locks its row, and whoever ends that task would wait for the caller.
    let [row] = await find();
    if (!row && (await this.#all(TAKE_KEY, queue, key, seq, this.#now)).length > 0) return undefined;
    [row] = row ? [row] : await find();
    const id = this.#id(Number(row!.created_at), Number(row!.task));
    const state = (await this.#around.stateOf(id)) ?? row!.state ?? "ready";
    return { id, queue: task.queue, state, existing: true };
  }

  // ── Ack ─────────────────────────────────────────────────────────────────────────────────────────────────

  async settle(
    id: string,
    fence: number,
    settlement: Settlement,
    spent: number | undefined,
  ): Promise<{ state: TaskState }> {
    if (settlement.kind !== "done") throw invalid("Only an ack can be part of a transaction of yours.");
    const place = parseTaskId(id, this.#salt);
    const [held] = place ? await this.#all<HeldRow>(HELD, place.seq, fence) : [];
    if (!held) throw claimLost(id, fence);
    this.#checkBegun(held);
    if (held.of_run) throw noRunWithin();
    const { result, adds = [] } = settlement;
    const { policy } = (await this.#around.queues([held.queue_name])).get(held.queue_name)!;
    if (!held.cancelled && result !== null && isLarger(result, policy.maxPayload)) {
      throw tooLarge("The result", result, policy.maxPayload, held.queue_name);
    }
    // It would end without a verdict, and what it asks about would have to be moved: others' rows.
    if (isVerificationQueue(held.queue_name))
      throw invalid("A verdict cannot be part of a transaction of yours.");
    if (spent !== undefined)
      await this.#all(CORRECT_LATER, held.queue, held.group_key, held.cost, spent, held.started_at);
    if (!held.cancelled && policy.verified) return this.#askForVerdict(id, held, settlement, policy);
    if (!held.cancelled && adds.length > 0) await this.add(await this.#fanOut(adds));
    const state = held.cancelled ? "cancelled" : "done";
    await this.#all(DELETE_CLAIM, held.task);
    if (held.special) await this.#all(DELETE_STEPS, held.task);
    if (held.cancelled) await this.#all(INSERT_ATTEMPT, held.task, this.#now, JSON.stringify(held));
    await this.#all(INSERT_ENDED, JSON.stringify({ ...held, state, ...resultOf(held, result) }), this.#now);
    if (held.idempotency_key !== null) {
      const forgetAt = this.#now + BOUNDS.keyAfterEnd;
      await this.#all(END_KEY, forgetAt, state, held.queue, held.idempotency_key, held.task);
    }
    const service = this.#now - Number(held.started_at);
    const slot = Math.floor(this.#now / BOUNDS.rateSlot);
    await this.#all(
      DELTA,
      held.queue,
      slot,
      held.cancelled ? 0 : 1,
      held.cancelled ? 1 : 0,
      held.cancelled ? 0 : service,
    );
    if (held.group_key !== null) await this.#all(FREE_LATER, held.queue, held.group_key);
    await this.#leave();
    return { state };
  }

  /** In a verified queue the result and what it adds are kept back: see verify.ts. */
  async #askForVerdict(
    id: string,
    held: HeldRow,
    { result, adds = [] }: Settlement & { kind: "done" },
    policy: QueuePolicy,
  ): Promise<{ state: TaskState }> {
    const tasks = await this.#fanOut(adds);
    await this.#check(tasks, await this.#queuesOf(tasks));
    const asks = [verificationTask(held.queue_name, { id, fence: Number(held.fence) })];
    const [asking] = await this.#addChecked(asks, await this.#queuesOf(asks));
    const { seq: asked } = parseTaskId(asking!.id, this.#salt)!;
    const kept = adds.length > 0 ? encodeAdds(adds) : null;
    const row = { ...held, asked, adds: kept, ...resultOf(held, result) };
    await this.#all(INSERT_VERIFYING, JSON.stringify(row));
    await this.#all(DELETE_CLAIM, held.task);
    if (held.group_key !== null && policy.groups.concurrency > 1) {
      await this.#all(STEP_ASIDE, held.task);
      await this.#all(FREE_LATER, held.queue, held.group_key);
    }
    await this.#all(DELTA_VERIFYING, held.queue, Math.floor(this.#now / BOUNDS.rateSlot));
    await this.#leave();
    return { state: "verifying" };
  }

  #id(createdAt: number, seq: number): string {
    return formatTaskId(createdAt, seq, this.#salt);
  }

  /** Told when the caller commits, and never if it does not. */
  async #leave(): Promise<void> {
    const message = { from: "", foreign: true };
    await this.#all(
      `SELECT pg_notify($1, $2)::text`,
      channelOf(this.#around.schema),
      JSON.stringify(message),
    );
  }
}

/** A run's row would be locked until the caller commits, and with it all of its parts. */
function noRunWithin(): DibsError {
  return new DibsError(
    "UNSUPPORTED",
    "tx: a run of a pipeline cannot begin or go on within a transaction of yours. Add it after your commit.",
  );
}

/** Of an injected clock: see tx.ts. */
function timeOf(row: HeaderRow, reading: Reading): EngineTime {
  if (row.now === null) return startTime(reading);
  const [now, awake] = [Number(row.now), Number(row.awake)];
  const [elapsedAt, awakeAt] = [Number(row.elapsed_at), Number(row.awake_at)];
  return advanceTime({ now, awake, boot: row.boot, elapsedAt, awakeAt }, reading);
}

interface HeaderRow {
  needs: number;
  salt: number;
  began: string;
  clock: string;
  now: string | null;
  awake: string;
  boot: string;
  elapsed_at: string;
  awake_at: string;
}

const BEGAN = `transaction_timestamp()::text AS began`;
const HEADER = `
  SELECT needs, salt, ${BEGAN}, floor(extract(epoch FROM clock_timestamp()) * 1000)::int8::text AS clock, now::text, awake::text, boot,
    elapsed_at::text, awake_at::text
  FROM dibs.store WHERE one = 1`;
const NEXT = `SELECT nextval('dibs.seq')::text AS n, ${BEGAN} FROM generate_series(1, $1::int4)`;
const TAKE_KEY = `
  INSERT INTO dibs.idempotency (queue, key, task, created_at) VALUES ($1::int4, $2, $3::int8, $4::int8)
  ON CONFLICT (queue, key) DO UPDATE
  SET task = excluded.task, created_at = excluded.created_at, forget_at = NULL, state = NULL
  WHERE idempotency.forget_at <= $4::int8 RETURNING 1 AS taken`;
const KEY = `
  SELECT task::text, created_at::text, state FROM dibs.idempotency
  WHERE queue = $1::int4 AND key = $2 AND (forget_at IS NULL OR forget_at > $3::int8)`;

interface KeyRow {
  task: string;
  created_at: string;
  state: EndState | null;
}

const INSERT_TASKS = `
  WITH given AS (
    SELECT * FROM json_to_recordset($1::text::json) AS each (seq int8, queue int4, due int8, expires_at int8, priority int2,
      max_attempts int4, cost int8, urgent bool, group_key text, idempotency_key text, content_type text, headers text,
      data text, bytes text)
  ), added AS (
    INSERT INTO dibs.task (seq, queue, created_at, priority, group_key, expires_at, max_attempts, cost, urgent,
      idempotency_key, content_type, headers, data, bytes)
    SELECT seq, queue, $2::int8, priority, group_key, expires_at, max_attempts, cost, urgent, idempotency_key,
      content_type, headers, data, decode(bytes, 'base64')
    FROM given)
  INSERT INTO dibs.inbox (task, due, queue) SELECT seq, due, queue FROM given ORDER BY seq`;

interface HeldRow {
  task: string;
  began: string;
  queue: number;
  queue_name: string;
  fence: string;
  started_at: string;
  failures: number;
  worker: string;
  cancelled: boolean;
  special: boolean;
  of_run: boolean;
  cost: string | null;
  group_key: string | null;
  idempotency_key: string | null;
}

const HELD = `
  SELECT claim.task::text, claim.queue, queue.name AS queue_name, claim.fence::text, claim.started_at::text,
    claim.failures, claim.worker, claim.cancelled, claim.special, task.cost::text, task.group_key,
    task.idempotency_key, ${BEGAN},
    EXISTS (SELECT 1 FROM dibs.run_part WHERE run_part.task = claim.task) AS of_run
  FROM dibs.claim JOIN dibs.task ON task.seq = claim.task JOIN dibs.queue ON queue.id = claim.queue
  WHERE claim.task = $1::int8 AND claim.fence = $2::int8 FOR UPDATE OF claim`;
const DELETE_CLAIM = `DELETE FROM dibs.claim WHERE task = $1::int8`;
const DELETE_STEPS = `DELETE FROM dibs.step WHERE task = $1::int8`;
const INSERT_VERIFYING = `
  INSERT INTO dibs.verifying (task, asked, fence, started_at, queue, failures, worker, adds, result, result_bytes)
  SELECT task, asked, fence, started_at, queue, failures, worker, adds, result, decode(result_bytes, 'base64')
  FROM json_to_record($1::text::json) AS held (task int8, asked int8, fence int8, started_at int8, queue int4, failures int2,
    worker text, adds text, result text, result_bytes text)`;
const INSERT_ATTEMPT = `
  INSERT INTO dibs.attempt (task, fence, attempt, worker, started_at, ended_at, outcome)
  SELECT $1::int8, fence, failures + 1, worker, started_at, $2::int8, 'cancelled'
  FROM json_to_record($3::text::json) AS held (fence int8, failures int2, worker text, started_at int8)`;
const INSERT_ENDED = `
  INSERT INTO dibs.ended (task, queue, state, ended_at, started_at, attempt, fence, worker, result, result_bytes)
  SELECT task, queue, state, $2::int8, CASE state WHEN 'done' THEN started_at END,
    CASE state WHEN 'done' THEN failures + 1 END, CASE state WHEN 'done' THEN fence END,
    CASE state WHEN 'done' THEN worker END, result, decode(result_bytes, 'base64')
  FROM json_to_record($1::text::json) AS held (task int8, queue int4, state text, started_at int8, failures int2, fence int8,
    worker text, result text, result_bytes text)`;
const END_KEY = `
  UPDATE dibs.idempotency SET forget_at = $1::int8, state = $2
  WHERE queue = $3::int4 AND key = $4 AND task = $5::int8`;
const DELTA = `
  INSERT INTO dibs.delta (queue, slot, ready, waiting, scheduled, claimed, done, dead, cancelled, expired,
    added, started, succeeded, failed, wait_ms, service_ms)
  VALUES ($1::int4, $2::int8, 0, 0, 0, -1, $3::int4, 0, $4::int4, 0, 0, 0, $3::int4, 0, 0, $5::int8)`;
const DELTA_VERIFYING = `
  INSERT INTO dibs.delta (queue, slot, ready, waiting, scheduled, claimed, done, dead, cancelled, expired,
    added, started, succeeded, failed, wait_ms, service_ms, verifying)
  VALUES ($1::int4, $2::int8, 0, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)`;
const STEP_ASIDE = `INSERT INTO dibs.aside (task) VALUES ($1::int8)`;
// The books are the queue's, whose gate would be ours until the caller commits.
const CORRECT_LATER = `
  INSERT INTO dibs.inbox (queue, group_key, cost, spent, started_at) VALUES ($1::int4, $2, $3::int8, $4::int8, $5::int8)`;
const FREE_LATER = `INSERT INTO dibs.inbox (queue, group_key) VALUES ($1::int4, $2)`;

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
  };
}

function resultOf({ cancelled }: HeldRow, result: Body | null): object {
  const [text, bytes] = toColumns(cancelled ? null : result);
  return { result: text, result_bytes: bytes && Buffer.from(bytes).toString("base64") };
}
