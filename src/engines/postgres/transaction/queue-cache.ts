import { type NamedPolicy, type QueuePolicy, resolvePolicy } from "../../../core/policy.ts";
import { HAS_INBOX_ENTRIES } from "../line/inbox-floor.ts";
import type { Tx } from "./tx.ts";

export interface Queue {
  id: number;
  name: string;
  /** The fields of the policy that somebody named. */
  named: NamedPolicy;
  policy: QueuePolicy;
  /** The last declaration applied, as JSON. */
  declared: string | null;
  paused: boolean;
  createdAt: number;
  /** It has limits, had some, or was held back: see limits.ts. */
  limited: boolean;
}

// By their names: of a statement that asks for all columns the answer must not change while it is prepared.
const QUEUES = `
  SELECT id, name, named, declared, paused, created_at, EXISTS (SELECT 1 FROM dibs.gate WHERE gate.queue = queue.id) AS limited
  FROM dibs.queue`;
const ALL_QUEUES = `${QUEUES} ORDER BY id`;
const QUEUES_SINCE = `${QUEUES} WHERE revision > $1`;
const QUEUE = `${QUEUES} WHERE name = $1`;
const QUEUES_OF = `${QUEUES} WHERE id = ANY ($1::int4[])`;
// Queues change one transaction at a time: whoever changes one holds this row.
const NEXT_REVISION = `UPDATE dibs.store SET revision = revision + 1 WHERE one = 1 RETURNING revision`;
const NEXT_EPOCH = `UPDATE dibs.store SET epoch = epoch + 1 WHERE one = 1`;
const INSERT_QUEUE = `
  INSERT INTO dibs.queue (name, named, paused, created_at, revision) VALUES ($1, '{}', false, $2, $3)
  ON CONFLICT (name) DO NOTHING RETURNING id, name, named, declared, paused, created_at, false AS limited`;

/** By this the store's row tells whether a queue has changed. */
export interface Version {
  /** Of the last change of a queue: what is newer is read. */
  revision: number;
  /** How often a queue was dropped: then all are read anew. */
  epoch: number;
}

/**
 * Condition for a statement that is sent along with the header (send-ahead.ts): the queues are as the sender knows them, and no
 * notes of other transactions wait.
 */
export const asKnown = (revision: string, epoch: string): string =>
  `EXISTS (SELECT 1 FROM dibs.store WHERE one = 1 AND revision = ${revision} AND epoch = ${epoch} AND NOT ${HAS_INBOX_ENTRIES})`;

interface QueueRow {
  id: number;
  name: string;
  named: string;
  declared: string | null;
  paused: boolean;
  created_at: number;
  limited: boolean;
}

/**
 * A copy of the queues, which the connection keeps from one transaction to the next. It is brought up to date when one begins
 * and the store's row says that something has changed.
 */
export class QueueCache {
  readonly #tx: Tx;
  #revision = -1;
  #epoch = -1;
  readonly #byName = new Map<string, Queue>();
  readonly #byId = new Map<number, Queue>();
  #leastPayload: number | undefined;
  #hasLimits: boolean | undefined;

  constructor(tx: Tx) {
    this.#tx = tx;
  }

  /** They were read before, on this connection. */
  get areKnown(): boolean {
    return this.#epoch >= 0;
  }

  /** What the queues are known by; in a statement that goes out with the header it has to be checked there. */
  get knownBy(): Version {
    return { revision: this.#revision, epoch: this.#epoch };
  }

  isCurrent({ revision, epoch }: Version): boolean {
    return epoch === this.#epoch && revision === this.#revision;
  }

  async follow({ revision, epoch }: Version): Promise<void> {
    const anew = epoch !== this.#epoch;
    const rows = anew
      ? await this.#tx.all<QueueRow>(ALL_QUEUES)
      : await this.#tx.all<QueueRow>(QUEUES_SINCE, this.#revision);
    if (anew) {
      this.#byName.clear();
      this.#byId.clear();
    }
    for (const row of rows) this.#learn(row);
    this.#revision = revision;
    this.#epoch = epoch;
  }

  /** After a rollback: what is remembered may be of the transaction that never was. */
  forget(): void {
    this.#revision = -1;
    this.#epoch = -1;
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

  /** Undefined where it was dropped meanwhile. */
  ifAny(id: number): Queue | undefined {
    return this.#byId.get(id);
  }

  /** Makes it if it is new. */
  async getOrMake(name: string): Promise<Queue> {
    return this.#byName.get(name) ?? (await this.ensure(name)).queue;
  }

  /** The same, and whether it was this call that made it. */
  async ensure(name: string): Promise<{ queue: Queue; isNew: boolean }> {
    const known = this.#byName.get(name);
    if (known) return { queue: known, isNew: false };
    const revision = await this.nextRevision();
    const [made] = await this.#tx.take<QueueRow>(INSERT_QUEUE, name, this.#tx.now, revision);
    if (made) {
      this.#tx.events.announce({ type: "queue.created", at: this.#tx.now, queue: name });
      return { queue: this.#learn(made), isNew: true };
    }
    return { queue: (await this.fresh(name))!, isNew: false };
  }

  /** As it is now, and not as it was when it was last read. Whoever is to change it asks for a revision first. */
  async fresh(name: string): Promise<Queue | undefined> {
    const row = await this.#tx.get<QueueRow>(QUEUE, name);
    return row && this.#learn(row);
  }

  /** Those that are newer than this transaction's sight of the queues. What is not there then was dropped. */
  async learn(ids: readonly number[]): Promise<void> {
    const unknown = ids.filter((id) => !this.#byId.has(id));
    if (unknown.length === 0) return;
    for (const row of await this.#tx.all<QueueRow>(QUEUES_OF, [...new Set(unknown)])) this.#learn(row);
  }

  /** To be written into the queue that changes. Until the commit no other transaction gets one. */
  async nextRevision(): Promise<number> {
    this.#tx.copiesChanged = true;
    const [row] = await this.#tx.take<{ revision: number }>(NEXT_REVISION);
    return row!.revision;
  }

  /** One that is dropped; all others who keep a copy read it anew. */
  remove(queue: Queue): void {
    this.#hasLimits = undefined;
    this.#byName.delete(queue.name);
    this.#byId.delete(queue.id);
    this.#tx.copiesChanged = true;
    this.#tx.send(NEXT_EPOCH);
  }

  /** No queue takes less than this. */
  get leastPayload(): number {
    // One by one: so many arguments as there may be queues would overflow the stack.
    this.#leastPayload ??= [...this.all].reduce(
      (least, { policy }) => Math.min(least, policy.maxPayload),
      Number.POSITIVE_INFINITY,
    );
    return this.#leastPayload;
  }

  policyOf(name: string): QueuePolicy {
    return this.#byName.get(name)?.policy ?? resolvePolicy({});
  }

  /** Some queue has limits, had some, or was held back. */
  get hasLimits(): boolean {
    this.#hasLimits ??= [...this.all].some(({ limited }) => limited);
    return this.#hasLimits;
  }

  noteLimited(queue: Queue): void {
    queue.limited = true;
    this.#hasLimits = true;
  }

  #learn(row: QueueRow): Queue {
    this.#leastPayload = undefined;
    this.#hasLimits = undefined;
    const named = JSON.parse(row.named) as NamedPolicy;
    const known = this.#byId.get(row.id);
    const fields = {
      id: row.id,
      name: row.name,
      named,
      policy: resolvePolicy(named),
      declared: row.declared,
      paused: row.paused,
      createdAt: row.created_at,
      limited: row.limited,
    };
    const queue: Queue = known ? Object.assign(known, fields) : fields;
    this.#byName.set(queue.name, queue);
    this.#byId.set(queue.id, queue);
    return queue;
  }
}
