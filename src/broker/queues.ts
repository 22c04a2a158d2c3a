import { invalid } from "../core/errors.ts";
import { LIMITS } from "../core/limits.ts";
import { checkNumber, checkText } from "../core/options.ts";
import { type NamedPolicy, parsePolicy, type QueuePolicy } from "../core/policy.ts";
import type { DeclareOptions, QueueSummary } from "../core/port.ts";
import { checkQueueName } from "../core/queue-name.ts";
import { show } from "../core/show.ts";
import { STORE_LIMIT } from "../core/task-id.ts";
import { verificationQueue } from "../core/verification.ts";
import type { Declared } from "../engine/engine.ts";
import type { Context } from "./context.ts";

/** Tasks removed in one commit: a long purge must not hold the others up. */
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

/**
 * Which pause is a move's, and not an operator's: a document of this kind says so, by the queue's name, with the number of the
 * store that it moves to. Without a pause it means nothing, so that nobody need remove it when a queue is dropped.
 */
const MOVED_KIND = "moved";

/** Both are calls of one moment. The mark comes first, and goes last: a pause that has none is taken for an operator's. */
export async function pause(
  context: Context,
  queue: string,
  paused: boolean,
  options: { movedTo?: number | undefined } = {},
): Promise<void> {
  checkQueueName(queue);
  if (typeof paused !== "boolean") throw invalid(`paused is true or false; got ${show(paused)}.`);
  const movedTo = options?.movedTo;
  const mark = { verb: "put", kind: MOVED_KIND, name: queue } as const;
  if (movedTo === undefined) {
    await Promise.all([context.run({ verb: "pause", queue, paused }), context.run({ ...mark, value: null })]);
    return;
  }
  if (!paused) throw invalid("movedTo says why a queue is paused; this is to resume it.");
  const value = `${checkNumber(movedTo, "movedTo", 0, STORE_LIMIT - 1)}`;
  await Promise.all([context.run({ ...mark, value }), context.run({ verb: "pause", queue, paused })]);
}

export async function queues(context: Context, queue?: string): Promise<QueueSummary[]> {
  const only = queue === undefined ? {} : { queue: checkQueueName(queue) };
  const [found, marks] = await Promise.all([
    context.run({ verb: "queues", ...only }),
    context.run({ verb: "documents", kind: MOVED_KIND, ...(queue !== undefined && { name: queue }) }),
  ]);
  const moved = new Map(marks.map(({ name, value }) => [name, Number(value)]));
  return found.map((each) => {
    const movedTo = each.paused ? moved.get(each.name) : undefined;
    return movedTo === undefined ? each : { ...each, movedTo };
  });
}

export async function unhold(context: Context, queue: string, groupKey?: string): Promise<boolean> {
  checkQueueName(queue);
  const group = groupKey === undefined ? {} : { groupKey: checkText(groupKey, "groupKey", LIMITS.groupKey) };
  return (await context.run({ verb: "unhold", queue, ...group })).lifted;
}

/** What is added while this goes on stays. */
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

/** `first`: how many tasks the first commit may take. */
export async function drop(context: Context, queue: string, first = PAGE): Promise<void> {
  checkQueueName(queue);
  // Calls of one moment.
  const [[known]] = await Promise.all([
    context.run({ verb: "queues", queue }),
    dropOne(context, queue, first),
  ]);
  // Only then: a result whose verdict is gone would go back to a worker. What asks for verdicts on nothing is of no use.
  if (known?.policy.verified) await dropOne(context, verificationQueue(queue), PAGE);
}

async function dropOne(context: Context, queue: string, first: number): Promise<void> {
  let page = await context.run({ verb: "drop", queue, limit: first });
  while (page.more) page = await context.run({ verb: "drop", queue, limit: PAGE });
  context.policies.delete(queue);
}
