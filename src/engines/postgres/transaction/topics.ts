import { sizeOfRow } from "../../../core/answer/answer-size.ts";
import type { Paged } from "../../../core/answer/page.ts";
import { mapPage, numberAfter, pageOf } from "../../../engine/cursor.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { SubscriptionIndex } from "../../../core/topic/topic-tree.ts";
import type { SubscriptionRecord } from "../../../core/task/task.ts";
import { lockStore, type Queue } from "./queue-cache.ts";
import type { Tx } from "./tx.ts";

/** The copy of the subscriptions for `publish`, and the verbs that change them. */

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
const PAGE = `${ROWS} WHERE subscription.id > $1 ORDER BY subscription.id LIMIT $2`;
const SINCE = `${ROWS} WHERE subscription.id > $1 AND subscription.id <= $2 ORDER BY subscription.id`;

/** Columns of `store` that tell whether subscriptions have changed. */
export interface Subscribing {
  /** The id of the last subscription. */
  subscribed: number;
  /** Grows when subscriptions are removed. */
  unsubscribed: number;
}

/**
 * A copy of the subscriptions, by the words of their patterns. Only a transaction that publishes brings it up to date, so
 * that adds do not pay for it. It follows `latest`: a subscription that is committed meanwhile counts for the next
 * transaction.
 */
export class Topics {
  /** What the header read, or this transaction wrote. */
  latest: Subscribing = { subscribed: 0, unsubscribed: 0 };
  readonly #tx: Tx;
  #rows = new SubscriptionIndex<SubscriptionRow>();
  #subscribed = 0;
  #unsubscribed = -1;
  #changed = false;

  constructor(tx: Tx) {
    this.#tx = tx;
  }

  begin(): void {
    this.#changed = false;
  }

  /** This transaction has changed subscriptions. */
  get changed(): boolean {
    return this.#changed;
  }

  noteChange(latest: Subscribing): void {
    this.latest = latest;
    this.#changed = true;
  }

  /** The subscriptions that a topic reaches, in the order of their creation. */
  async reachedBy(topic: string): Promise<readonly SubscriptionRow[]> {
    if (!this.isCurrent) await this.#follow();
    return this.remembered(topic);
  }

  /** The copy is up to date, as far as this transaction, or the one before it, knows. */
  get isCurrent(): boolean {
    const { subscribed, unsubscribed } = this.latest;
    return this.#unsubscribed === unsubscribed && this.#subscribed === subscribed;
  }

  /** As reachedBy, from the copy as it is. */
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
      // Its queue may be newer than this transaction's copy of the queues.
      if (!tx.queues.named(row.queue)) await tx.queues.fresh(row.queue);
    }
    this.#subscribed = subscribed;
  }

  /** After a rollback: the copy may have been read from what the transaction wrote. */
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
  // From here to the commit no other transaction subscribes. One may have done so since the first read.
  await count(tx, SUBSCRIBED);
  if (await tx.get(FIND, pattern, group)) return { created: false };
  const queue = await tx.queues.getOrMake(name);
  tx.send(INSERT, tx.topics.latest.subscribed, pattern, group, queue.id, tx.now);
  tx.events.announce({ type: "subscription.created", at: tx.now, queue: name, pattern, group });
  return { created: true };
}

async function count(tx: Tx, sql: string): Promise<void> {
  await lockStore(tx);
  const [row] = await tx.take<Subscribing>(sql);
  tx.topics.noteChange(row!);
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

export async function hasSubscription(tx: Tx, queue: Queue): Promise<boolean> {
  return (await tx.get(OF_QUEUE, queue.id)) !== undefined;
}

/** Removes the subscriptions of a queue that is dropped. */
export async function unsubscribeQueue(tx: Tx, queue: Queue): Promise<void> {
  if (await hasSubscription(tx, queue)) await remove(tx, DELETE_OF_QUEUE, queue.id);
}

async function remove(tx: Tx, sql: string, ...values: (string | number)[]): Promise<number> {
  // No batch that has read the old subscriptions is in progress when this commits. Before the row of `store` is locked:
  // a batch that is waited for may wait for that row.
  tx.needExclusive();
  await count(tx, UNSUBSCRIBED);
  const rows = await tx.take<Omit<SubscriptionRow, "queue"> & { queue: number }>(sql, ...values);
  for (const row of rows.sort((a, b) => a.id - b.id)) {
    const { name } = tx.queues.of(row.queue);
    const { pattern, group_name: group } = row;
    tx.events.announce({ type: "subscription.removed", at: tx.now, queue: name, pattern, group });
  }
  return rows.length;
}

export async function subscriptions(
  tx: Tx,
  { topic, after, limit }: Verbs["subscriptions"]["in"],
): Promise<Paged<SubscriptionRecord>> {
  const start = numberAfter(after);
  const rows =
    topic === undefined
      ? await tx.all<SubscriptionRow>(PAGE, start, limit + 1)
      : (await tx.topics.reachedBy(topic)).filter(({ id }) => id > start);
  const page = pageOf(rows, limit, { sizeOf: sizeOfRow, keyOf: ({ id }) => [id] });
  return mapPage(page, (row) => ({
    pattern: row.pattern,
    group: row.group_name,
    queue: row.queue,
    createdAt: row.created_at,
  }));
}
