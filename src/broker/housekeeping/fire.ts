import { type ErrorCode, isDibsError } from "../../core/errors.ts";
import { fire, SCHEDULE_KIND, type ScheduleState, taskAt } from "../../core/schedule.ts";
import type { DueDocument } from "../../engine/engine.ts";
import type { Context } from "../context.ts";
import { eventOf, parseState, replace } from "../schedules.ts";

/** A queue that is full is tried again after this long; the firing is late then, and not lost. */
const AGAIN_MS = 5_000;

/**
 * Fires the schedules whose time has come. The tasks are added in the commit that plans the next firing, and only where the
 * schedule still is what it was when it was found due: of all processes that try, one does it, and one that dies has
 * done it or has not. Answers whether there may be more to do at once.
 */
export async function fireDue(context: Context, due: readonly DueDocument[], now: number): Promise<boolean> {
  const schedules = due.filter(({ kind }) => kind === SCHEDULE_KIND);
  await Promise.all(schedules.map((document) => fireOne(context, document, now)));
  return schedules.length > 0;
}

async function fireOne(context: Context, { name, value }: DueDocument, now: number): Promise<void> {
  const before = parseState(value);
  const { times, after } = fire(before, now);
  const adds = times.map((planned) => taskAt(name, before.definition, planned));
  try {
    await replace(context, name, value, after, {
      ...(adds.length > 0 && { adds, event: eventOf("schedule.fired", name, after) }),
    });
  } catch (error) {
    if (!isDibsError(error) || !EXPLAINED.has(error.code)) throw error;
    await explain(context, name, value, { before, after, now }, error);
  }
}

/** What a queue says to a task. The rest is the store's own trouble: the schedule stays due. */
const EXPLAINED: ReadonlySet<ErrorCode> = new Set(["QUEUE_FULL", "PAYLOAD_TOO_LARGE", "INVALID"]);

/** Its queue would not take the task. That is not told to any caller: it is kept with the schedule, for who looks. */
async function explain(
  context: Context,
  name: string,
  value: string,
  { before, after, now }: { before: ScheduleState; after: ScheduleState; now: number },
  { code, message }: { code: ErrorCode; message: string },
): Promise<void> {
  const isSame = before.error?.code === code && before.error.message === message;
  const error = isSame ? before.error : { at: now, code, message };
  if (code === "QUEUE_FULL") {
    await replace(context, name, value, { ...before, error }, { dueAt: now + AGAIN_MS });
  } else {
    // Trying again would not help: by the next firing somebody may have raised the limit.
    await replace(context, name, value, { ...after, lastAt: before.lastAt, error });
  }
}
