import { type NamedPolicy, parsePolicy, type QueuePolicy } from "../core/queue/policy.ts";
import type { DeclareOptions, TransactionOptions } from "../core/port.ts";
import type { Paged, PageQuery } from "../core/answer/page.ts";
import type { AddedTask, NewMessage, SubscriptionRecord } from "../core/task/task.ts";
import { checkTopic, subscriptionQueue } from "../core/topic/topic.ts";
import { expectTasks } from "./add.ts";
import { checkMessage } from "../core/task/additions.ts";
import { checkPage } from "./check.ts";
import type { Context } from "./context.ts";
import { declareQueue, drop } from "./queues.ts";

/** One batch, the declaration first: its limits apply from the first published task. */
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

/** Tasks removed together with the subscription: on PostgreSQL this commit is exclusive. */
const FIRST_PAGE = 200;

/** If an earlier call was interrupted, the queue exists without its subscription: this call completes it. */
export async function unsubscribe(context: Context, pattern: string, group: string): Promise<boolean> {
  const queue = subscriptionQueue(pattern, group);
  const [{ removed }] = await Promise.all([
    context.run({ verb: "unsubscribe", pattern, group }),
    drop(context, queue, FIRST_PAGE),
  ]);
  return removed;
}

export async function subscriptions(
  context: Context,
  query: PageQuery & { topic?: string | undefined } = {},
): Promise<Paged<SubscriptionRecord>> {
  const page = checkPage(query, "subscriptions", "topic");
  const { topic } = query;
  return context.run({
    ...{ verb: "subscriptions", ...page },
    ...(topic !== undefined && { topic: checkTopic(topic) }),
  });
}

export async function publish(
  context: Context,
  message: NewMessage,
  { tx }: TransactionOptions = {},
): Promise<AddedTask[]> {
  checkMessage(message);
  if (tx !== undefined) return context.executeInTransaction(tx, { verb: "publish", message });
  const published = context.run({ verb: "publish", message });
  expectTasks(context, [message]);
  return published;
}
