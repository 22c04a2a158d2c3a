import { type ErrorCode, isDibsError } from "../../core/errors/errors.ts";
import { fire, SCHEDULE_KIND, type ScheduleState, taskAt } from "../../core/time/schedule.ts";
import type { DueDocument } from "../../engine/documents.ts";
import type { Context } from "../context.ts";
import { eventOf, parseState, replace } from "../schedules.ts";

/** A full queue is retried after this. The firing is then late, but not lost. */
const RETRY_MS = 5_000;

/**
 * Fires the schedules that are due. The tasks are added in the commit that plans the next firing, and only if the
 * schedule is unchanged since it was found due. So exactly one of several processes fires it, also if one dies. Returns
 * whether there may be more to do at once.
 */
export async function fireDue(context: Context, due: readonly DueDocument[], now: number): Promise<boolean> {
  const schedules = due.filter(({ kind }) => kind === SCHEDULE_KIND);
  await Promise.all(schedules.map((document) => fireOne(context, document, now)));
  return schedules.length > 0;
}

async function fireOne(context: Context, { name, value }: DueDocument, now: number): Promise<void> {
  const before = parseState(value);
  const { times, after } = fire(before, now);
  const adds = times.map((planned) => taskAt(name, before.definition, planned, context.random()));
  try {
    await replace(context, name, value, after, {
      ...(adds.length > 0 && { adds, event: eventOf("schedule.fired", name, after) }),
    });
  } catch (error) {
    if (!isDibsError(error) || !RECORDED.has(error.code)) throw error;
    await recordError(context, name, value, { before, after, now }, error);
  }
}

/** Refusals by the queue. Other errors are faults of the store: the schedule stays due. */
const RECORDED: ReadonlySet<ErrorCode> = new Set(["QUEUE_FULL", "PAYLOAD_TOO_LARGE", "INVALID"]);

/** The queue refused the task. No caller gets this error, so it is stored with the schedule. */
async function recordError(
  context: Context,
  name: string,
  value: string,
  { before, after, now }: { before: ScheduleState; after: ScheduleState; now: number },
  { code, message }: { code: ErrorCode; message: string },
): Promise<void> {
  const isSame = before.error?.code === code && before.error.message === message;
  const error = isSame ? before.error : { at: now, code, message };
  if (code === "QUEUE_FULL") {
    await replace(context, name, value, { ...before, error }, { dueAt: now + RETRY_MS });
  } else {
    // A retry would not help now. By the next firing an operator may have raised the limit.
    await replace(context, name, value, { ...after, fired: before.fired ?? 0, lastAt: before.lastAt, error });
  }
}
