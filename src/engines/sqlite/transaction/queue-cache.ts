import { dropsOldest } from "../../../core/task/add-rules.ts";
import { isGated } from "../../../core/queue/policy.ts";
import { isVerificationQueue } from "../../../core/handler/verification.ts";
import {
  KnownQueues,
  leastPayloadOf,
  type QueueColumns,
  queueFrom,
  type StoredQueue,
} from "../../../engine/known-queues.ts";
import type { Tx } from "./tx.ts";

/** The copy of the queues that each connection has, so that no batch reads their policies. `tx.queues` is one. */

export interface Queue extends StoredQueue {
  lanes: Lanes;
  /** It has a row in `gate`. */
  gate: boolean;
  /** Claims take the general path: not every ready task may start, or a start promotes others. */
  limited: boolean;
}

/** What the lanes of a queue store. */
export type Lanes = typeof HEAD_ONLY | typeof HEADLESS | typeof COUNTED;
/** A lane exists while its group has a head. */
export const HEAD_ONLY = 0;
/** Some lanes may have no head, because of a hold. */
export const HEADLESS = 1;
/** The groups have or had limits: lanes count their heads, and which of them are in the line. */
export const COUNTED = 2;

const READ_QUEUES = `SELECT * FROM queue ORDER BY id`;
const INSERT_QUEUE = `INSERT INTO queue (name, named, paused, created_at) VALUES (?, '{}', 0, ?) RETURNING id`;
const UPDATE_QUEUE = `UPDATE queue SET named = ?, declared = ?, paused = ?, lanes = ?, gate = ? WHERE id = ?`;
const INSERT_DEPTH = `INSERT INTO depth (queue) VALUES (?)`;

/** The row of `store` says when the copy of the queues is out of date. */
export class QueueCache extends KnownQueues<Queue, Traits> {
  readonly #tx: Tx;
  /** Written to the row of `store`. */
  revision = -1;

  constructor(tx: Tx) {
    super();
    this.#tx = tx;
  }

  protected traitsOf(queues: readonly Queue[]): Traits {
    return {
      leastPayload: leastPayloadOf(queues),
      hasVerified: queues.some(isVerified),
      hasLimits: queues.some(({ limited, lanes }) => limited || lanes !== HEAD_ONLY),
      hasTurns: queues.some(({ policy }) => policy.groups.fair),
      dropsOldest: queues.some(({ policy }) => dropsOldest(policy)),
    };
  }

  follow(revision: number): void {
    if (revision === this.revision) return;
    this.discardAll();
    for (const row of this.#tx.all<QueueRow>(READ_QUEUES)) this.keep(queueOf(row));
    this.revision = revision;
  }

  /** After a rollback: the copy may have been read from what the transaction wrote. */
  forget(): void {
    this.revision = -1;
  }

  /** Creates it if it is new. */
  getOrMake(name: string): Queue {
    return this.named(name) ?? this.#make(name);
  }

  #make(name: string): Queue {
    const tx = this.#tx;
    const { id } = tx.take<{ id: number }>(INSERT_QUEUE, name, tx.now)!;
    tx.run(INSERT_DEPTH, id);
    const row = { id, name, named: "{}", declared: null, paused: 0, created_at: tx.now };
    const queue = this.keep(queueOf({ ...row, lanes: HEAD_ONLY, gate: 0 }));
    this.noteChange();
    tx.announce({ type: "queue.created", at: tx.now, queue: name });
    return queue;
  }

  /** Writes a queue whose fields were changed. */
  store(queue: Queue): void {
    queue.limited = isLimited(queue);
    this.#tx.run(
      UPDATE_QUEUE,
      JSON.stringify(queue.named),
      queue.declared,
      queue.paused ? 1 : 0,
      queue.lanes,
      queue.gate ? 1 : 0,
      queue.id,
    );
    this.noteChange();
  }

  /** The queue is dropped. */
  remove(queue: Queue): void {
    this.discard(queue);
    this.#tx.counters.remove(queue);
    this.noteChange();
  }

  /** The copies of other connections are out of date. */
  noteChange(): void {
    this.revision++;
    this.forgetTraits();
  }
}

export interface Traits {
  leastPayload: number;
  /** Some queue is verified, or asks for verdicts: its acks are not settled in bulk. */
  hasVerified: boolean;
  /** Some queue has limits, so lanes or gates may have a wake time. */
  hasLimits: boolean;
  /** The groups of some queue rotate: the order in which tasks end decides the positions of others. */
  hasTurns: boolean;
  /** Some queue drops its oldest tasks if it is full: line/trim.ts. */
  dropsOldest: boolean;
}

function isLimited({ lanes, gate, policy }: Omit<Queue, "limited">): boolean {
  return lanes === COUNTED || gate || isGated(policy);
}

/** A success in it waits for a verdict, or is one. */
export function isVerified({ name, policy }: Queue): boolean {
  return policy.verified || isVerificationQueue(name);
}

interface QueueRow extends QueueColumns {
  paused: number;
  lanes: Lanes;
  gate: number;
}

function queueOf(row: QueueRow): Queue {
  const queue = { ...queueFrom(row), paused: row.paused === 1, lanes: row.lanes, gate: row.gate === 1 };
  return { ...queue, limited: isLimited(queue) };
}
