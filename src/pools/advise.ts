import { countOf, showFigure, showMs, showPercent, showRate } from "../core/answer/figures.ts";
import { loadOf, meanWait, serversFor, waitQuantile } from "../core/queue/queueing.ts";
import type { HeldBack, QueueStats, WorkerRecord } from "../core/task/task.ts";
import { WITHIN_TARGET } from "./decide.ts";

/**
 * Says what limits a queue and how many workers its load needs, from its statistics. A pure function:
 * `queue.stats()` and `dibs advise` call it. Times are in milliseconds, rates per second.
 */
export function advise(
  stats: StatsForAdvice,
  workers: AdvisedWorker[],
  goal: AdviceGoal = DEFAULT_GOAL,
): Advice {
  const load = measure(stats, workers);
  const verdict = judge(stats, load);
  const needed = neededWorkers(load, goal);
  const drained = timeUntilDrained(stats, load);
  const idle = workers.filter(({ claims }) => claims === 0).map(({ name }) => name);
  const advice = { verdict, load, needed, drained, goal };
  return {
    verdict,
    summary: summarize(stats, advice),
    workers: {
      now: workers.length,
      needed,
      why: explainNeeded(load, needed, goal),
      utilisation: load.slots === 0 || load.busy === null ? null : load.busy / load.slots,
      wait: load.busy === null ? null : finite(meanWait(load.busy, load.serviceTime!, load.slots)),
    },
    drainedIn: drained,
    knee: {
      workers: load.ratePerWorker === null ? null : load.arrivals / load.ratePerWorker,
      ratePerWorker: load.ratePerWorker,
      arrivals: load.arrivals,
      capacity: load.capacity,
    },
    lease: adviseLease(stats),
    idle,
  };
}

type StatsForAdvice = Omit<QueueStats, "heldBack"> & { heldBack: { by: HeldBack["by"] } | null };
type AdvisedWorker = Pick<WorkerRecord, "name" | "concurrency" | "claims">;

export interface AdviceGoal {
  /** 95 % of the tasks should start within this time. */
  targetWait: number;
  /** Workers should be busy at most this part of the time. */
  utilisation: number;
}

export const DEFAULT_GOAL: AdviceGoal = { targetWait: 5_000, utilisation: 0.85 };

export type Verdict =
  /** Tasks wait because all workers are busy. */
  | "worker-bound"
  /** Workers wait for tasks. */
  | "producer-bound"
  /** Tasks wait although workers are idle: a limit, a hold, a pause or groups keep them back. */
  | "contended"
  /** Nothing arrives, waits or is being executed. */
  | "idle";

export interface Advice {
  verdict: Verdict;
  /** Sentences for people: what limits the queue, and what to do. */
  summary: string[];
  workers: {
    now: number;
    /** How many the arrivals need; null: not known, because no task has ended in the last minute. */
    needed: number | null;
    why: string;
    /** The part of the time that the workers of now are busy, 0 to 1 and above; null: not known. */
    utilisation: number | null;
    /** The mean wait that these workers lead to (M/M/c); null: not known, or it grows without end. */
    wait: number | null;
  };
  /** Milliseconds until no task waits; 0: none waits, null: never, or not known. */
  drainedIn: number | null;
  /** Throughput is min(workers × ratePerWorker, arrivals): beyond `workers`, more of them add nothing. */
  knee: {
    workers: number | null;
    ratePerWorker: number | null;
    arrivals: number;
    /** What the workers of now can do per second; null: not known. */
    capacity: number | null;
  };
  /** What the lease of claims without a heartbeat should be; null: no success is stored. */
  lease: { recommended: number; why: string } | null;
  /** Names of the workers that hold no task at this moment. */
  idle: string[];
}

interface Load {
  /** Attempts per second that start: new tasks, and failed ones that come back. */
  arrivals: number;
  serviceTime: number | null;
  /** Tasks that are being executed on average, if all that arrive are; null: not known. */
  busy: number | null;
  /** Tasks that the workers can execute at a time, and do. */
  slots: number;
  running: number;
  ratePerWorker: number | null;
  capacity: number | null;
}

function measure({ rates, serviceTime, depth }: StatsForAdvice, workers: AdvisedWorker[]): Load {
  const arrivals = rates.addedPerSecond + rates.failedPerSecond;
  const slots = workers.reduce((sum, { concurrency }) => sum + concurrency, 0);
  const perSlot = serviceTime === null ? null : 1_000 / Math.max(serviceTime, 1);
  const slotsPerWorker = workers.length === 0 ? 1 : slots / workers.length;
  return {
    ...{ arrivals, serviceTime, slots, running: depth.claimed },
    busy: serviceTime === null ? null : loadOf(arrivals, serviceTime),
    ratePerWorker: perSlot === null ? null : perSlot * slotsPerWorker,
    capacity: perSlot === null ? null : perSlot * slots,
  };
}

function judge(
  { depth, paused, heldBack }: StatsForAdvice,
  { arrivals, slots, running, capacity }: Load,
): Verdict {
  const isKeptBack = paused || heldBack !== null || (slots > 0 && running < slots);
  if (depth.ready > 0) return isKeptBack && slots > 0 ? "contended" : "worker-bound";
  if (arrivals === 0 && running === 0) return "idle";
  return capacity !== null && capacity < arrivals ? "worker-bound" : "producer-bound";
}

function neededWorkers({ busy, serviceTime, ratePerWorker }: Load, goal: AdviceGoal): number | null {
  if (busy === null) return null;
  const slots = serversFor(
    busy,
    serviceTime!,
    { ...goal, share: WITHIN_TARGET, waitMs: goal.targetWait },
    MOST,
  );
  const slotsPerWorker = (ratePerWorker! * Math.max(serviceTime!, 1)) / 1_000;
  return Math.ceil(slots / slotsPerWorker - 1e-9);
}

/** Above this, more is not counted. */
const MOST = 100_000;

function timeUntilDrained({ depth }: StatsForAdvice, { arrivals, capacity }: Load): number | null {
  if (depth.ready === 0) return 0;
  if (capacity === null || capacity <= arrivals) return null;
  return (depth.ready / (capacity - arrivals)) * 1_000;
}

function explainNeeded(
  { arrivals, serviceTime, busy }: Load,
  needed: number | null,
  goal: AdviceGoal,
): string {
  if (needed === null) return "No task has ended in the last minute, so its duration is not known.";
  if (busy === 0) return "Nothing arrives.";
  const wait = finite(waitQuantile(busy!, serviceTime!, Math.max(needed, 1), WITHIN_TARGET));
  const load = `${showRate(arrivals)} at ${showMs(serviceTime!)} keep ${showFigure(busy!)} busy on average`;
  const result =
    wait === null ? "" : `; then ${showPercent(WITHIN_TARGET)} of the tasks start within ${showMs(wait)}`;
  return `${load}; ${countOf(needed, "worker")} ${needed === 1 ? "is" : "are"} busy at most ${showPercent(goal.utilisation)} of the time${result}.`;
}

interface Findings {
  verdict: Verdict;
  load: Load;
  needed: number | null;
  drained: number | null;
}

function summarize(stats: StatsForAdvice, { verdict, load, needed, drained }: Findings): string[] {
  const waiting = `${countOf(stats.depth.ready, "task")} ${stats.depth.ready === 1 ? "waits" : "wait"}`;
  const since = stats.oldestAge === null ? "" : `, the oldest for ${showMs(stats.oldestAge)}`;
  if (verdict === "idle") return ["Nothing arrives, waits or is being executed."];
  if (verdict === "contended") return [`${waiting}${since}, although workers are idle: ${cause(stats)}`];
  if (verdict === "producer-bound")
    return [`Nothing waits: the workers keep up. ${surplus(load, needed)}`.trim()];
  const now = load.slots === 0 ? "there is no worker" : "all workers are busy";
  const next = adviseMore(load, needed);
  const until =
    drained === null ? "The backlog does not shrink." : `The backlog is gone in ${showMs(drained)}.`;
  if (stats.depth.ready === 0) return [`More arrives than the workers can do. ${next}`];
  return [`${waiting}${since}: ${now}. ${next}`.trim(), until];
}

function cause({ paused, heldBack }: StatsForAdvice): string {
  if (paused) return "the queue is paused.";
  if (heldBack?.by === "groups") return "their groups are busy, held or at their rate.";
  if (heldBack) return `the queue's ${heldBack.by} keeps them back. More workers would not help.`;
  return "they are about to be claimed, or only other workers may take them.";
}

function adviseMore({ slots, arrivals, serviceTime }: Load, needed: number | null): string {
  if (needed === null) return slots === 0 ? "Start one." : "";
  return needed === 0 || serviceTime === null
    ? ""
    : `${countOf(needed, "worker")} would keep up with ${showRate(arrivals)}.`;
}

function surplus({ slots, busy }: Load, needed: number | null): string {
  if (needed === null || busy === null || slots === 0) return "";
  return needed * 2 < slots ? `${countOf(Math.max(needed, 1), "worker")} would be enough.` : "";
}

/**
 * Workers send heartbeats, so their tasks may take longer than the lease. A claim without heartbeats (manual, HTTP)
 * must end within it. A longer lease delays the retry after a crash.
 */
function adviseLease({ serviceTimes }: StatsForAdvice): Advice["lease"] {
  if (serviceTimes === null) return null;
  const { count, p50, p99, max } = serviceTimes;
  const recommended = roundUp(Math.min(Math.max(p99 * 2, SHORTEST_LEASE), LONGEST_LEASE));
  const why =
    `Half of the last successes (${count}) took at most ${showMs(p50)}, 99 % at most ${showMs(p99)}, and all at most ` +
    `${showMs(max)}: twice what 99 % take leaves room, and a task of a crashed worker returns no later than that.`;
  return { recommended, why };
}

const SHORTEST_LEASE = 5_000;
const LONGEST_LEASE = 3_600_000;

/** Rounds up to 5, 10, 15, 30 s, 1, 2, 5 min and so on, because a lease of 13,271 ms would look odd. */
function roundUp(ms: number): number {
  const steps = [5, 10, 15, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600].map((seconds) => seconds * 1_000);
  return steps.find((step) => step >= ms) ?? LONGEST_LEASE;
}

function finite(value: number): number | null {
  return Number.isFinite(value) ? value : null;
}
