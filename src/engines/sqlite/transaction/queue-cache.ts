import { dropsOldest } from "../../../core/add-rules.ts";
import { isGated, type NamedPolicy, type QueuePolicy, resolvePolicy } from "../../../core/policy.ts";
import { isVerificationQueue } from "../../../core/verification.ts";
import type { Tx } from "./tx.ts";

export interface Queue {
  id: number;
  name: string;
  /** The policy fields that a declaration named. */
  named: NamedPolicy;
  policy: QueuePolicy;
  /** The last declaration applied, as JSON. */
  declared: string | null;
  paused: boolean;
  createdAt: number;
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

/** A copy of the queues, which a connection keeps between transactions. The row of `store` says when it is out of date. */
export class QueueCache {
  readonly #tx: Tx;
  /** Written to the row of `store`. */
  revision = -1;
  #traits: Traits | undefined;
  readonly #byName = new Map<string, Queue>();
  readonly #byId = new Map<number, Queue>();

  constructor(tx: Tx) {
    this.#tx = tx;
  }

  follow(revision: number): void {
    if (revision === this.revision) return;
    this.#traits = undefined;
    this.#byName.clear();
    this.#byId.clear();
    for (const row of this.#tx.all<QueueRow>(READ_QUEUES)) this.#keep(queueFrom(row));
    this.revision = revision;
  }

  /** After a rollback: the copy may have been read from what the transaction wrote. */
  forget(): void {
    this.revision = -1;
  }

  get all(): IterableIterator<Queue> {
    return this.#byId.values();
  }

  named(name: string): Queue | undefined {
    return this.#byName.get(name);
  }

  of(id: number): Queue {
    return this.#byId.get(id)!;
  }

  /** Creates it if it is new. */
  getOrMake(name: string): Queue {
    return this.#byName.get(name) ?? this.#make(name);
  }

  #make(name: string): Queue {
    const tx = this.#tx;
    const { id } = tx.take<{ id: number }>(INSERT_QUEUE, name, tx.now)!;
    tx.run(INSERT_DEPTH, id);
    const row = { id, name, named: "{}", declared: null, paused: 0, created_at: tx.now };
    const queue = this.#keep(queueFrom({ ...row, lanes: HEAD_ONLY, gate: 0 }));
    this.noteChange();
    tx.announce({ type: "queue.created", at: tx.now, queue: name });
    return queue;
  }

  #keep(queue: Queue): Queue {
    this.#byName.set(queue.name, queue);
    this.#byId.set(queue.id, queue);
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
    this.#byName.delete(queue.name);
    this.#byId.delete(queue.id);
    this.#tx.counters.remove(queue);
    this.noteChange();
  }

  /** The copies of other connections are out of date. */
  noteChange(): void {
    this.revision++;
    this.#traits = undefined;
  }

  policyOf(name: string): QueuePolicy {
    return this.#byName.get(name)?.policy ?? resolvePolicy({});
  }

  /** What is true of all queues, or of some. */
  get traits(): Traits {
    this.#traits ??= traitsOf([...this.all]);
    return this.#traits;
  }
}

export interface Traits {
  /** The lowest maxPayload of all queues. */
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

function traitsOf(queues: readonly Queue[]): Traits {
  return {
    // Math.min(...) would overflow the stack with many queues.
    leastPayload: queues.reduce(
      (least, { policy }) => Math.min(least, policy.maxPayload),
      Number.POSITIVE_INFINITY,
    ),
    hasVerified: queues.some(isVerified),
    hasLimits: queues.some(({ limited, lanes }) => limited || lanes !== HEAD_ONLY),
    hasTurns: queues.some(({ policy }) => policy.groups.fair),
    dropsOldest: queues.some(({ policy }) => dropsOldest(policy)),
  };
}

function isLimited({ lanes, gate, policy }: Omit<Queue, "limited">): boolean {
  return lanes === COUNTED || gate || isGated(policy);
}

/** A success in it waits for a verdict, or is one. */
export function isVerified({ name, policy }: Queue): boolean {
  return policy.verified || isVerificationQueue(name);
}

interface QueueRow {
  id: number;
  name: string;
  named: string;
  declared: string | null;
  paused: number;
  created_at: number;
  lanes: Lanes;
  gate: number;
}

function queueFrom(row: QueueRow): Queue {
  const named = JSON.parse(row.named) as NamedPolicy;
  const { id, name, declared, lanes } = row;
  const queue = { id, name, named, policy: resolvePolicy(named), declared, paused: row.paused === 1, lanes };
  const all = { ...queue, createdAt: row.created_at, gate: row.gate === 1 };
  return { ...all, limited: isLimited(all) };
}
