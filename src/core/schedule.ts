import {
  checkPattern,
  checkTimeZone,
  type FiringTimes,
  firingTimesOf,
  type Timing,
  UTC,
} from "./calendar.ts";
import { parseDuration } from "./duration.ts";
import { type ErrorCode, invalid } from "./errors.ts";
import { checkNames, checkObject } from "./options.ts";
import { checkQueueName } from "./queue-name.ts";
import { show } from "./show.ts";
import type { NewTask } from "./task.ts";

/** Every task that a schedule adds says which one, and for when it was planned: it may have come late. */
export const SCHEDULE_HEADER = "dibs-schedule";
export const PLANNED_HEADER = "dibs-planned-at";

export const MISSED = ["skip", "once", "all"] as const;
/** What becomes of firings that nobody was there for: dropped, made up for by one task, or by one each. */
export type Missed = (typeof MISSED)[number];

/** What a schedule adds each time. Its payload is text: it is kept in a small document. */
export type ScheduledTask = Omit<NewTask, "data" | "idempotencyKey"> & { data: string };

export type ScheduleDefinition = Timing & { missed: Missed; task: ScheduledTask };

/** A schedule as it is kept: a document of this kind. Times are the engine's. */
export const SCHEDULE_KIND = "schedule";

export interface ScheduleState {
  definition: ScheduleDefinition;
  /** The last declaration applied, as JSON: a restart does not undo what an operator changed since. */
  declared: string | null;
  paused: boolean;
  createdAt: number;
  /** When the timing began: intervals are counted from here. */
  from: number;
  /** The next firing; null while it is paused. */
  planned: number | null;
  /** The last firing, as it was planned. */
  lastAt: number | null;
  /** Why the last firing added nothing; null when it did. */
  error: ScheduleError | null;
}

export interface ScheduleError {
  at: number;
  code: ErrorCode;
  message: string;
}

/** A schedule as it is told of. */
export interface ScheduleRecord {
  name: string;
  cron: string | null;
  tz: string | null;
  every: number | null;
  missed: Missed;
  task: ScheduledTask;
  paused: boolean;
  /** The next firings; none while it is paused. */
  next: number[];
  lastAt: number | null;
  createdAt: number;
  error: ScheduleError | null;
}

const SHOWN = 5;
const SHORTEST_MS = 1_000;
/** A firing this late is not a missed one: a process was busy, or just starting. */
const ON_TIME_MS = 60_000;
/** Of missed firings only so many are made up for, the latest: a year of seconds must not drown a queue. */
const MOST_MISSED = 1_000;
/** Tasks of one commit. */
const BATCH = 100;

export function checkScheduleName(name: unknown): string {
  try {
    return checkQueueName(name);
  } catch {
    throw invalid(
      `A schedule has a name of letters and digits, with _ . : / - between them, as in "nightly"; got ${show(name)}.`,
    );
  }
}

/** When, as users write it. */
export interface TimingOptions {
  cron?: string | undefined;
  tz?: string | undefined;
  every?: unknown;
  missed?: Missed | undefined;
}

export function parseTiming(options: TimingOptions): Timing & { missed: Missed } {
  checkObject(options, "When a schedule fires");
  checkNames(options, ["cron", "tz", "every", "missed"], "schedule");
  const { cron, tz, every, missed = "once" } = options;
  if (!MISSED.includes(missed)) {
    throw invalid(
      `missed must be one of ${MISSED.map((each) => `"${each}"`).join(", ")}; got ${show(missed)}.`,
    );
  }
  if ((cron === undefined) === (every === undefined)) {
    throw invalid(`A schedule has either cron or every, as in { cron: "0 3 * * *" } or { every: "10m" }.`);
  }
  if (cron !== undefined) {
    const zone = checkTimeZone(tz ?? UTC);
    return { cron: checkPattern(cron, zone), tz: zone, missed };
  }
  if (tz !== undefined) throw invalid("tz goes with cron: an interval is the same in every time zone.");
  return { every: parseDuration(every, "every", SHORTEST_MS), missed };
}

export function timingOf(definition: Timing): Timing {
  return "cron" in definition ? { cron: definition.cron, tz: definition.tz } : { every: definition.every };
}

/**
 * The state after a declaration; undefined where that changes nothing. Only another timing plans anew: what was planned,
 * or is overdue, stays so when only the task changes.
 */
export function define(
  before: ScheduleState | null,
  definition: ScheduleDefinition,
  now: number,
  force: boolean,
): ScheduleState | undefined {
  const declared = JSON.stringify(definition);
  if (before && !force && before.declared === declared) return undefined;
  const keepsTime =
    before !== null && JSON.stringify(timingOf(before.definition)) === JSON.stringify(timingOf(definition));
  const state: ScheduleState = {
    definition,
    declared: force ? (before?.declared ?? null) : declared,
    paused: before?.paused ?? false,
    createdAt: before?.createdAt ?? now,
    from: keepsTime ? before.from : now,
    planned: keepsTime ? before.planned : null,
    lastAt: before?.lastAt ?? null,
    error: before?.error ?? null,
  };
  return keepsTime || state.paused ? state : { ...state, planned: firingTimes(state).after(now) };
}

/** What would have fired while it is paused is not missed: nobody wanted it. Undefined where it is so already. */
export function setPaused(before: ScheduleState, paused: boolean, now: number): ScheduleState | undefined {
  if (before.paused === paused) return undefined;
  return { ...before, paused, planned: paused ? null : firingTimes(before).after(now) };
}

export interface Firing {
  /** The planned times that a task is to be added for. */
  times: number[];
  after: ScheduleState;
}

/** What is to happen at a time that the plan has reached. */
export function fire(before: ScheduleState, now: number): Firing {
  const times = due(before, now);
  const wanted = before.definition.missed === "skip" ? times.filter((at) => now - at <= ON_TIME_MS) : times;
  const last = times.at(-1)!;
  return {
    times: wanted,
    after: {
      ...before,
      planned: firingTimes(before).after(last),
      lastAt: wanted.at(-1) ?? before.lastAt,
      error: wanted.length > 0 ? null : before.error,
    },
  };
}

/** The firings that have come due, the earliest first: one, unless each is wanted. */
function due({ definition, from, planned }: ScheduleState, now: number): number[] {
  const first = planned!;
  const { after, upTo } = firingTimesOf(definition, from);
  if (definition.missed !== "all") return [Math.max(first, upTo(now, 1)[0] ?? first)];
  const times = [first];
  while (times.length < BATCH) {
    const next = after(times.at(-1)!);
    if (next === null || next > now) return times;
    times.push(next);
  }
  const latest = upTo(now, MOST_MISSED);
  return latest[0]! > first ? latest.slice(0, BATCH) : times;
}

function firingTimes({ definition, from }: ScheduleState): FiringTimes {
  return firingTimesOf(definition, from);
}

export function taskAt(name: string, { task }: ScheduleDefinition, planned: number): NewTask {
  const headers = {
    ...task.headers,
    [SCHEDULE_HEADER]: name,
    [PLANNED_HEADER]: new Date(planned).toISOString(),
  };
  return { ...task, headers };
}

export function describeSchedule(name: string, state: ScheduleState): ScheduleRecord {
  const { definition, paused, lastAt, createdAt, error } = state;
  const timing = timingOf(definition);
  return {
    name,
    cron: "cron" in timing ? timing.cron : null,
    tz: "cron" in timing ? timing.tz : null,
    every: "every" in timing ? timing.every : null,
    missed: definition.missed,
    task: definition.task,
    paused,
    next: nextTimes(state),
    lastAt,
    createdAt,
    error,
  };
}

function nextTimes(state: ScheduleState): number[] {
  const times: number[] = [];
  const { after } = firingTimes(state);
  for (let at = state.planned; at !== null && times.length < SHOWN; at = after(at)) times.push(at);
  return times;
}
