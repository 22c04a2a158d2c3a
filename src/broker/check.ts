import { checkBody } from "../core/task/additions.ts";
import { DibsError, invalid } from "../core/errors/errors.ts";
import { byteLength, isLarger, LIMITS } from "../core/input/limits.ts";
import { checkNames, checkNumber, checkObject, checkText } from "../core/input/options.ts";
import { LONGEST_MS } from "../core/time/duration.ts";
import { show } from "../core/errors/show.ts";
import { isTaskId } from "../core/task/task-id.ts";
import type { PageQuery } from "../core/answer/page.ts";
import type { PageRequest } from "../engine/engine.ts";
import type { Body, ClaimRef, DeadFilter, PatternKey, TaskError } from "../core/task/task.ts";

/**
 * Checks of the values that every door and the library pass, made once here before anything reaches an engine. Those of
 * new tasks are in core/task/additions.ts.
 */

export function checkStepValue(value: Body | null, what: string): void {
  if (value === null) return;
  checkBody(value, what);
  if (isLarger(value, LIMITS.stepBytes)) {
    throw new DibsError(
      "PAYLOAD_TOO_LARGE",
      `${what} has ${byteLength(value)} bytes; at most ${LIMITS.stepBytes} are stored. Store large data elsewhere and pass a reference.`,
    );
  }
}

/** Milliseconds between two tasks. It may be a fraction: the engine rounds each due time. */
export function checkSpacing(spacing: unknown): number {
  if (typeof spacing !== "number" || !(spacing >= 0 && spacing <= LONGEST_MS)) {
    throw invalid(`The spacing of redriven tasks must be from 0 to ${LONGEST_MS} ms; got ${show(spacing)}.`);
  }
  return spacing;
}

export function checkTaskId(id: unknown): string {
  if (typeof id !== "string" || !isTaskId(id)) {
    throw invalid(`A task id looks like "01980000-0000-7000-8000-000000000000"; got ${show(id)}.`);
  }
  return id;
}

/** Without this check a missing fence would match a task without a claim. */
export function checkClaim({ id, fence }: ClaimRef): ClaimRef {
  return { id: checkTaskId(id), fence: checkNumber(fence, "fence", 0, Number.MAX_SAFE_INTEGER) };
}

export function checkFilter(filter: DeadFilter): DeadFilter {
  checkObject(filter, "The filter");
  checkNames(filter, ["ids", "pattern", "error"], "filter");
  if (filter.ids !== undefined) {
    if (!Array.isArray(filter.ids))
      throw invalid(`ids must be an array of task ids; got ${show(filter.ids)}.`);
    filter.ids.forEach(checkTaskId);
  }
  if (filter.pattern !== undefined) checkText(filter.pattern, "pattern", 1_024);
  if (filter.error !== undefined) checkText(filter.error, "error", 1_024);
  return filter;
}

/** `filter`: the option that selects from the list. */
export function checkPage(query: PageQuery, what: string, ...filters: string[]): PageRequest {
  checkNames(query, [...filters, "after", "limit"], what);
  const { after, limit = LIMITS.page } = query;
  return {
    limit: checkNumber(limit, "limit", 1, LIMITS.page),
    ...(after !== undefined && { after: checkText(after, "after", 1_024) }),
  };
}

export function checkPatternKey(by: unknown): PatternKey {
  if (by === "fingerprint" || by === "worker") return by;
  if (typeof by === "string" && by.startsWith("header:") && by.length <= LIMITS.headerBytes)
    return by as PatternKey;
  throw invalid(`Patterns are by "fingerprint", "worker" or "header:" and a name; got ${show(by)}.`);
}

/** Errors can have any size, so what the ledger stores of them is cut. */
export function clipError(error: TaskError): TaskError {
  checkObject(error, "An error");
  const { stack } = error as { stack?: unknown };
  if (stack !== undefined && stack !== null && typeof stack !== "string")
    throw invalid(`An error's stack is a text, or null; got ${show(stack)}.`);
  if (typeof error.name !== "string" || typeof error.message !== "string") {
    throw invalid(
      `An error has a name and a message, both text; got ${show(error.name)} and ${show(error.message)}.`,
    );
  }
  return {
    name: error.name.slice(0, 256) || "Error",
    message: error.message.slice(0, LIMITS.errorMessage),
    stack: error.stack?.slice(0, LIMITS.errorStack) ?? null,
  };
}
