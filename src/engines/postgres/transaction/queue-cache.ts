import { dropsOldest } from "../../../core/task/add-rules.ts";
import {
  KnownQueues,
  leastPayloadOf,
  type QueueColumns,
  queueFrom,
  type StoredQueue,
} from "../../../engine/known-queues.ts";
import { HAS_INBOX_ENTRIES } from "../line/inbox-floor.ts";
import type { Tx } from "./tx.ts";

/** The copy of the queues that each connection has, so that no batch reads their policies. `tx.queues` is one. */

export interface Queue extends StoredQueue {
  /** It has or had limits or a hold, so it has a gate: see limits.ts. */
  limited: boolean;
}

// Not `*`: the columns of a prepared statement must not change.
const QUEUES = `
  SELECT id, name, named, declared, paused, created_at, EXISTS (SELECT 1 FROM dibs.gate WHERE gate.queue = queue.id) AS limited
  FROM dibs.queue`;
const ALL_QUEUES = `${QUEUES} ORDER BY id`;
const QUEUES_SINCE = `${QUEUES} WHERE revision > $1`;
const QUEUE = `${QUEUES} WHERE name = $1`;
const QUEUES_AFTER = `${QUEUES} WHERE name > $1 ORDER BY name LIMIT $2`;
const QUEUES_OF = `${QUEUES} WHERE id = ANY ($1::int4[])`;
// Holds the row of `store` until the commit, so one transaction at a time changes queues.
const LOCK_STORE = `SELECT 1 FROM dibs.store WHERE one = 1 FOR NO KEY UPDATE SKIP LOCKED`;
const NEXT_REVISION = `UPDATE dibs.store SET revision = revision + 1 WHERE one = 1 RETURNING revision`;
const NEXT_EPOCH = `UPDATE dibs.store SET epoch = epoch + 1 WHERE one = 1`;
const INSERT_QUEUES = `
  INSERT INTO dibs.queue (name, named, paused, created_at, revision) SELECT name, '{}', false, $2, $3 FROM unnest($1::text[]) AS name
  ON CONFLICT (name) DO NOTHING RETURNING id, name, named, declared, paused, created_at, false AS limited`;

/** Columns of `store` that tell whether queues have changed. */
export interface Version {
  /** Of the last change of a queue: queues with a newer one are read. */
  revision: number;
  /** Grows when a queue is dropped: then all are read again. */
  epoch: number;
}

/** Condition of a statement that is sent ahead: the queues are as the sender knows them, and the inbox is empty. */
export const asKnown = (revision: string, epoch: string): string =>
  `EXISTS (SELECT 1 FROM dibs.store WHERE one = 1 AND revision = ${revision} AND epoch = ${epoch} AND NOT ${HAS_INBOX_ENTRIES})`;

interface QueueRow extends QueueColumns {
  paused: boolean;
  limited: boolean;
}

export interface Traits {
  leastPayload: number;
  /** Some queue has or had limits or a hold. */
  hasLimits: boolean;
  /** Some queue drops its oldest tasks if it is full: line/trim.ts. */
  dropsOldest: boolean;
}

/** The header says when the copy of the queues is out of date. */
export class QueueCache extends KnownQueues<Queue, Traits> {
  readonly #tx: Tx;
  #revision = -1;
  #epoch = -1;
  #changed = false;

  constructor(tx: Tx) {
    super();
    this.#tx = tx;
  }

  protected traitsOf(queues: readonly Queue[]): Traits {
    return {
      leastPayload: leastPayloadOf(queues),
      hasLimits: queues.some(({ limited }) => limited),
      dropsOldest: queues.some(({ policy }) => dropsOldest(policy)),
    };
  }

  begin(): void {
    this.#changed = false;
  }

  /** This transaction has changed queues. */
  get changed(): boolean {
    return this.#changed;
  }

  /** This connection has read the queues before. */
  get areKnown(): boolean {
    return this.#epoch >= 0;
  }

  /** The version of the copy. A statement that is sent ahead compares it with the store's. */
  get knownBy(): Version {
    return { revision: this.#revision, epoch: this.#epoch };
  }

  isCurrent({ revision, epoch }: Version): boolean {
    return epoch === this.#epoch && revision === this.#revision;
  }

  async follow({ revision, epoch }: Version): Promise<void> {
    const isDropped = epoch !== this.#epoch;
    const rows = isDropped
      ? await this.#tx.all<QueueRow>(ALL_QUEUES)
      : await this.#tx.all<QueueRow>(QUEUES_SINCE, this.#revision);
    if (isDropped) this.discardAll();
    for (const row of rows) this.#store(row);
    this.#revision = revision;
    this.#epoch = epoch;
  }

  /** After a rollback: the copy may have been read from what the transaction wrote. */
  forget(): void {
    this.#revision = -1;
    this.#epoch = -1;
  }

  /** Creates it if it is new. */
  async getOrMake(name: string): Promise<Queue> {
    return this.named(name) ?? (await this.ensure(name)).queue;
  }

  /** As getOrMake, and whether this call created it. */
  async ensure(name: string): Promise<{ queue: Queue; isNew: boolean }> {
    const known = this.named(name);
    if (known) return { queue: known, isNew: false };
    return { isNew: (await this.make([name])) === 1, queue: this.named(name)! };
  }

  /** Creates those that are new, in one statement; returns how many. */
  async make(names: Iterable<string>): Promise<number> {
    const missing = [...new Set(names)].filter((name) => !this.named(name));
    if (missing.length === 0) return 0;
    const revision = await this.nextRevision();
    const made = await this.#tx.take<QueueRow>(INSERT_QUEUES, missing, this.#tx.now, revision);
    for (const row of made) {
      this.#store(row);
      this.#tx.events.announce({ type: "queue.created", at: this.#tx.now, queue: row.name });
    }
    // Another transaction has made the rest since this connection read the queues.
    if (made.length < missing.length)
      for (const name of missing) if (!this.named(name)) await this.fresh(name);
    return made.length;
  }

  /** Reads it again. Before a change, call nextRevision first: it locks. */
  async fresh(name: string): Promise<Queue | undefined> {
    const row = await this.#tx.get<QueueRow>(QUEUE, name);
    return row && this.#store(row);
  }

  /** Reads queues that are newer than the copy. One that is still missing was dropped. */
  async load(ids: readonly number[]): Promise<void> {
    const unknown = ids.filter((id) => !this.ifAny(id));
    if (unknown.length === 0) return;
    for (const row of await this.#tx.all<QueueRow>(QUEUES_OF, [...new Set(unknown)])) this.#store(row);
  }

  /** The next ones by name, as they are now. The copy does not change: the transaction began with it. */
  async page(after: string, limit: number): Promise<Queue[]> {
    return (await this.#tx.all<QueueRow>(QUEUES_AFTER, after, limit)).map(queueOf);
  }

  /** The revision to write into a queue that changes. No other transaction gets one until the commit. */
  async nextRevision(): Promise<number> {
    this.#changed = true;
    await lockStore(this.#tx);
    const [row] = await this.#tx.take<{ revision: number }>(NEXT_REVISION);
    return row!.revision;
  }

  /** The queue is dropped: every other copy is read again. */
  remove(queue: Queue): void {
    this.discard(queue);
    this.#changed = true;
    this.#tx.send(NEXT_EPOCH);
  }

  get hasLimits(): boolean {
    return this.traits.hasLimits;
  }

  noteLimited(queue: Queue): void {
    queue.limited = true;
    this.forgetTraits();
  }

  #store(row: QueueRow): Queue {
    const known = this.ifAny(row.id);
    const fields = queueOf(row);
    return this.keep(known ? Object.assign(known, fields) : fields);
  }
}

/** Until the commit no other transaction changes queues or subscriptions. */
export async function lockStore(tx: Tx): Promise<void> {
  await tx.lockOne(LOCK_STORE);
}

function queueOf(row: QueueRow): Queue {
  return { ...queueFrom(row), paused: row.paused, limited: row.limited };
}
