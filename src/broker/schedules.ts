import type { ScheduleEventType } from "../core/event/events.ts";
import { invalid } from "../core/errors/errors.ts";
import { byteLength, LIMITS } from "../core/input/limits.ts";
import { checkNames, checkObject } from "../core/input/options.ts";
import type { DeclareOutcome } from "../core/queue/policy.ts";
import type { GuardedChange } from "../core/port.ts";
import type { Paged, PageQuery } from "../core/answer/page.ts";
import {
  checkScheduleName,
  define,
  describeSchedule,
  noSuchSchedule,
  setPaused,
  parseTiming,
  SCHEDULE_KIND,
  type ScheduleDefinition,
  type ScheduleRecord,
  type ScheduleState,
  taskAt,
} from "../core/time/schedule.ts";
import { show } from "../core/errors/show.ts";
import type { AddedTask, NewTask } from "../core/task/task.ts";
import { add } from "./add.ts";
import { checkTasks } from "../core/task/additions.ts";
import { checkPage } from "./check.ts";
import type { Context } from "./context.ts";
import { findDocument, listDocuments } from "./documents.ts";

/**
 * The verbs of schedules. Definitions are stored as documents. Each process that has the store open fires those that
 * are due (housekeeping/fire.ts).
 */

export async function schedule(
  context: Context,
  name: string,
  given: ScheduleDefinition,
  options: { force?: boolean } & GuardedChange<ScheduleRecord> = {},
): Promise<ScheduleRecord> {
  checkScheduleName(name);
  const definition = parseDefinition(name, given);
  const force = options?.force === true;
  let outcome: DeclareOutcome = "unchanged";
  const change = (before: ScheduleState | null, now: number) => {
    const after = define(before, definition, now, force);
    const isSame = JSON.stringify(before?.definition) === JSON.stringify(definition);
    const mayChange = before === null || (options?.mayChange?.(describeSchedule(name, before)) ?? true);
    if (isSame) outcome = "unchanged";
    else if (!mayChange) outcome = "refused";
    else outcome = before === null ? "created" : after ? "changed" : "unchanged";
    return mayChange ? after : undefined;
  };
  const state = await changeSchedule(context, name, change, eventOfDefinition);
  options?.onOutcome?.(outcome);
  return describeSchedule(name, state);
}

const eventOfDefinition = (before: ScheduleState | null): ScheduleEventType =>
  before ? "schedule.updated" : "schedule.created";

export async function pauseSchedule(
  context: Context,
  name: string,
  paused: boolean,
  { mayChange }: GuardedChange<ScheduleRecord> = {},
): Promise<void> {
  checkScheduleName(name);
  const change = (before: ScheduleState | null, now: number) => {
    if (!before || mayChange?.(describeSchedule(name, before)) === false) throw noSuchSchedule(name);
    return setPaused(before, paused, now);
  };
  await changeSchedule(context, name, change, () => (paused ? "schedule.paused" : "schedule.resumed"));
}

export async function unschedule(
  context: Context,
  name: string,
  { mayChange }: GuardedChange<ScheduleRecord> = {},
): Promise<boolean> {
  checkScheduleName(name);
  for (;;) {
    const found = await findDocument(context, SCHEDULE_KIND, name);
    if (!found) return false;
    const state = parseState(found.value);
    if (mayChange?.(describeSchedule(name, state)) === false) return false;
    const event = eventOf("schedule.deleted", name, state);
    const { before } = await context.run({
      ...{ verb: "put", kind: SCHEDULE_KIND, name, value: null, expect: found.value, event },
    });
    if (before === found.value) return true;
  }
}

export async function schedules(
  context: Context,
  query: PageQuery & { name?: string | undefined } = {},
): Promise<Paged<ScheduleRecord>> {
  const page = checkPage(query, "schedules", "name");
  const { name } = query;
  const only = name === undefined ? page : { ...page, name: checkScheduleName(name) };
  return listDocuments(context, SCHEDULE_KIND, only, (each) =>
    describeSchedule(each.name, parseState(each.value)),
  );
}

export async function fireSchedule(
  context: Context,
  name: string,
  { mayChange }: Pick<GuardedChange<ScheduleRecord>, "mayChange"> = {},
): Promise<AddedTask> {
  checkScheduleName(name);
  // One batch: the task's header has the planned time by the engine's clock, which `housekeep` returns.
  const [found, { now }] = await Promise.all([
    findDocument(context, SCHEDULE_KIND, name),
    context.run({ verb: "housekeep" }),
  ]);
  const state = found && parseState(found.value);
  if (!state || mayChange?.(describeSchedule(name, state)) === false) throw noSuchSchedule(name);
  const [added] = await add(context, [taskAt(name, state.definition, now)]);
  return added!;
}

/** Starts again from the new document if another process has changed it meanwhile. */
async function changeSchedule(
  context: Context,
  name: string,
  change: (before: ScheduleState | null, now: number) => ScheduleState | undefined,
  typeOf: (before: ScheduleState | null) => ScheduleEventType,
): Promise<ScheduleState> {
  for (;;) {
    // One batch: planning needs the engine's time, which `housekeep` returns.
    const [found, { now }] = await Promise.all([
      findDocument(context, SCHEDULE_KIND, name),
      context.run({ verb: "housekeep" }),
    ]);
    const before = found ? parseState(found.value) : null;
    const after = change(before, now);
    if (!after) return before!;
    const event = eventOf(typeOf(before), name, after);
    if (await replace(context, name, found?.value ?? null, after, { event })) {
      if (after.planned !== null) context.housekeeper.expect(after.planned - now);
      return after;
    }
  }
}

/** Answers whether the document still had the expected value. `dueAt`: when it is due, if not at its planned firing. */
export async function replace(
  context: Context,
  name: string,
  expect: string | null,
  after: ScheduleState,
  rest: { adds?: NewTask[]; event?: ReturnType<typeof eventOf>; dueAt?: number } = {},
): Promise<boolean> {
  const dueAt = rest.dueAt ?? after.planned;
  const { before } = await context.run({
    ...{ verb: "put", kind: SCHEDULE_KIND, name, value: JSON.stringify(after), expect },
    ...(dueAt !== null && { dueAt }),
    ...(rest.adds && { adds: rest.adds }),
    ...(rest.event && { event: rest.event }),
  });
  return before === expect;
}

export function parseState(value: string): ScheduleState {
  return JSON.parse(value) as ScheduleState;
}

export function eventOf(
  type: ScheduleEventType,
  schedule: string,
  { definition }: ScheduleState,
): { type: ScheduleEventType; queue: string; schedule: string } {
  return { type, queue: definition.task.queue, schedule };
}

const TASK = [
  "queue",
  "data",
  "contentType",
  "headers",
  "priority",
  "delay",
  "groupKey",
  "ttl",
  "maxAttempts",
  "cost",
  "urgent",
];

/** With the fields in one order, so that equal definitions compare as equal. */
function parseDefinition(name: string, given: ScheduleDefinition): ScheduleDefinition {
  checkObject(given, "A schedule");
  const { task, ...timing } = given;
  checkNames(task, TASK, "scheduled task");
  if (typeof task.data !== "string") {
    throw invalid(`The payload of a scheduled task is text; got ${show(task.data)}.`);
  }
  const entries = TASK.map((field) => [field, (task as Record<string, unknown>)[field]] as const);
  const inOrder = Object.fromEntries(entries.filter(([, value]) => value !== undefined));
  const definition = { ...parseTiming(timing), task: inOrder as ScheduleDefinition["task"] };
  checkTasks([taskAt(name, definition, 0)]);
  const bytes = byteLength(JSON.stringify(definition));
  if (bytes > LIMITS.scheduleBytes) {
    throw invalid(
      `A schedule may have ${LIMITS.scheduleBytes} bytes as JSON, with its task's payload; got ${bytes}. ` +
        `Store large data elsewhere and pass a reference.`,
    );
  }
  return definition;
}
