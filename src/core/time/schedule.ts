import {
  checkPattern,
  checkTimeZone,
  type FiringTimes,
  firingTimesOf,
  type Timing,
  UTC,
} from "./calendar.ts";
import { parseDuration } from "./duration.ts";
import { type DibsError, type ErrorCode, invalid } from "../errors/errors.ts";
import { checkNames, checkNumber, checkObject } from "../input/options.ts";
import { checkQueueName } from "../queue/queue-name.ts";
import { show } from "../errors/show.ts";
import type { NewTask } from "../task/task.ts";

/**
 * Headers of every task that a schedule adds: the schedule's name, and the planned time, because the task may be added
 * late.
 */
export const SCHEDULE_HEADER = "dibs-schedule";
export const PLANNED_HEADER = "dibs-planned-at";

export const MISSED = ["skip", "once", "all"] as const;
/**
 * What happens to firings that were missed because no process was running: dropped, replaced by one task, or by one
 * task each.
 */
export type Missed = (typeof MISSED)[number];

/** What a schedule adds each time. Its payload is text, because it is stored in a document. */
export type ScheduledTask = Omit<NewTask, "data" | "idempotencyKey" | "unique"> & { data: string };

/** When a schedule ends, and how its tasks are spread. */
export interface ScheduleBounds {
  /** No firing time after this one, in milliseconds since 1970. */
  until?: number;
  /** Ends after this many tasks. Those that are fired by hand do not count. */
  limit?: number;
  /** Each task is due up to this many milliseconds after its planned time, at random. */
  jitter?: number;
}

export type ScheduleDefinition = Timing & ScheduleBounds & { missed: Missed; task: ScheduledTask };

/** A schedule is stored as a document of this kind. Times are the engine's. */
export const SCHEDULE_KIND = "schedule";

export interface ScheduleState {
  definition: ScheduleDefinition;
  /** The last declaration applied, as JSON: a restart does not undo what an operator has changed since. */
  declared: string | null;
  paused: boolean;
  createdAt: number;
  /** When the timing began. Intervals are counted from here. */
  from: number;
  /** The next firing time; null while it is paused, and after it has ended. */
  planned: number | null;
  /** Tasks that its plan has added since its timing began; absent in schedules of older versions. */
  fired?: number;
  /** The planned time of the last firing. */
  lastAt: number | null;
  /** Why the last firing added nothing; null when it did. */
  error: ScheduleError | null;
}

export interface ScheduleError {
  at: number;
  code: ErrorCode;
  message: string;
}

/** A schedule as callers see it. */
export interface ScheduleRecord {
  name: string;
  cron: string | null;
  tz: string | null;
  every: number | null;
  missed: Missed;
  until: number | null;
  limit: number | null;
  jitter: number | null;
  task: ScheduledTask;
  paused: boolean;
  /** The schedule fires no more: `until` has passed, or `limit` is reached. */
  ended: boolean;
  /** Tasks that its plan has added. */
  fired: number;
  /** The next firing times; none while it is paused. */
  next: number[];
  lastAt: number | null;
  createdAt: number;
  error: ScheduleError | null;
}

const SHOWN = 5;
const SHORTEST_MS = 1_000;
const MOST_FIRINGS = 1_000_000_000;
/** A firing that is late by up to this is not missed: a process was busy, or had just started. */
const ON_TIME_MS = 60_000;
/**
 * Only this many missed firings are made up for, the latest ones: a year of one-second firings must not flood a queue.
 */
const MOST_MISSED = 1_000;
/** Tasks per commit. */
const BATCH = 100;

export function checkScheduleName(name: unknown): string {
  try {
    return checkQueueName(name);
  } catch {
    throw invalid(
      `A schedule has a name of ASCII letters and digits, with _ . : / - between them, as in "nightly"; got ${show(name)}.`,
    );
  }
}

export function noSuchSchedule(name: string): DibsError {
  return invalid(`There is no schedule ${show(name)}. dibs.schedule(name, when, what) creates one.`);
}

/** The timing as users write it. */
export interface TimingOptions {
  cron?: string | undefined;
  tz?: string | undefined;
  every?: unknown;
  missed?: Missed | undefined;
  until?: unknown;
  limit?: unknown;
  jitter?: unknown;
}

const TIMING = ["cron", "tz", "every", "missed", "until", "limit", "jitter"];

export function parseTiming(options: TimingOptions): Timing & ScheduleBounds & { missed: Missed } {
  checkObject(options, "When a schedule fires");
  checkNames(options, TIMING, "schedule");
  const { cron, tz, every, missed = "once" } = options;
  const bounds = parseBounds(options);
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
    return { cron: checkPattern(cron, zone), tz: zone, missed, ...bounds };
  }
  if (tz !== undefined) throw invalid("tz goes with cron: an interval is the same in every time zone.");
  return { every: parseDuration(every, "every", SHORTEST_MS), missed, ...bounds };
}

function parseBounds({ until, limit, jitter }: TimingOptions): ScheduleBounds {
  return {
    ...(until !== undefined && until !== null && { until: parseUntil(until) }),
    ...(limit !== undefined && limit !== null && { limit: checkNumber(limit, "limit", 1, MOST_FIRINGS) }),
    ...(jitter !== undefined && jitter !== null && { jitter: parseDuration(jitter, "jitter") }),
  };
}

/** An instant: a Date, or in JSON a text with a time zone, or milliseconds. */
function parseUntil(until: unknown): number {
  const at = until instanceof Date ? until.getTime() : typeof until === "string" ? timeFrom(until) : until;
  if (typeof at === "number" && Number.isSafeInteger(at) && at >= 0) return at;
  throw invalid(
    `until must be a Date, or a time with its zone such as "2026-12-31T23:59:59Z"; got ${show(until)}.`,
  );
}

function timeFrom(text: string): number {
  return /T.*(?:Z|[+-]\d{2}:?\d{2})$/i.test(text) ? Date.parse(text) : Number.NaN;
}

function timingOf(definition: Timing): Timing {
  return "cron" in definition ? { cron: definition.cron, tz: definition.tz } : { every: definition.every };
}

/**
 * The state after a declaration; undefined if nothing changes. Only a new timing plans the next firing again. If only
 * the task changes, a planned or overdue firing stays.
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
    planned: null,
    fired: keepsTime ? (before.fired ?? 0) : 0,
    lastAt: before?.lastAt ?? null,
    error: before?.error ?? null,
  };
  if (state.paused) return state;
  const planned = keepsTime ? before.planned : null;
  return { ...state, planned: planned === null ? plan(state, now) : withinBounds(state, planned) };
}

/** The next firing time after `at`; null if it has ended. */
function plan(state: ScheduleState, at: number): number | null {
  return withinBounds(state, firingTimes(state).after(at));
}

function withinBounds({ definition, fired = 0 }: ScheduleState, at: number | null): number | null {
  const { until = Number.POSITIVE_INFINITY, limit = Number.POSITIVE_INFINITY } = definition;
  return at !== null && at <= until && fired < limit ? at : null;
}

/** Firings during a pause do not count as missed. Undefined if the schedule is already in that state. */
export function setPaused(before: ScheduleState, paused: boolean, now: number): ScheduleState | undefined {
  if (before.paused === paused) return undefined;
  return { ...before, paused, planned: paused ? null : plan(before, now) };
}

export interface Firing {
  /** The planned times for which a task is added. */
  times: number[];
  after: ScheduleState;
}

/** What a schedule does when its planned time is reached. */
export function fire(before: ScheduleState, now: number): Firing {
  const times = due(before, now);
  const { missed, limit = Number.POSITIVE_INFINITY } = before.definition;
  const { fired = 0 } = before;
  const onTime = missed === "skip" ? times.filter((at) => now - at <= ON_TIME_MS) : times;
  const wanted = onTime.slice(0, limit - fired);
  const after = { ...before, fired: fired + wanted.length };
  return {
    times: wanted,
    after: {
      ...after,
      planned: plan(after, times.at(-1)!),
      lastAt: wanted.at(-1) ?? before.lastAt,
      error: wanted.length > 0 ? null : before.error,
    },
  };
}

/** The firings that are due, the earliest first: only one, unless `missed` is "all". */
function due({ definition, from, planned }: ScheduleState, now: number): number[] {
  const first = planned!;
  const { after, upTo } = firingTimesOf(definition, from);
  const latestTime = Math.min(now, definition.until ?? now);
  if (definition.missed !== "all") return [Math.max(first, upTo(latestTime, 1)[0] ?? first)];
  const times = [first];
  while (times.length < BATCH) {
    const next = after(times.at(-1)!);
    if (next === null || next > latestTime) return times;
    times.push(next);
  }
  const latest = upTo(latestTime, MOST_MISSED);
  return latest[0]! > first ? latest.slice(0, BATCH) : times;
}

function firingTimes({ definition, from }: ScheduleState): FiringTimes {
  return firingTimesOf(definition, from);
}

/** The task of a firing. `random` is from 0 to 1 and spreads it within the jitter. */
export function taskAt(
  name: string,
  { task, jitter = 0 }: ScheduleDefinition,
  planned: number,
  random = 0,
): NewTask {
  const late = Math.floor(random * jitter);
  const headers = {
    ...task.headers,
    [SCHEDULE_HEADER]: name,
    [PLANNED_HEADER]: new Date(planned).toISOString(),
  };
  return { ...task, headers, ...(late > 0 && { delay: (task.delay ?? 0) + late }) };
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
    until: definition.until ?? null,
    limit: definition.limit ?? null,
    jitter: definition.jitter ?? null,
    task: definition.task,
    paused,
    ended: !paused && state.planned === null,
    fired: state.fired ?? 0,
    next: nextTimes(state),
    lastAt,
    createdAt,
    error,
  };
}

function nextTimes(state: ScheduleState): number[] {
  const times: number[] = [];
  const { limit = Number.POSITIVE_INFINITY } = state.definition;
  const shown = Math.min(SHOWN, limit - (state.fired ?? 0));
  for (let at = state.planned; at !== null && times.length < shown; at = plan(state, at)) times.push(at);
  return times;
}
