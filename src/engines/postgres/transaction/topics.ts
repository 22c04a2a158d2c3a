import type { Verbs } from "../../../engine/engine.ts";
import { SubscriptionIndex } from "../../../core/topic-tree.ts";
import type { SubscriptionRecord } from "../../../core/task.ts";
import type { Queue } from "./queue-cache.ts";
import type { Tx } from "./tx.ts";

interface SubscriptionRow {
  id: number;
  pattern: string;
  group_name: string;
  queue: string;
  created_at: number;
}

const ROWS = `
  SELECT subscription.id, pattern, group_name, queue.name AS queue, subscription.created_at
  FROM dibs.subscription JOIN dibs.queue ON queue.id = subscription.queue`;
const ALL = `${ROWS} ORDER BY subscription.id`;
const SINCE = `${ROWS} WHERE subscription.id > $1 AND subscription.id <= $2 ORDER BY subscription.id`;

/** By this the store's row tells whether a subscription was made or removed. */
export interface Subscribing {
  /** The last number that one got. */
  subscribed: number;
  /** How often some were removed. */
  unsubscribed: number;
}

/**
 * A copy of the subscriptions, by the words of their patterns. It is brought up to date within the transaction that
 * publishes, and only there: whoever only adds does not pay for it. It follows `latest`: a subscription that is committed
 * meanwhile belongs to the next one.
 */
export class Topics {
  /** What the transaction read when it began, or gave out itself. */
  latest: Subscribing = { subscribed: 0, unsubscribed: 0 };
  readonly #tx: Tx;
  #rows = new SubscriptionIndex<SubscriptionRow>();
  #subscribed = 0;
  #unsubscribed = -1;

  constructor(tx: Tx) {
    this.#tx = tx;
  }

  /** Those that a topic reaches, in the order they were made. */
  async reachedBy(topic: string): Promise<readonly SubscriptionRow[]> {
    if (!this.isCurrent) await this.#follow();
    return this.remembered(topic);
  }

  /** Nothing has changed for all that the transaction, or the one before it, knows. */
  get isCurrent(): boolean {
    const { subscribed, unsubscribed } = this.latest;
    return this.#unsubscribed === unsubscribed && this.#subscribed === subscribed;
  }

  /** Those that a topic reached when this was last current. */
  remembered(topic: string): readonly SubscriptionRow[] {
    return this.#rows.reachedBy(topic);
  }

  async #follow(): Promise<void> {
    const tx = this.#tx;
    const { subscribed, unsubscribed } = this.latest;
    if (this.#unsubscribed !== unsubscribed) {
      this.forget();
      this.#unsubscribed = unsubscribed;
    }
    for (const row of await tx.all<SubscriptionRow>(SINCE, this.#subscribed, subscribed)) {
      this.#rows.add(row);
      // One that somebody else made while this transaction was open.
      if (!tx.queues.named(row.queue)) await tx.queues.fresh(row.queue);
    }
    this.#subscribed = subscribed;
  }

  /** After a rollback: what is remembered may be of the transaction that never was. */
  forget(): void {
    this.#rows = new SubscriptionIndex();
    this.#subscribed = 0;
    this.#unsubscribed = -1;
  }
}

const FIND = `${ROWS} WHERE pattern = $1 AND group_name = $2`;
const SUBSCRIBED = `
  UPDATE dibs.store SET subscribed = subscribed + 1 WHERE one = 1 RETURNING subscribed, unsubscribed`;
const UNSUBSCRIBED = `
  UPDATE dibs.store SET unsubscribed = unsubscribed + 1 WHERE one = 1 RETURNING subscribed, unsubscribed`;
const INSERT = `
  INSERT INTO dibs.subscription (id, pattern, group_name, queue, created_at) VALUES ($1, $2, $3, $4, $5)`;

export async function subscribe(
  tx: Tx,
  { pattern, group, queue: name }: Verbs["subscribe"]["in"],
): Promise<{ created: boolean }> {
  if (await tx.get(FIND, pattern, group)) return { created: false };
  // From here on nobody else subscribes before the commit; somebody may have done so since we looked.
  await count(tx, SUBSCRIBED);
  if (await tx.get(FIND, pattern, group)) return { created: false };
  const queue = await tx.queues.getOrMake(name);
  tx.send(INSERT, tx.topics.latest.subscribed, pattern, group, queue.id, tx.now);
  tx.events.announce({ type: "subscription.created", at: tx.now, queue: name, pattern, group });
  return { created: true };
}

async function count(tx: Tx, sql: string): Promise<void> {
  const [row] = await tx.take<Subscribing>(sql);
  tx.topics.latest = row!;
  // The next batch must not begin before this one is committed: it would not know.
  tx.copiesChanged = true;
}

const DELETE_NAMED = `DELETE FROM dibs.subscription WHERE pattern = $1 AND group_name = $2 RETURNING id, queue, pattern, group_name`;
const DELETE_OF_QUEUE = `DELETE FROM dibs.subscription WHERE queue = $1 RETURNING id, queue, pattern, group_name`;

export async function unsubscribe(
  tx: Tx,
  { pattern, group }: Verbs["unsubscribe"]["in"],
): Promise<{ removed: boolean }> {
  if (!(await tx.get(FIND, pattern, group))) return { removed: false };
  return { removed: (await remove(tx, DELETE_NAMED, pattern, group)) > 0 };
}

const OF_QUEUE = `SELECT 1 FROM dibs.subscription WHERE queue = $1 LIMIT 1`;

/** A queue that goes takes its subscriptions with it. */
export async function unsubscribeQueue(tx: Tx, queue: Queue): Promise<void> {
  if (await tx.get(OF_QUEUE, queue.id)) await remove(tx, DELETE_OF_QUEUE, queue.id);
}

async function remove(tx: Tx, sql: string, ...values: (string | number)[]): Promise<number> {
  // Nobody who knows the subscriptions of before is still at work when this is committed. Asked for before the store's
  // row: whoever has to be waited for may be waiting for that.
  tx.needAlone();
  await count(tx, UNSUBSCRIBED);
  const rows = await tx.take<Omit<SubscriptionRow, "queue"> & { queue: number }>(sql, ...values);
  for (const row of rows.sort((a, b) => a.id - b.id)) {
    const { name } = tx.queues.of(row.queue);
    const { pattern, group_name: group } = row;
    tx.events.announce({ type: "subscription.removed", at: tx.now, queue: name, pattern, group });
  }
  return rows.length;
}

export async function subscriptions(tx: Tx, topic: string | undefined): Promise<SubscriptionRecord[]> {
  const rows = topic === undefined ? await tx.all<SubscriptionRow>(ALL) : await tx.topics.reachedBy(topic);
  return rows.map((row) => ({
    pattern: row.pattern,
    group: row.group_name,
    queue: row.queue,
    createdAt: row.created_at,
  }));
}
