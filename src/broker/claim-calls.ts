import { LONGEST_MS } from "../core/time/duration.ts";
import { invalid } from "../core/errors/errors.ts";
import { LIMITS } from "../core/input/limits.ts";
import { checkNumber, checkText } from "../core/input/options.ts";
import type { ClaimStatus } from "../core/task/claim-call.ts";
import { show } from "../core/errors/show.ts";
import type { Body, ClaimRef } from "../core/task/task.ts";
import { checkClaim, checkStepValue } from "./check.ts";
import type { Context } from "./context.ts";

/** The verbs of a holder before it settles its claim: extend, progress and step. */

export async function extend(context: Context, claim: ClaimRef, lease: number): Promise<ClaimStatus> {
  const held = checkClaim(claim);
  checkNumber(lease, "lease", 1, LONGEST_MS);
  context.housekeeper.expect(lease);
  return context.run({ verb: "extend", ...held, lease });
}

export async function progress(
  context: Context,
  claim: ClaimRef,
  value: number | null,
  note: string | null,
  log?: string,
): Promise<ClaimStatus> {
  const held = checkClaim(claim);
  if (value === null && log === undefined) throw invalid("progress takes a value, a line to log, or both.");
  if (value !== null && (typeof value !== "number" || !(value >= 0 && value <= 1))) {
    throw invalid(`progress is a number from 0 to 1; got ${show(value)}.`);
  }
  if (note !== null && (typeof note !== "string" || note.length > LIMITS.progressNote)) {
    throw invalid(
      `The progress note must be a text of at most ${LIMITS.progressNote} characters; got ${show(note)}.`,
    );
  }
  if (log !== undefined && typeof log !== "string")
    throw invalid(`A line of the log is a text; got ${show(log)}.`);
  const line = log === undefined ? {} : { log: log.slice(0, LIMITS.logLine) };
  return context.run({ verb: "progress", ...held, value, note, ...line });
}

export async function step(
  context: Context,
  claim: ClaimRef,
  name: string,
  value: Body | null,
): Promise<void> {
  const held = checkClaim(claim);
  checkText(name, "A step's name", LIMITS.stepName);
  checkStepValue(value, "A step's result");
  await context.run({ verb: "step", ...held, name, value });
}
