import { countOf, showFigure, showMs, showPercent, showRate } from "../core/answer/figures.ts";
import { loadOf, serversFor } from "../core/queue/queueing.ts";

/**
 * Decides how many workers a pool needs. A pure function: a pool calls it with what it has observed (pool.ts), and the
 * simulation with what it has computed (simulate.ts). Times are in milliseconds, rates per second.
 *
 * Hysteresis: two sizes are computed. A pool that is smaller than `least` grows to it. A pool that is larger than `most`
 * shrinks to it. A pool between them stays as it is.
 */
export function decide(observed: Observed, policy: PoolPolicy): Decision {
  const size = observed.workers.live + observed.workers.starting;
  const need = policy.mode === "cost" ? needForCost(observed, policy) : needForLatency(observed, policy);
  const reasons = [...need.reasons];
  const least = withinBounds(need.least, observed, policy);
  const most = withinBounds(Math.max(need.most, steadied(observed, policy)), observed, policy);
  const wanted = clamp(size, least, most);
  const bounded = bound(wanted, need, policy, reasons);
  const busy = keepBusy(bounded, size, observed, policy, reasons);
  const next = pace(busy, size, observed, policy, reasons);
  reasons.push(conclude(next, size, need));
  return { size: next, needed: least, reasons };
}

/** The size below which the pool does not shrink yet; none in cost mode, where workers end with their batch. */
function steadied({ recentNeed }: Observed, { mode }: PoolPolicy): number {
  return mode === "cost" ? 0 : recentNeed;
}

export interface Decision {
  size: number;
  /** What the load needs now, without cooldowns and steps. */
  needed: number;
  /** Sentences for people, from the load to the conclusion. Never empty. */
  reasons: string[];
}

export interface Observed {
  /** Tasks per second that are added. */
  arrivalRate: number;
  /** Mean time from claim to settlement; null: not known, because no task has ended lately. */
  serviceTime: number | null;
  /** Ready tasks of the queues from which tasks may start now. */
  depth: number;
  /** Tasks that workers are executing. */
  running: number;
  /** How long the oldest of the `depth` tasks has waited; null if there is none. */
  oldestAge: number | null;
  workers: {
    /** Workers that are up, and are not being ended. */
    live: number;
    /** Workers that were started and are not up yet. */
    starting: number;
    /** Live workers that execute a task. They are not ended. */
    busy: number;
  };
  /** Time since the pool last grew or shrank; null: it never did. */
  sinceUp: number | null;
  sinceDown: number | null;
  /** The largest `needed` of the decisions within the last `downCooldown`. The pool does not shrink below it. */
  recentNeed: number;
  /** Whether the queue's window is open; null: it has none. */
  windowOpen: boolean | null;
  /** No task may start for this long, because the queue is paused or held back; 0: tasks may start. */
  blockedFor: number;
  /** The most tasks of the queue that may be in progress at a time; null: no limit. */
  concurrencyLimit: number | null;
}

export interface PoolPolicy {
  /** `latency`: waits stay below the target. `cost`: work accumulates, and workers start for a batch of it. */
  mode: "latency" | "cost";
  min: number;
  max: number;
  /** Tasks that one worker executes at a time. */
  concurrency: number;
  /** `latency`: 95 % of the tasks start within this time. `cost`: a batch is finished within it. */
  targetWait: number;
  /** Instead of the target: one worker for this many tasks that wait or are being executed. */
  tasksPerWorker: number | null;
  /** The pool grows if its workers would be busy for more than this part of the time. */
  upThreshold: number;
  /** It shrinks if the smaller pool would be busy for less than this part of the time. */
  downThreshold: number;
  /** It grows again only after this time, and shrinks only when it has not changed for that time. */
  upCooldown: number;
  downCooldown: number;
  /** The most workers that one decision starts, and ends. */
  stepUp: number;
  stepDown: number;
  /** `cost`: start when this many tasks wait, or when one has waited this long. */
  batch: number;
  maxAge: number;
}

/** The share of tasks that must start within the target wait. */
export const WITHIN_TARGET = 0.95;

interface Need {
  /** A smaller pool grows to this size, a larger one shrinks to `most`. */
  least: number;
  most: number;
  reasons: string[];
}

function needForLatency(observed: Observed, policy: PoolPolicy): Need {
  if (isBlocked(observed, policy)) return blocked(observed);
  if (policy.tasksPerWorker !== null) return needForTasks(observed, policy);
  const need = needForWait(observed, policy);
  return isLate(observed, policy) ? needWhenLate(need, observed, policy) : need;
}

function needForWait(observed: Observed, policy: PoolPolicy): Need {
  const { arrivalRate, serviceTime, depth } = observed;
  if (serviceTime === null) return needUnmeasured(observed);
  const least = steadySize(observed, policy, policy.targetWait, policy.upThreshold);
  const most = steadySize(observed, policy, policy.targetWait / 2, policy.downThreshold);
  const drain = drainSize(observed, policy);
  const reasons = [
    `${showRate(arrivalRate)} arrive and each takes ${showMs(serviceTime)}: ${showFigure(loadOf(arrivalRate, serviceTime))} are being executed on average.`,
  ];
  if (least > 0)
    reasons.push(
      `${countOf(least, "worker")} ${least === 1 ? "lets" : "let"} ${WITHIN_TARGET * 100} % of the tasks start within ${showMs(policy.targetWait)}, busy at most ${showPercent(policy.upThreshold)} of the time.`,
    );
  if (depth > 0)
    reasons.push(
      `${countOf(depth, "task")} ${depth === 1 ? "waits" : "wait"}: ${countOf(drain, "worker")} ${drain === 1 ? "starts" : "start"} ${depth === 1 ? "it" : "all of them"} within ${showMs(policy.targetWait)}.`,
    );
  const useful = usefulDrain(drain, observed, policy, reasons);
  return { least: Math.max(least, useful), most: Math.max(most, useful), reasons };
}

/** How many workers the stream of arrivals needs, without a backlog. */
function steadySize(
  { arrivalRate, serviceTime }: Observed,
  policy: PoolPolicy,
  waitMs: number,
  utilisation: number,
): number {
  const goal = { share: WITHIN_TARGET, waitMs, utilisation };
  const slots = serversFor(
    loadOf(arrivalRate, serviceTime!),
    serviceTime!,
    goal,
    policy.max * policy.concurrency,
  );
  return Math.ceil(slots / policy.concurrency);
}

/**
 * How many workers start the whole backlog within the target wait. In a steady state the backlog is at most what arrives
 * in that time (Little's law). Then this is at most the load, so it does not raise the size.
 */
function drainSize({ depth, serviceTime }: Observed, { targetWait, concurrency }: PoolPolicy): number {
  const slots = (depth * serviceTime!) / Math.max(targetWait, 1);
  return Math.max(depth > 0 ? 1 : 0, Math.ceil(slots / concurrency - ROUNDING));
}

/** Subtracted before rounding up, because a sum such as 2.0000000001 means 2. */
const ROUNDING = 1e-9;

/** If workers are idle although tasks wait, limits or groups delay the tasks, and more workers would be idle too. */
function usefulDrain(drain: number, observed: Observed, policy: PoolPolicy, reasons: string[]): number {
  const { live, starting } = observed.workers;
  const idle = live * policy.concurrency - observed.running;
  if (drain <= live + starting || live === 0 || idle <= 0) return drain;
  reasons.push(`Workers are idle although tasks wait: more would not start them earlier.`);
  return live + starting;
}

function needForTasks({ depth, running }: Observed, policy: PoolPolicy): Need {
  const pending = depth + running;
  const perWorker = policy.tasksPerWorker!;
  const least = Math.ceil(pending / perWorker);
  const most = Math.ceil((pending * policy.upThreshold) / policy.downThreshold / perWorker);
  const text = `${countOf(pending, "task")} ${pending === 1 ? "waits or is" : "wait or are"} being executed: ${countOf(least, "worker")} at ${perWorker} per worker.`;
  return { least, most, reasons: [text] };
}

/**
 * No task has ended lately, because there are none or because they take long. If there may be tasks, one worker finds out
 * how long they take. Workers that the pool already has stay. isLate() starts more if tasks wait too long.
 */
function needUnmeasured({ arrivalRate, depth, running, workers: { live, starting } }: Observed): Need {
  if (arrivalRate === 0 && depth === 0 && running === 0)
    return { least: 0, most: 0, reasons: ["Nothing arrives, waits or is being executed."] };
  const reasons = [`How long a task takes is not known yet, because none has ended lately.`];
  return { least: 1, most: Math.max(1, live + starting), reasons };
}

function isLate({ depth, oldestAge }: Observed, { targetWait }: PoolPolicy): boolean {
  return depth > 0 && (oldestAge ?? 0) > targetWait;
}

/**
 * Starts one more worker at a time while all are busy and the oldest task waits too long. This corrects what the figures
 * do not show, such as service times that grow. If the last one turns out to be idle it stays, so that the pool does not
 * start and end it again and again.
 */
function needWhenLate({ least, most, reasons }: Need, observed: Observed, policy: PoolPolicy): Need {
  const { live, starting } = observed.workers;
  const useful = Math.floor(observed.running / policy.concurrency) + 1;
  const more = starting === 0 && useful > live ? live + 1 : 0;
  const text = `The oldest task has waited ${showMs(observed.oldestAge!)}, longer than the target of ${showMs(policy.targetWait)}, and all workers are busy.`;
  return {
    least: Math.max(least, more),
    most: Math.max(most, more, useful),
    reasons: more > least ? [...reasons, text] : reasons,
  };
}

function needForCost(observed: Observed, policy: PoolPolicy): Need {
  const {
    depth,
    running,
    arrivalRate,
    serviceTime,
    workers: { live, starting, busy },
  } = observed;
  if (isBlocked(observed, policy)) return blocked(observed);
  const size = live + starting;
  const trigger = triggerOf(observed, policy);
  const isUnderWay = size > policy.min && depth + running > 0;
  if (trigger === null && !isUnderWay) {
    if (depth + running === 0) return { least: 0, most: 0, reasons: ["Nothing waits or is being executed."] };
    const text = `${countOf(depth, "task")} ${depth === 1 ? "waits" : "wait"}, the oldest for ${showMs(observed.oldestAge ?? 0)}: a batch starts at ${countOf(policy.batch, "task")} or after ${showMs(policy.maxAge)}.`;
    return { least: 0, most: 0, reasons: [text] };
  }
  // Workers of a batch stay as long as there is work for them, because each start takes time.
  const stay = Math.max(1, Math.min(size, busy + Math.ceil(depth / policy.concurrency)));
  if (trigger === null) {
    const text = `A batch is under way: ${countOf(depth, "task")} left, ${countOf(running, "task")} being executed.`;
    return { least: 1, most: stay, reasons: [text] };
  }
  const least = Math.max(1, sizeForBatch(depth, arrivalRate, serviceTime, policy));
  const reasons = [trigger];
  if (serviceTime !== null)
    reasons.push(
      `${countOf(least, "worker")} ${least === 1 ? "finishes" : "finish"} it within ${showMs(policy.targetWait)}, at ${showMs(serviceTime)} per task.`,
    );
  return { least, most: Math.max(least, stay), reasons };
}

/** Why a batch starts now, or null. */
function triggerOf({ depth, oldestAge, windowOpen }: Observed, { batch, maxAge }: PoolPolicy): string | null {
  if (depth === 0) return null;
  if (depth >= batch)
    return `${countOf(depth, "task")} ${depth === 1 ? "waits" : "wait"}, a batch is ${batch}.`;
  if ((oldestAge ?? 0) >= maxAge)
    return `The oldest task has waited ${showMs(oldestAge!)}, at most ${showMs(maxAge)} is allowed.`;
  return windowOpen
    ? `The queue's window is open, and ${countOf(depth, "task")} ${depth === 1 ? "waits" : "wait"}.`
    : null;
}

function sizeForBatch(
  depth: number,
  arrivals: number,
  serviceTime: number | null,
  policy: PoolPolicy,
): number {
  if (serviceTime === null) return Math.min(1, depth);
  const slots =
    depth === 0 ? 0 : loadOf(arrivals, serviceTime) + (depth * serviceTime) / Math.max(policy.targetWait, 1);
  const useful = Math.min(slots, depth);
  return Math.ceil(useful / policy.concurrency - ROUNDING);
}

/** While no task may start, the pool needs no workers; except if that ends within the cooldown. */
function isBlocked({ blockedFor }: Observed, { downCooldown }: PoolPolicy): boolean {
  return blockedFor > downCooldown;
}

function blocked({ blockedFor }: Observed): Need {
  const until = Number.isFinite(blockedFor) ? `for ${showMs(blockedFor)}` : "until it is resumed";
  return { least: 0, most: 0, reasons: [`No task may start ${until}.`] };
}

function withinBounds(
  size: number,
  { concurrencyLimit }: Observed,
  { min, max, concurrency }: PoolPolicy,
): number {
  const useful = concurrencyLimit === null ? size : Math.min(size, Math.ceil(concurrencyLimit / concurrency));
  return clamp(useful, min, max);
}

/** Adds the bound that changed the size to the reasons. withinBounds() has applied it. */
function bound(wanted: number, { least, most }: Need, { min, max }: PoolPolicy, reasons: string[]): number {
  if (least > wanted && wanted === max) reasons.push(`The pool may have at most ${countOf(max, "worker")}.`);
  else if (least > wanted) reasons.push(`The queue lets no more tasks start at a time.`);
  else if (most < wanted && wanted === min)
    reasons.push(`The pool keeps at least ${countOf(min, "worker")}.`);
  return wanted;
}

/** A worker in the middle of a task is not ended. */
function keepBusy(
  wanted: number,
  size: number,
  observed: Observed,
  { max }: PoolPolicy,
  reasons: string[],
): number {
  const busy = Math.min(observed.workers.busy, size, max);
  if (wanted >= busy) return wanted;
  reasons.push(
    `${countOf(busy, "worker")} ${busy === 1 ? "executes a task and is" : "execute tasks and are"} not ended.`,
  );
  return busy;
}

/** Applies cooldowns and steps. A pool outside `min` and `max` changes at once, without regard to cooldowns. */
function pace(
  wanted: number,
  size: number,
  observed: Observed,
  policy: PoolPolicy,
  reasons: string[],
): number {
  const { min, max } = policy;
  if (wanted > size) {
    // From zero workers, a cooldown would only delay the first task.
    const cooldown = size < Math.max(min, 1) ? 0 : left(observed.sinceUp, policy.upCooldown);
    if (cooldown > 0) return wait(size, cooldown, "grew", reasons);
    return step(wanted, clamp(size + policy.stepUp, min, max), Math.min, reasons);
  }
  if (wanted < size && size <= max) {
    const grew = left(observed.sinceUp, policy.downCooldown);
    const shrank = left(observed.sinceDown, policy.downCooldown);
    if (Math.max(grew, shrank) > 0)
      return wait(size, Math.max(grew, shrank), grew >= shrank ? "grew" : "shrank", reasons);
    return step(wanted, size - policy.stepDown, Math.max, reasons);
  }
  return wanted;
}

function left(since: number | null, cooldown: number): number {
  return since === null ? 0 : Math.max(0, cooldown - since);
}

function wait(size: number, remaining: number, what: string, reasons: string[]): number {
  reasons.push(`It ${what} recently: the next change is possible in ${showMs(remaining)}.`);
  return size;
}

function step(
  wanted: number,
  furthest: number,
  nearest: (a: number, b: number) => number,
  reasons: string[],
): number {
  const next = nearest(wanted, furthest);
  if (next !== wanted) reasons.push(`One step changes it by at most that, on the way to ${wanted}.`);
  return next;
}

function conclude(next: number, size: number, { least, most }: Need): string {
  if (next > size) return `Grows from ${size} to ${next}.`;
  if (next < size) return `Shrinks from ${size} to ${next}.`;
  if (size > least && size < most)
    return `Stays at ${size}: it grows below ${least} and shrinks above ${most}.`;
  return `Stays at ${size}.`;
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(Math.max(value, least), Math.max(least, most));
}
