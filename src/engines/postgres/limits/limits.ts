import { beganAt, isEmpty, type Meter, NO_METER, type RateLimit } from "../../../core/queue/rate.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import { lookUp, withPlaces } from "../statements/look-up.ts";
import { DELETE_LANES, IS_LISTED } from "./lanes.ts";
import { gateLock, tryLock } from "../connection/locks.ts";
import { newest } from "../statements/newest.ts";
import { LocksNeeded } from "../connection/batch-conflicts.ts";
import { numbers } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";

/**
 * What a transaction knows of the limits that apply to it. A transaction that changes groups of a queue with limits, or
 * claims from it, holds the queue's gate until the commit. So it can keep what it has read and change it. What differs
 * from the stored rows at the end is written (`Tx` calls `flush`).
 */

/** What is counted for a group, or for a whole queue. */
export interface Gate {
  meter: Meter;
  /** No task starts before: a hold. */
  heldUntil: number;
  /** When to check again whether more may start; null: another event will tell. */
  wakeAt: number | null;
}

/** The gate of a queue. */
export interface QueueGate extends Gate {
  /** The last group that was reviewed since the policy changed; null: all were. See review.ts. */
  reviewed: string | null;
}

/** A group of a queue with limits. */
export interface Lane extends Gate {
  queue: Queue;
  key: string;
  /** Tasks of the group in the line or claimed, and tasks that block it. */
  holders: number;
  /** Tasks of the group in the line; counted only if the policy needs it. */
  line: number;
  /** The session that had the last task, if groups are sticky. */
  session: number | null;
}

/** What is read, and a copy of what is stored; null: no row, or one that has to be deleted. */
interface Known<Row> {
  row: Row;
  stored: Row | null;
}

/** Longer than any transaction. A meter that is further ahead was counted before the clock was set back. */
const LONGEST_LAG_MS = 60_000;

interface GateRow {
  meter: string | null;
  held_until: number | null;
  wake_at: number | null;
}

interface QueueGateRow extends GateRow {
  reviewed: string | null;
}

interface LaneRow extends GateRow {
  group_key: string;
  holders: number;
  session: number | null;
  line: number;
}

const GATE = `SELECT meter, held_until, wake_at, reviewed FROM dibs.gate WHERE ${newest("gate", "$1")}`;
const WRITE_GATE = `
  UPDATE dibs.gate SET meter = $2, held_until = $3, wake_at = $4, reviewed = $5, n = n + 1 WHERE ${newest("gate", "$1")}`;
const NO_GATE: QueueGateRow = { meter: null, held_until: null, wake_at: null, reviewed: null };

const MAKE_LANES = `
  INSERT INTO dibs.lane (queue, group_key, holders)
  SELECT $1, key, 0 FROM unnest($2::text[]) AS wanted (key) ORDER BY key COLLATE "C" ON CONFLICT DO NOTHING`;
const IN_LINE = (table: string): string => `
  (SELECT count(*) FROM dibs.${table} WHERE ${table}.queue = $1 AND ${table}.group_key = lane.group_key)`;
// Locked, because of transactions that began before the queue had limits.
const LANES = `
  SELECT lane.group_key, holders, session, meter, held_until, wake_at,
    CASE WHEN $3::bool THEN ${["ready", "ready_elsewhere", "ready_sticky"].map(IN_LINE).join(" + ")} ELSE 0 END::int4 AS line
  FROM (SELECT key FROM unnest($2::text[]) AS listed (key) ORDER BY key COLLATE "C") AS wanted
  CROSS JOIN ${lookUp("lane", `lane.queue = $1 AND lane.group_key = wanted.key COLLATE "C"`, { lock: "FOR UPDATE NOWAIT" })}`;
const WRITE_LANES = `
  UPDATE dibs.lane SET holders = each.holders, session = each.session, meter = each.meter, held_until = each.held_until,
    wake_at = each.wake_at
  FROM ${withPlaces(
    "lane",
    `unnest($1::int4[], $2::text[], $3::int4[], $4::int8[], $5::text[], $6::int8[], $7::int8[])
      AS wanted (queue, group_key, holders, session, meter, held_until, wake_at)`,
    IS_LISTED,
  )} AS each
  WHERE lane.ctid = each.place`;

export class Limits {
  /** How many tasks of groups this transaction has promoted. */
  promotions = 0;
  readonly #tx: Tx;
  /** The queues whose gates this transaction holds. */
  readonly #ours = new Set<number>();
  readonly #gates = new Map<Queue, Known<QueueGate>>();
  readonly #lanes = new Map<Queue, Map<string, Known<Lane>>>();

  constructor(tx: Tx) {
    this.#tx = tx;
  }

  /** `ours`: the gates that it got when it began. */
  begin(ours: readonly number[]): void {
    this.#ours.clear();
    this.#gates.clear();
    this.#lanes.clear();
    for (const queue of ours) this.#ours.add(queue);
  }

  /**
   * Takes the queue's gate until the commit. If another transaction holds it, the batch starts again with a wait for
   * it.
   */
  async hold(queue: Queue): Promise<void> {
    if (!(await this.tryToHold(queue))) throw new LocksNeeded({ gates: [...this.#ours, queue.id] });
  }

  /** False if another transaction holds it. It never waits: that transaction may wait for locks of this one. */
  async tryToHold({ id }: Queue): Promise<boolean> {
    if (this.#ours.has(id)) return true;
    const mine = await tryLock(this.#tx, gateLock(this.#tx.link.schema, id));
    if (mine) this.#ours.add(id);
    return mine;
  }

  /** The gate of a queue, read once. */
  async gate(queue: Queue): Promise<QueueGate> {
    const known = this.#gates.get(queue);
    if (known) return known.row;
    await this.hold(queue);
    const row = (await this.#tx.get<QueueGateRow>(GATE, queue.id)) ?? NO_GATE;
    const gate = { ...gateFrom(row), reviewed: row.reviewed };
    this.#gates.set(queue, { row: gate, stored: { ...gate } });
    return gate;
  }

  async lane(queue: Queue, key: string): Promise<Lane> {
    return (await this.lanes(queue, [key]))[0]!;
  }

  /** In the given order, each given once. */
  async lanes(queue: Queue, keys: readonly string[]): Promise<Lane[]> {
    let known = this.#lanes.get(queue);
    if (!known) this.#lanes.set(queue, (known = new Map()));
    const missing = keys.filter((key) => !known.has(key));
    if (missing.length > 0) {
      await this.hold(queue);
      this.#tx.send(MAKE_LANES, queue.id, missing);
      for (const row of await this.#tx.lock<LaneRow>(LANES, [queue.id, missing, countsLine(queue)])) {
        const lane: Lane = {
          ...gateFrom(row),
          ...{ queue, key: row.group_key, holders: row.holders, line: row.line, session: row.session },
        };
        // A lane that was just inserted is deleted at the end, unless it has something to store by then.
        known.set(lane.key, { row: lane, stored: isBlank(this.#tx, lane) ? null : { ...lane } });
      }
    }
    return keys.map((key) => known.get(key)!.row);
  }

  /** A task of the group has left the line or entered it. A lane that is read later is counted then. */
  movedInLine(queue: Queue, key: string | null, by: 1 | -1): void {
    const lane = key === null ? undefined : this.#lanes.get(queue)?.get(key);
    if (lane) lane.row.line += by;
  }

  /**
   * The time by which a meter is read. A transaction that got the gate late may be older than a window that another one
   * has begun. Then it counts in that window: otherwise the count would be lost.
   */
  timeFor(limits: readonly RateLimit[], meter: Meter): number {
    const { now } = this.#tx;
    const began = limits.flatMap((limit) => {
      const at = beganAt(limit, meter);
      return at % limit.per === 0 && at < now + LONGEST_LAG_MS ? at : [];
    });
    return Math.max(now, ...began);
  }

  /** Sets when to check again, and hints it to the housekeeper of this process. */
  wakeAt(gate: Gate, at: number | null): void {
    if (gate.wakeAt === at) return;
    gate.wakeAt = at;
    const {
      batch: { hint },
      now,
    } = this.#tx;
    if (at !== null) hint.due = Math.min(hint.due ?? Number.POSITIVE_INFINITY, at - now);
  }

  /** Writes all changes: before the commit, and before a statement reads them. */
  flush(): void {
    for (const [queue, gate] of this.#gates) {
      const { row, stored } = gate;
      if (stored && !differs(row, stored) && row.reviewed === stored.reviewed) continue;
      this.#tx.send(WRITE_GATE, queue.id, ...columnsOf(row), row.reviewed);
      if (row.wakeAt !== null) this.#tx.floors.lowerTime("gate", row.wakeAt);
      gate.stored = { ...row };
    }
    const changed = [...this.#lanes.values()].flatMap((lanes) => [...lanes.values()].filter(isChanged));
    this.#deleteLanes(changed.filter(({ row }) => isBlank(this.#tx, row)).map(({ row }) => row));
    this.#writeLanes(changed.filter(({ row }) => !isBlank(this.#tx, row)));
  }

  #deleteLanes(lanes: Lane[]): void {
    if (lanes.length === 0) return;
    this.#tx.send(DELETE_LANES, queuesOf(lanes), keysOf(lanes));
    for (const { queue, key } of lanes) this.#lanes.get(queue)!.delete(key);
  }

  #writeLanes(changed: Known<Lane>[]): void {
    if (changed.length === 0) return;
    const lanes = changed.map(({ row }) => row);
    const columns = lanes.map(columnsOf);
    this.#tx.send(
      WRITE_LANES,
      queuesOf(lanes),
      keysOf(lanes),
      numbers(lanes.map(({ holders }) => holders)),
      lanes.map(({ session }) => session),
      columns.map(([meter]) => meter),
      columns.map(([, heldUntil]) => heldUntil),
      columns.map(([, , wakeAt]) => wakeAt),
    );
    for (const lane of changed) {
      if (lane.row.wakeAt !== null) this.#tx.floors.lowerTime("lane", lane.row.wakeAt);
      lane.stored = { ...lane.row };
    }
  }

  /** Writes all changes and forgets what was read, because a statement is about to change the rows. */
  reread(): void {
    this.flush();
    this.#gates.clear();
    this.#lanes.clear();
  }
}

function gateFrom({ meter, held_until: heldUntil, wake_at: wakeAt }: GateRow): Gate {
  return {
    meter: meter === null ? NO_METER : (JSON.parse(meter) as Meter),
    heldUntil: heldUntil ?? 0,
    wakeAt,
  };
}

/** Meters are replaced, never changed. */
function differs(a: Gate, b: Gate): boolean {
  return a.meter !== b.meter || a.heldUntil !== b.heldUntil || a.wakeAt !== b.wakeAt;
}

/** The number of tasks in the line is no column. */
function isChanged({ row, stored }: Known<Lane>): boolean {
  return !stored || differs(row, stored) || row.holders !== stored.holders || row.session !== stored.session;
}

function columnsOf({ meter, heldUntil, wakeAt }: Gate): [string | null, number | null, number | null] {
  return [isEmpty(meter) ? null : JSON.stringify(meter), heldUntil === 0 ? null : heldUntil, wakeAt];
}

/** Whether the policy needs the number of tasks of a group in the line: it has a rate, or groups rotate. */
function countsLine({ policy: { groups } }: Queue): boolean {
  return groups.fair || groups.rateLimit.length > 0;
}

/** It has no heads, so no task waits behind one, and it stores nothing. */
function isBlank({ now }: Tx, { holders, meter, heldUntil, wakeAt, session }: Lane): boolean {
  return holders === 0 && isEmpty(meter) && heldUntil <= now && wakeAt === null && session === null;
}

function queuesOf(lanes: Lane[]): string {
  return numbers(lanes.map(({ queue }) => queue.id));
}

function keysOf(lanes: Lane[]): string[] {
  return lanes.map(({ key }) => key);
}
