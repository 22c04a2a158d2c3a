import { invalid } from "../core/errors/errors.ts";
import { LIMITS } from "../core/input/limits.ts";
import { checkBoolean, checkText } from "../core/input/options.ts";
import { type NamedPolicy, parsePolicy, type QueuePolicy } from "../core/queue/policy.ts";
import type { DeclareOptions } from "../core/port.ts";
import type { Paged, QueuesQuery, QueueSummary } from "../core/answer/page.ts";
import { checkQueueName } from "../core/queue/queue-name.ts";
import { show } from "../core/errors/show.ts";
import type { SupervisedKind } from "../core/supervision.ts";
import { verificationQueue } from "../core/handler/verification.ts";
import type { Declared } from "../engine/engine.ts";
import { checkPage } from "./check.ts";
import type { Context } from "./context.ts";

/** Tasks removed per commit: a long purge must not block other calls. */
const PAGE = 2_000;

export async function declare(
  context: Context,
  queue: string,
  policy: NamedPolicy,
  options: DeclareOptions = {},
): Promise<QueuePolicy> {
  const { policy: inForce, outcome } = await declareQueue(context, queue, policy, options);
  options?.onOutcome?.(outcome);
  return inForce;
}

export async function declareQueue(
  context: Context,
  queue: string,
  policy: NamedPolicy,
  options: DeclareOptions | undefined,
): Promise<Declared> {
  checkQueueName(queue);
  const named = parsePolicy(policy);
  if (named.expiredTo === queue)
    throw invalid(`expiredTo must name another queue than ${show(queue)} itself: its tasks would never end.`);
  if (named.verified) checkQueueName(verificationQueue(queue));
  const declared = await context.run({
    verb: "declare",
    queue,
    policy: named,
    ...(options?.force === true && { force: true }),
    ...(options?.create === true && { create: true }),
  });
  context.policies.set(queue, declared.policy);
  return declared;
}

export async function pause(context: Context, queue: string, paused: boolean): Promise<void> {
  checkQueueName(queue);
  if (typeof paused !== "boolean") throw invalid(`paused is true or false; got ${show(paused)}.`);
  await context.run({ verb: "pause", queue, paused });
}

export async function queues(context: Context, query: QueuesQuery = {}): Promise<Paged<QueueSummary>> {
  const page = checkPage(query, "queues", "queue", "stats");
  const { queue, stats } = query;
  return context.run({
    ...{ verb: "queues", ...page },
    ...(queue !== undefined && { queue: checkQueueName(queue) }),
    ...(stats !== undefined && { stats: checkBoolean(stats, "stats") }),
  });
}

export async function unhold(context: Context, queue: string, groupKey?: string): Promise<boolean> {
  checkQueueName(queue);
  const group = groupKey === undefined ? {} : { groupKey: checkText(groupKey, "groupKey", LIMITS.groupKey) };
  return (await context.run({ verb: "unhold", queue, ...group })).lifted;
}

/** Tasks that are added during the purge stay. */
export async function purge(context: Context, queue: string): Promise<number> {
  checkQueueName(queue);
  let removed = 0;
  let page = await context.run({ verb: "purge", queue, limit: PAGE });
  while (page.more) {
    removed += page.removed;
    page = await context.run({ verb: "purge", queue, upTo: page.upTo, limit: PAGE });
  }
  return removed + page.removed;
}

/** `first`: how many tasks the first commit may remove. */
export async function drop(context: Context, queue: string, first = PAGE): Promise<void> {
  checkQueueName(queue);
  // One batch: the policy and depth are those right before the drop.
  const [
    {
      items: [known],
    },
  ] = await Promise.all([
    context.run({ verb: "queues", queue, stats: true, limit: 1 }),
    dropOne(context, queue, first),
  ]);
  // Drop the verification queue after the queue itself: if it went first, each result would be refused, and its task
  // would go back to a worker.
  if (known?.policy.verified || known?.stats!.depth.verifying)
    await dropOne(context, verificationQueue(queue), PAGE);
}

async function dropOne(context: Context, queue: string, first: number): Promise<void> {
  let page = await context.run({ verb: "drop", queue, limit: first });
  while (page.more) page = await context.run({ verb: "drop", queue, limit: PAGE });
  context.policies.delete(queue);
  // Remove the recorded figures too: no later code looks for those of a queue that does not exist.
  await context.run({ verb: "put", kind: "history" satisfies SupervisedKind, name: queue, value: null });
}
