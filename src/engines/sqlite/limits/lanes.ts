import { groupOrder, maxInLine, putsUrgentFirst } from "../../../core/queue/policy.ts";
import { isEmpty, isOver, type Meter, NO_METER, earliestStart } from "../../../core/queue/rate.ts";
import { FIRST_RANK, isUrgent } from "../../../core/task/task.ts";
import { chunks, sized } from "../statements/chunks.ts";
import type { TransitionTask } from "../line/line.ts";
import { enterLines, type ReadyTask } from "../line/enter-line.ts";
import type { Value } from "../statements/statements.ts";
import { COUNTED, type Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * Which tasks of a group are in the line, in queues whose lanes store more than their heads: see `Lanes` in
 * transaction/queue-cache.ts.
 */
export interface Lane extends LaneName {
  /** How many of its tasks are in the line or claimed, or block the group otherwise. */
  holders: number;
  /** The numbers of its tasks in the line, if they are counted. */
  line: number[];
  /** The session that had the last task, if groups are sticky. */
  session: number | null;
  meter: Meter;
  /** No task starts before: a hold. */
  heldUntil: number;
  /** When to check again whether more may start; null: another event will tell. */
  wakeAt: number | null;
  /** As stored. */
  row: LaneRow | undefined;
  /** The wake time, as stored. */
  woken: number | null;
  /** The first waiting task; null: none waits; undefined: not read yet. */
  next: WaitingRow | null | undefined;
  /** Waiting tasks up to this position were promoted, which is not written yet. */
  upTo: { urgent: number; other: number };
}

export interface LaneName {
  queue: Queue;
  key: string;
}

interface LaneRow {
  /** Null: it has one head and stores nothing else. */
  state: string | null;
}

/** As stored: unknown and default values are left out. */
export interface LaneState {
  holders: number;
  line?: number[];
  session?: number;
  meter?: Meter;
  heldUntil?: number;
  wakeAt?: number;
}

export interface WaitingRow {
  pos: number;
  task: number;
  rank: number;
  failures: number;
}

const LANE = `SELECT state FROM lane WHERE queue = ? AND group_key = ?`;
const LANES = sized(
  `SELECT queue, group_key, state FROM (VALUES `,
  () => `(?, ?)`,
  `) CROSS JOIN lane ON lane.queue = column1 AND lane.group_key = column2`,
);
const SAVE_LANES = sized(`INSERT OR REPLACE INTO lane (queue, group_key, state) VALUES `, () => `(?, ?, ?)`);
const DELETE_LANES = sized(`DELETE FROM lane WHERE (queue, group_key) IN (VALUES `, () => `(?, ?)`, `)`);
const WAKE = `INSERT INTO wake (at, queue, group_key) VALUES (?, ?, ?)`;
const LET_SLEEP = `DELETE FROM wake WHERE at = ? AND queue = ? AND group_key = ?`;
const next = (where: string): string => `
  SELECT pos, task, rank, failures FROM waiting WHERE queue = ? AND group_key = ? AND pos > ? ${where} ORDER BY pos LIMIT 1`;
const NEXT_WAITING = next("");
const NEXT_URGENT = next(`AND rank < ${FIRST_RANK}`);
const NEXT_OTHER = next(`AND rank >= ${FIRST_RANK}`);
const OF_GROUP = `SELECT min(pos) FROM waiting WHERE queue = column1 AND group_key = column2`;
const firstWaiting = (pos: string): ((count: number) => string) =>
  sized(
    `SELECT queue, group_key, pos, task, rank, failures
   FROM (VALUES `,
    () => `(?, ?)`,
    `) CROSS JOIN waiting ON waiting.queue = column1 AND waiting.group_key = column2 AND waiting.pos = ${pos}`,
  );
const FIRST_WAITING = firstWaiting(`(${OF_GROUP})`);
const FIRST_URGENT_WAITING = firstWaiting(`coalesce((${OF_GROUP} AND rank < ${FIRST_RANK}), (${OF_GROUP}))`);
const DELETE_WAITING = sized(
  `DELETE FROM waiting WHERE (queue, group_key, pos) IN (VALUES `,
  () => `(?, ?, ?)`,
  `)`,
);
const INSERT_WAITING = `
  INSERT INTO waiting (queue, group_key, pos, task, rank, failures) VALUES (?, ?, ?, ?, ?, ?)`;

/** It waits behind the head of its group. */
export function wait(tx: Tx, task: TransitionTask): void {
  tx.run(INSERT_WAITING, task.queue.id, task.groupKey, task.pos, task.seq, task.rank, task.failures);
  tx.counters.count(task.queue, "waiting", 1);
}

/** The lanes that one operation changes: read together, and written together at its end. */
export class LaneChanges {
  readonly #tx: Tx;
  readonly #lanes = new Map<string, Lane>();
  readonly #entering: ReadyTask[] = [];
  readonly #left: Value[][] = [];

  constructor(tx: Tx) {
    this.#tx = tx;
  }

  /** Reads those that were not read yet. */
  open(names: readonly LaneName[]): void {
    const missing = new Map(names.map((name) => [nameOf(name), name]));
    for (const name of this.#lanes.keys()) missing.delete(name);
    const rows = new Map<string, LaneRow>();
    for (const chunk of chunks([...missing.values()])) {
      const values = chunk.flatMap(({ queue, key }) => [queue.id, key]);
      for (const row of this.#tx.all<LaneRow & RowName>(LANES(chunk.length), ...values))
        rows.set(nameOfRow(row), row);
    }
    for (const [name, { queue, key }] of missing) this.#lanes.set(name, laneFrom(queue, key, rows.get(name)));
  }

  lane(queue: Queue, key: string): Lane {
    const name = nameOf({ queue, key });
    let lane = this.#lanes.get(name);
    if (!lane) {
      lane = laneFrom(queue, key, this.#tx.get<LaneRow>(LANE, queue.id, key));
      this.#lanes.set(name, lane);
    }
    return lane;
  }

  /** Reads which tasks wait in these lanes, in one statement. */
  lookAhead(lanes: readonly Lane[]): void {
    for (const lane of lanes) lane.next = null;
    for (const [urgentFirst, some] of Map.groupBy(lanes, ({ queue }) => putsUrgentFirst(queue.policy))) {
      const sql = urgentFirst ? FIRST_URGENT_WAITING : FIRST_WAITING;
      for (const chunk of chunks(some)) {
        const values = chunk.flatMap(({ queue, key }) => [queue.id, key]);
        for (const row of this.#tx.all<WaitingRow & RowName>(sql(chunk.length), ...values))
          this.#lanes.get(nameOfRow(row))!.next = row;
      }
    }
  }

  /**
   * Promotes the first waiting tasks of a group, as many as may be. `joining`: a task that joins and has no row yet.
   * Returns whether it was promoted.
   */
  fill(lane: Lane, joining?: TransitionTask): boolean {
    let behind = joining;
    let at: number | null = null;
    const order = groupOrder(lane.queue.policy);
    while (!isFull(lane)) {
      const first = this.#next(lane);
      const comes = behind && (!first || order(behind, first) < 0) ? behind : undefined;
      const next = comes ? { ...comes, task: comes.seq } : first;
      if (next) at = this.#opensFor(lane, next.task);
      if (!next || at! > this.#tx.now) break;
      at = null;
      if (comes) behind = undefined;
      else this.#leave(lane, next);
      this.#lineUp(lane, next);
    }
    this.#wakeAt(lane, at);
    if (!behind) return joining !== undefined;
    wait(this.#tx, behind);
    lane.next = undefined;
    return false;
  }

  #next(lane: Lane): WaitingRow | null {
    if (lane.next !== undefined) return lane.next;
    const { queue, key, upTo } = lane;
    const look = (sql: string, after: number) => this.#tx.get<WaitingRow>(sql, queue.id, key, after);
    const next = putsUrgentFirst(queue.policy)
      ? (look(NEXT_URGENT, upTo.urgent) ?? look(NEXT_OTHER, upTo.other))
      : look(NEXT_WAITING, upTo.other);
    lane.next = next ?? null;
    return lane.next;
  }

  #leave(lane: Lane, { rank, pos }: WaitingRow): void {
    this.#left.push([lane.queue.id, lane.key, pos]);
    this.#tx.counters.count(lane.queue, "waiting", -1);
    lane.upTo[putsUrgentFirst(lane.queue.policy) && isUrgent(rank) ? "urgent" : "other"] = pos;
    lane.next = undefined;
  }

  #lineUp(lane: Lane, { rank, pos, task, failures }: WaitingRow): void {
    const { queue } = lane;
    const { fair, sticky } = queue.policy.groups;
    lane.holders++;
    if (queue.lanes === COUNTED) lane.line.push(task);
    const place = fair ? this.#freshPlace() : pos;
    this.enterLine({ queue, rank, pos: place, task, failures, session: sticky ? lane.session : null });
  }

  enterLine(task: ReadyTask): void {
    this.#entering.push(task);
  }

  /** At the last positions. Buffered adds get their numbers first: these are consecutive. */
  #freshPlace(): number {
    this.#tx.addBuffer.write();
    return ++this.#tx.seq;
  }

  #opensFor(lane: Lane, seq: number): number {
    const { rateLimit } = lane.queue.policy.groups;
    return mayStartAt(
      this.#tx,
      lane,
      rateLimit.some(({ unit }) => unit !== null) ? costOf(this.#tx, seq) : 1,
    );
  }

  /** Sets when to check again, and hints it to the housekeeper of this process. */
  #wakeAt(lane: Lane, at: number | null): void {
    if (lane.wakeAt === at) return;
    lane.wakeAt = at;
    if (at !== null) this.#tx.batch.hintDue(at);
  }

  save(): void {
    const tx = this.#tx;
    for (const chunk of chunks(this.#left)) tx.runMany(DELETE_WAITING(chunk.length), chunk.flat(), {});
    enterLines(tx, this.#entering);
    const [forgotten, changed]: [Value[][], Value[][]] = [[], []];
    for (const lane of this.#lanes.values()) {
      const { queue, key, row, woken, wakeAt } = lane;
      const state = isForgotten(tx, lane) ? undefined : stateText(tx, lane);
      if (state === undefined && row) forgotten.push([queue.id, key]);
      if (state !== undefined && row?.state !== state) changed.push([queue.id, key, state]);
      if (woken === wakeAt) continue;
      if (woken !== null) tx.run(LET_SLEEP, woken, queue.id, key);
      if (wakeAt !== null) tx.run(WAKE, wakeAt, queue.id, key);
    }
    for (const chunk of chunks(forgotten)) tx.runMany(DELETE_LANES(chunk.length), chunk.flat(), {});
    for (const chunk of chunks(changed)) tx.runMany(SAVE_LANES(chunk.length), chunk.flat(), {});
    this.#lanes.clear();
    this.#left.length = 0;
    this.#entering.length = 0;
  }
}

interface RowName {
  queue: number;
  group_key: string;
}

function nameOf({ queue, key }: LaneName): string {
  return `${queue.id} ${key}`;
}

function nameOfRow({ queue, group_key: key }: RowName): string {
  return `${queue} ${key}`;
}

function laneFrom(queue: Queue, key: string, row: LaneRow | undefined): Lane {
  const state = row ? stateFrom(row.state) : UNHELD;
  return {
    queue,
    key,
    holders: state.holders,
    line: state.line ?? [],
    session: state.session ?? null,
    meter: state.meter ?? NO_METER,
    heldUntil: state.heldUntil ?? 0,
    wakeAt: state.wakeAt ?? null,
    row,
    woken: state.wakeAt ?? null,
    next: undefined,
    upTo: { urgent: Number.MIN_SAFE_INTEGER, other: Number.MIN_SAFE_INTEGER },
  };
}

const UNHELD: LaneState = { holders: 0 };
const ONE_HEAD: LaneState = { holders: 1 };

export function stateFrom(text: string | null): LaneState {
  return text === null ? ONE_HEAD : (JSON.parse(text) as LaneState);
}

/** It has no heads and no waiting tasks, and stores nothing. */
function isForgotten(tx: Tx, { holders, next, session, meter, heldUntil }: Lane): boolean {
  if (holders > 0 || next !== null || session !== null || heldUntil > tx.now) return false;
  return isOver(meter, tx.now);
}

function stateText(tx: Tx, { holders, line, session, meter, heldUntil, wakeAt }: Lane): string {
  const state: LaneState = { holders };
  if (line.length > 0) state.line = line;
  if (session !== null) state.session = session;
  if (!isEmpty(meter)) state.meter = meter;
  if (heldUntil > tx.now) state.heldUntil = heldUntil;
  if (wakeAt !== null) state.wakeAt = wakeAt;
  return JSON.stringify(state);
}

/** When the next task may enter the line, as far as rate and hold decide. */
export function mayStartAt(tx: Tx, { queue, meter, heldUntil }: Lane, cost: number): number {
  return Math.max(heldUntil, earliestStart(queue.policy.groups.rateLimit, meter, cost, tx.now));
}

/** No task may be promoted before another one of the group has left. */
export function isFull({
  queue,
  key,
  holders,
  line,
}: Pick<Lane, keyof LaneName | "holders" | "line">): boolean {
  return line.length >= maxInLine(queue.policy, key, holders - line.length);
}

const COST = `SELECT cost FROM task WHERE seq = ?`;

export function costOf(tx: Tx, seq: number): number {
  return tx.get<{ cost: number | null }>(COST, seq)!.cost ?? 1;
}
