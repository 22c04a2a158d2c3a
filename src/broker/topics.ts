import { type NamedPolicy, parsePolicy, type QueuePolicy } from "../core/policy.ts";
import type { DeclareOptions, TransactionOptions } from "../core/port.ts";
import type { AddedTask, NewMessage, SubscriptionRecord } from "../core/task.ts";
import { checkTopic, subscriptionQueue } from "../core/topic.ts";
import { expectTasks } from "./add.ts";
import { checkMessage } from "./check.ts";
import type { Context } from "./context.ts";
import { declareQueue, drop } from "./queues.ts";

/** Both are calls of one moment, the declaration first: so its limits hold from the first task that is published. */
export async function subscribe(
  context: Context,
  pattern: string,
  group: string,
  policy: NamedPolicy,
  options: Omit<DeclareOptions, "force"> = {},
): Promise<QueuePolicy> {
  const queue = subscriptionQueue(pattern, group);
  const named = parsePolicy(policy);
  const [declared, { created }] = await Promise.all([
    declareQueue(context, queue, named, { create: options?.create === true }),
    context.run({ verb: "subscribe", pattern, group, queue }),
  ]);
  const { policy: inForce, outcome } = declared;
  options?.onOutcome?.(created && outcome === "unchanged" ? "created" : outcome);
  return inForce;
}

/** Tasks removed with the subscription: on PostgreSQL nobody else writes meanwhile. */
const FIRST_PAGE = 200;

/** Where a former call was cut short, the queue is there and the subscription is not: this one ends it. */
export async function unsubscribe(context: Context, pattern: string, group: string): Promise<boolean> {
  const queue = subscriptionQueue(pattern, group);
  const [{ removed }] = await Promise.all([
    context.run({ verb: "unsubscribe", pattern, group }),
    drop(context, queue, FIRST_PAGE),
  ]);
  return removed;
}

export async function subscriptions(context: Context, topic?: string): Promise<SubscriptionRecord[]> {
  return context.run({ verb: "subscriptions", ...(topic !== undefined && { topic: checkTopic(topic) }) });
}

export async function publish(
  context: Context,
  message: NewMessage,
  { tx }: TransactionOptions = {},
): Promise<AddedTask[]> {
  checkMessage(message);
  if (tx !== undefined) return context.runWithin(tx, { verb: "publish", message });
  const published = context.run({ verb: "publish", message });
  expectTasks(context, [message]);
  return published;
}
