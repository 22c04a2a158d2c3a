import { sizeOfRow } from "../../core/answer/answer-size.ts";
import type { Paged } from "../../core/answer/page.ts";
import { mapPage, numberAfter, pageOf } from "../../engine/cursor.ts";
import type { Verbs } from "../../engine/engine.ts";
import { copiesOf, matchesTopic } from "../../core/topic/topic.ts";
import type { AddedTask, Addition, NewTask, SubscriptionRecord } from "../../core/task/task.ts";
import { addTasks } from "./add.ts";
import type { Model, ModelSubscription } from "./model.ts";

/** The verbs `subscribe`, `unsubscribe`, `subscriptions` and `publish`. */

export function subscribe(
  model: Model,
  { pattern, group, queue }: Verbs["subscribe"]["in"],
): { created: boolean } {
  if (model.subscriptions.some((known) => known.pattern === pattern && known.group === group))
    return { created: false };
  model.queue(queue);
  model.subscriptions.push({ id: ++model.subscribed, pattern, group, queue, createdAt: model.now });
  model.announce({ type: "subscription.created", at: model.now, queue, pattern, group });
  return { created: true };
}

export function unsubscribe(
  model: Model,
  { pattern, group }: Verbs["unsubscribe"]["in"],
): { removed: boolean } {
  const removed = removeSubscriptions(model, (known) => known.pattern === pattern && known.group === group);
  return { removed: removed > 0 };
}

export function removeSubscriptions(
  model: Model,
  isDoomed: (subscription: SubscriptionRecord) => boolean,
): number {
  const doomed = model.subscriptions.filter(isDoomed);
  model.subscriptions = model.subscriptions.filter((known) => !doomed.includes(known));
  for (const { queue, pattern, group } of doomed)
    model.announce({ type: "subscription.removed", at: model.now, queue, pattern, group });
  return doomed.length;
}

export function subscriptions(
  model: Model,
  { topic, after, limit }: Verbs["subscriptions"]["in"],
): Paged<SubscriptionRecord> {
  const start = numberAfter(after);
  const found = topic === undefined ? model.subscriptions : reachedBy(model, topic);
  const rows = found.filter(({ id }) => id > start);
  const page = pageOf(rows, limit, { sizeOf: sizeOfRow, keyOf: ({ id }) => [id] });
  return mapPage(page, ({ pattern, group, queue, createdAt }) => ({ pattern, group, queue, createdAt }));
}

function reachedBy(model: Model, topic: string): ModelSubscription[] {
  return model.subscriptions.filter(({ pattern }) => matchesTopic(pattern, topic));
}

export function publish(model: Model, { message }: Verbs["publish"]["in"]): AddedTask[] {
  return addTasks(model, fanOut(model, [message]));
}

/** The tasks that a publish adds: one for each subscription that the message matches. */
export function fanOut(model: Model, additions: Addition[]): NewTask[] {
  return additions.flatMap((addition) => {
    if (!("topic" in addition)) return [addition];
    const queues = reachedBy(model, addition.topic).map(({ queue }) => queue);
    return copiesOf(addition, queues);
  });
}
