import { sizeOfRow } from "../../../core/answer/answer-size.ts";
import type { Paged } from "../../../core/answer/page.ts";
import { mapPage, numberAfter, pageOf } from "../../../engine/cursor.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { SubscriptionIndex } from "../../../core/topic/topic-tree.ts";
import type { SubscriptionRecord } from "../../../core/task/task.ts";
import type { Queue } from "./queue-cache.ts";
import type { Tx } from "./tx.ts";

/** The copy of the subscriptions for `publish`, and the verbs that change them. */

interface SubscriptionRow {
  id: number;
  pattern: string;
  group_name: string;
  queue: number;
  created_at: number;
}

const PAGE = `SELECT * FROM subscription WHERE id > ? ORDER BY id LIMIT 0 + ?`;
const SINCE = `SELECT * FROM subscription WHERE id > ? ORDER BY id`;

/**
 * A copy of the subscriptions, by the words of their patterns. Only a transaction that publishes brings it up to date,
 * so that adds do not pay for it.
 */
export class Topics {
  #rows = new SubscriptionIndex<SubscriptionRow>();
  #subscribed = 0;
  #unsubscribed = -1;

  /** The subscriptions that a topic reaches, in the order of their creation. */
  reachedBy(tx: Tx, topic: string): readonly SubscriptionRow[] {
    this.#follow(tx);
    return this.#rows.reachedBy(topic);
  }

  #follow(tx: Tx): void {
    if (this.#unsubscribed !== tx.unsubscribed) {
      this.forget();
      this.#unsubscribed = tx.unsubscribed;
    }
    if (this.#subscribed === tx.subscribed) return;
    for (const row of tx.all<SubscriptionRow>(SINCE, this.#subscribed)) this.#rows.add(row);
    this.#subscribed = tx.subscribed;
  }

  /** After a rollback: the copy may have been read from what the transaction wrote. */
  forget(): void {
    this.#rows = new SubscriptionIndex();
    this.#subscribed = 0;
    this.#unsubscribed = -1;
  }
}

const FIND = `SELECT 1 FROM subscription WHERE pattern = ? AND group_name = ?`;
const INSERT = `INSERT INTO subscription (id, pattern, group_name, queue, created_at) VALUES (?, ?, ?, ?, ?)`;
const COUNT = `UPDATE store SET subscribed = ?, unsubscribed = ?`;

export function subscribe(
  tx: Tx,
  { pattern, group, queue: name }: Verbs["subscribe"]["in"],
): { created: boolean } {
  if (tx.get(FIND, pattern, group)) return { created: false };
  const queue = tx.queues.getOrMake(name);
  tx.run(INSERT, ++tx.subscribed, pattern, group, queue.id, tx.now);
  tx.run(COUNT, tx.subscribed, tx.unsubscribed);
  tx.announce({ type: "subscription.created", at: tx.now, queue: name, pattern, group });
  return { created: true };
}

const NAMED = `SELECT * FROM subscription WHERE pattern = ? AND group_name = ?`;
const OF_QUEUE = `SELECT * FROM subscription WHERE queue = ? ORDER BY id`;

export function unsubscribe(tx: Tx, { pattern, group }: Verbs["unsubscribe"]["in"]): { removed: boolean } {
  const doomed = tx.all<SubscriptionRow>(NAMED, pattern, group);
  remove(tx, doomed);
  return { removed: doomed.length > 0 };
}

/** Removes the subscriptions of a queue that is dropped. */
export function unsubscribeQueue(tx: Tx, queue: Queue): void {
  remove(tx, tx.all<SubscriptionRow>(OF_QUEUE, queue.id));
}

const DELETE = `DELETE FROM subscription WHERE id = ?`;

function remove(tx: Tx, doomed: SubscriptionRow[]): void {
  for (const row of doomed) {
    tx.run(DELETE, row.id);
    const { name } = tx.queues.of(row.queue);
    tx.announce({
      type: "subscription.removed",
      at: tx.now,
      queue: name,
      pattern: row.pattern,
      group: row.group_name,
    });
  }
  if (doomed.length > 0) tx.run(COUNT, tx.subscribed, ++tx.unsubscribed);
}

export function subscriptions(
  tx: Tx,
  { topic, after, limit }: Verbs["subscriptions"]["in"],
): Paged<SubscriptionRecord> {
  const start = numberAfter(after);
  const rows =
    topic === undefined
      ? tx.all<SubscriptionRow>(PAGE, start, limit + 1)
      : tx.topics.reachedBy(tx, topic).filter(({ id }) => id > start);
  const page = pageOf(rows, limit, { sizeOf: sizeOfRow, keyOf: ({ id }) => [id] });
  return mapPage(page, (row) => ({
    pattern: row.pattern,
    group: row.group_name,
    queue: tx.queues.of(row.queue).name,
    createdAt: row.created_at,
  }));
}
