import { countOf, showFigure, showMs } from "../core/answer/figures.ts";
import {
  mergePolicy,
  type NamedPolicy,
  parsePolicy,
  type QueuePolicy,
  resolvePolicy,
  UNLIMITED_ATTEMPTS,
} from "../core/queue/policy.ts";
import type { Port } from "../core/port.ts";
import type { QueueStats } from "../core/task/task.ts";
import type { PolicyChange, PolicyPreview } from "./contract.ts";

/**
 * What a change of a queue's policy would do, in sentences with the numbers of now. Changes nothing. The page shows it
 * before it sends the change.
 */
export async function previewPolicy(port: Port, queue: string, given: NamedPolicy): Promise<PolicyPreview> {
  const named = parsePolicy(given);
  const [{ items }, stats] = await Promise.all([port.queues({ queue }), port.stats(queue)]);
  const before = items[0]?.policy ?? resolvePolicy({});
  const after = resolvePolicy(mergePolicy(before, named));
  const fields = Object.keys(after) as (keyof QueuePolicy)[];
  const changes = fields
    .filter((field) => JSON.stringify(before[field]) !== JSON.stringify(after[field]))
    .map((field): PolicyChange => {
      const effect = EFFECTS[field](before, after, stats);
      return { field, from: before[field], to: after[field], effect };
    });
  return { before, after, changes };
}

type Effect = (before: QueuePolicy, after: QueuePolicy, stats: QueueStats) => string;

const EFFECTS: Record<keyof QueuePolicy, Effect> = {
  lease: (_, { lease }, { depth }) =>
    `A task of a worker that crashes comes back after ${showMs(lease)}. ` +
    `${tasks(depth.claimed)} that ${is(depth.claimed)} claimed now ${keeps(depth.claimed)} the lease of before.`,
  timeout: (_, { timeout }, { serviceTimes }) =>
    `An attempt is ended after ${showMs(timeout)}.` +
    (serviceTimes === null
      ? ""
      : serviceTimes.max > timeout
        ? ` The longest of the last ${serviceTimes.count} successes took ${showMs(serviceTimes.max)}: such attempts would fail.`
        : ` The longest of the last ${serviceTimes.count} successes took ${showMs(serviceTimes.max)}.`),
  maxAttempts: (before, { maxAttempts }) =>
    maxAttempts === UNLIMITED_ATTEMPTS
      ? "A task fails any number of times and is never dead of it."
      : maxAttempts < before.maxAttempts
        ? `A task is dead after ${countOf(maxAttempts, "failed attempt")}. One that has failed that often already is dead after its next failure.`
        : `A task is dead after ${countOf(maxAttempts, "failed attempt")}. Dead letters stay dead; redrive them to try again.`,
  backoff: (_, { backoff }) =>
    backoff.type === "fixed"
      ? `A failed task waits ${showMs(backoff.delay)} before its next attempt.`
      : `A failed task waits ${showMs(backoff.delay)}, then twice as long each time, at most ${showMs(backoff.max)}. ` +
        `Tasks that wait for their next attempt now keep their time.`,
  elsewhere: (_, { elsewhere }, { workers }) =>
    elsewhere === 0
      ? "A failed task may go back to the worker that failed it at once."
      : `A failed task is offered to other workers for ${showMs(elsewhere)} first.${workers < 2 ? " There is no second worker now, so nothing waits." : ""}`,
  maxDepth: (_, { maxDepth }, { depth }) => {
    if (maxDepth === null) return "The queue takes any number of tasks.";
    const now = depth.ready + depth.waiting + depth.scheduled;
    const room = maxDepth - now;
    return room > 0
      ? `Adds are refused when ${showFigure(maxDepth)} tasks wait; ${showFigure(now)} do now.`
      : `Adds are refused from now on: ${showFigure(now)} tasks wait already. Those stay.`;
  },
  maxBytes: (_, { maxBytes }) =>
    maxBytes === null
      ? "The queue takes payloads of any size together."
      : `Ready tasks have payloads of at most ${showFigure(maxBytes)} bytes together.`,
  overflow: (_, { overflow }) =>
    overflow === "refuse"
      ? "Adds to a full queue are refused."
      : "An add to a full queue drops its oldest ready tasks, those of the lowest priority first.",
  expiredTo: (_, { expiredTo }) =>
    expiredTo === null
      ? "Tasks that expire or are dropped end."
      : `Tasks that expire or are dropped continue in ${expiredTo}.`,
  maxPayload: (_, { maxPayload }) =>
    `An add or a result with more than ${showFigure(maxPayload)} bytes is refused. Stored tasks stay.`,
  retention: (before, { retention }, { depth }) => {
    const shrinks = retention.age < before.retention.age || retention.count < before.retention.count;
    return (
      `Ended tasks are kept for ${showMs(retention.age)}, and at most ${showFigure(retention.count)} of them.` +
      (shrinks ? ` Of the ${showFigure(depth.done)} that are done, older ones are removed soon.` : "")
    );
  },
  ttl: (_, { ttl }) =>
    ttl === null
      ? "Tasks that are added from now on do not expire."
      : `A task that is added from now on and has not started after ${showMs(ttl)} expires.`,
  verified: (_, { verified }) =>
    verified
      ? "A success counts only after a verifier has accepted it. Without a verifier, results wait."
      : "A success counts at once. Results that wait for a verdict now still need it.",
  maxConcurrency: (_, { maxConcurrency }, { depth, workers }) => {
    if (maxConcurrency === null) return "All workers may execute tasks of this queue at once.";
    const surplus = depth.claimed - maxConcurrency;
    return surplus > 0
      ? `At most ${countOf(maxConcurrency, "task")} may be claimed at once; ${showFigure(depth.claimed)} are now. They go on, and none starts until ${surplus + 1} of them have ended.`
      : `At most ${countOf(maxConcurrency, "task")} may be claimed at once, by ${countOf(workers, "worker")} together; ${showFigure(depth.claimed)} are now.`;
  },
  rateLimit: (_, { rateLimit }, { rates }) =>
    rateLimit.length === 0
      ? "Tasks start as fast as workers take them."
      : `At most ${rateLimit.map(({ max, per }) => `${showFigure(max)} per ${showMs(per)}`).join(" and ")} start. In the last minute ${showFigure(rates.donePerSecond)} a second were done.`,
  groups: (_, { groups }) =>
    [
      groups.concurrency === 1
        ? "The tasks of a group run in order, one at a time."
        : `Up to ${groups.concurrency} tasks of a group run at once, in no order.`,
      groups.fair ? "Groups take turns." : "",
      Object.keys(groups.weight).length === 0 ? "" : `${weights(groups.weight)}.`,
      groups.sticky ? "A group's tasks go to the worker that had its last one." : "",
      groups.rateLimit.length === 0
        ? ""
        : `Of a group, at most ${groups.rateLimit.map(({ max, per }) => `${showFigure(max)} per ${showMs(per)}`).join(" and ")} start.`,
    ]
      .filter((part) => part !== "")
      .join(" "),
  window: (_, { window }, { depth }) =>
    window === null
      ? "Tasks start at any time of the day."
      : `Tasks that are not urgent start only from ${window.hours.replace("-", " to ")} (${window.tz}). ${tasks(depth.ready)} that ${is(depth.ready)} ready now ${depth.ready === 1 ? "waits" : "wait"} for these hours.`,
};

/** acme gets 3 turns where others get one, globex 2 */
function weights(weight: Record<string, number>): string {
  const [[first, turns] = ["", 1], ...rest] = Object.entries(weight);
  const more = rest.slice(0, 3).map(([group, each]) => `, ${group} ${each}`);
  return `${first} gets ${turns} turns where others get one${more.join("")}${rest.length > 3 ? " and so on" : ""}`;
}

function tasks(count: number): string {
  return count === 1 ? "The one task" : `The ${showFigure(count)} tasks`;
}
function is(count: number): string {
  return count === 1 ? "is" : "are";
}
function keeps(count: number): string {
  return count === 1 ? "keeps" : "keep";
}
