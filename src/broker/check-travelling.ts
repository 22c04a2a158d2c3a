import { invalid } from "../core/errors.ts";
import { LIMITS } from "../core/limits.ts";
import { checkNumber, checkObject, checkText } from "../core/options.ts";
import { checkQueueName } from "../core/queue-name.ts";
import { show } from "../core/show.ts";
import {
  type AttemptOutcome,
  END_STATES,
  PENDING_STATES,
  type TravellingAttempt,
  type TravellingResult,
  type TravellingTask,
} from "../core/task.ts";
import { checkAdditions, checkBody, checkHeaders, checkStepValue, checkTaskId, clipError } from "./check.ts";

const STATES: ReadonlySet<unknown> = new Set([
  ...PENDING_STATES.filter((state) => state !== "claimed"),
  ...END_STATES,
]);
const OUTCOMES: Readonly<Record<AttemptOutcome, true>> = {
  done: true,
  failed: true,
  refused: true,
  rejected: true,
  lost: true,
  timeout: true,
  released: true,
  limited: true,
  cancelled: true,
  parked: true,
};
const KINDS: ReadonlySet<unknown> = new Set(["step", "signal", "lapsed"]);

/** Of the shape of tasks on their way: what is none would fail in the engine, with all that shares its commit. */
export function checkTravelling(tasks: TravellingTask[]): void {
  if (!Array.isArray(tasks)) throw invalid(`arrive takes an array of tasks; got ${show(tasks)}.`);
  for (const task of tasks) {
    checkObject(task, "A task");
    checkTaskId(task.origin);
    checkQueueName(task.queue);
    if (!STATES.has(task.state)) throw invalid(`A task arrives in no state ${show(task.state)}.`);
    checkBody(task.data, "A payload");
    if (task.result !== null) checkBody(task.result, "A result");
    checkHeaders(task.headers);
    checkNumber(task.priority, "priority", -LIMITS.priority, LIMITS.priority);
    for (const name of ["holdsGroup", "holdsKey", "cancelRequested"] as const)
      if (typeof task[name] !== "boolean")
        throw invalid(`${name} is true or false; got ${show(task[name])}.`);
    checkTexts(task);
    checkTimes(task);
    checkFlow(task);
    if (!Array.isArray(task.ledger)) throw invalid(`A ledger is an array; got ${show(task.ledger)}.`);
    task.ledger.forEach(checkAttempt);
    if (task.state === "dead" && task.ledger.length === 0)
      throw invalid("A dead letter has a ledger that says why.");
  }
}

function checkTexts({ contentType, groupKey, idempotencyKey, holdsGroup, holdsKey }: TravellingTask): void {
  if (typeof contentType !== "string") throw invalid(`contentType is a text; got ${show(contentType)}.`);
  for (const [name, value] of Object.entries({ groupKey, idempotencyKey }))
    if (value !== null && typeof value !== "string")
      throw invalid(`${name} is a text or null; got ${show(value)}.`);
  if (holdsGroup && groupKey === null) throw invalid("What holds a group has a groupKey.");
  if (holdsKey && idempotencyKey === null) throw invalid("What holds a key has an idempotencyKey.");
}

/** What it did so far, and what it waits for. */
function checkFlow({ state, waitsFor, feedback, steps, pending }: TravellingTask): void {
  for (const [name, value] of Object.entries({ waitsFor, feedback }))
    if (value !== null && typeof value !== "string")
      throw invalid(`${name} is a text or null; got ${show(value)}.`);
  if ((state === "parked") !== (waitsFor !== null))
    throw invalid("What is parked, and nothing else, waits for a signal.");
  if ((state === "verifying") !== (pending !== null))
    throw invalid("What is verifying, and nothing else, has a pending result.");
  if (pending !== null) checkPending(pending);
  if (!Array.isArray(steps)) throw invalid(`steps is an array; got ${show(steps)}.`);
  for (const step of steps) {
    checkObject(step, "A step");
    if (!KINDS.has(step.kind)) throw invalid(`A step is of no kind ${show(step.kind)}.`);
    checkText(step.name, "A step's name", LIMITS.stepName);
    checkStepValue(step.value, "What a step returned");
  }
}

function checkPending({ worker, startedAgo, result, adds }: TravellingResult): void {
  if (typeof worker !== "string") throw invalid(`worker is a text; got ${show(worker)}.`);
  checkDistance(startedAgo, "startedAgo");
  if (result !== null) checkBody(result, "A result");
  if (!Array.isArray(adds)) throw invalid(`adds is an array; got ${show(adds)}.`);
  if (adds.length > 0) checkAdditions(adds);
}

function checkTimes(task: TravellingTask): void {
  for (const name of ["failures", "age"] as const) checkDistance(task[name], name);
  for (const name of ["maxAttempts", "cost", "keyFor", "dueIn", "expiresIn", "endedAgo"] as const)
    if (task[name] !== null) checkDistance(task[name], name);
  const hasEnded = (END_STATES as readonly string[]).includes(task.state);
  if (hasEnded !== (task.endedAgo !== null))
    throw invalid("What has ended, and nothing else, has an endedAgo.");
}

/** Two stores' clocks differ: it may lie on the other side of now. */
function checkDistance(value: unknown, name: string): void {
  checkNumber(value, name, -Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
}

function checkAttempt(row: TravellingAttempt): void {
  checkObject(row, "An attempt");
  for (const name of ["attempt", "startedAgo", "endedAgo"] as const) checkDistance(row[name], name);
  if (typeof row.worker !== "string") throw invalid(`worker is a text; got ${show(row.worker)}.`);
  if (!Object.hasOwn(OUTCOMES, row.outcome)) throw invalid(`An attempt has no outcome ${show(row.outcome)}.`);
  if (row.error === null) return;
  clipError(row.error);
  if (typeof row.error.fingerprint !== "string")
    throw invalid(`A fingerprint is a text; got ${show(row.error.fingerprint)}.`);
}
