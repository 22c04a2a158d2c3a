import type { TaskChange } from "../core/task/change.ts";
import { LONGEST_MS } from "../core/time/duration.ts";
import { invalid } from "../core/errors/errors.ts";
import { LIMITS } from "../core/input/limits.ts";
import { checkBoolean, checkNames, checkNumber, checkObject, checkText } from "../core/input/options.ts";
import type { ChangeOutcome } from "../core/port.ts";
import { show } from "../core/errors/show.ts";
import { checkBody } from "../core/task/additions.ts";
import { checkTaskId } from "./check.ts";
import type { Context } from "./context.ts";

/** Changes a task that is not claimed, or runs an ended task again. */
export async function change(context: Context, id: string, wanted: TaskChange): Promise<ChangeOutcome> {
  const op = { verb: "change", id: checkTaskId(id), change: checkWanted(wanted) } as const;
  if (wanted.kind === "update" && wanted.delay) context.housekeeper.expect(wanted.delay);
  return context.run(op);
}

function checkWanted(change: TaskChange): TaskChange {
  checkObject(change, "A change");
  switch (change.kind) {
    case "promote":
      checkNames(change, ["kind"], "change");
      return change;
    case "again":
      checkNames(change, ["kind", "fresh"], "change");
      if (change.fresh !== undefined) checkBoolean(change.fresh, "fresh");
      return change;
    case "update":
      checkUpdate(change);
      return change;
    default:
      throw invalid(
        `The kind of a change is "update", "promote" or "again"; got ${show((change as { kind: unknown }).kind)}.`,
      );
  }
}

function checkUpdate(change: TaskChange & { kind: "update" }): void {
  checkNames(change, ["kind", "priority", "delay", "data", "contentType"], "change");
  const { priority, delay, data, contentType } = change;
  if (priority === undefined && delay === undefined && data === undefined)
    throw invalid("Nothing to change: give priority, delay or data.");
  if (priority !== undefined) checkNumber(priority, "priority", -LIMITS.priority, LIMITS.priority);
  if (delay !== undefined) checkNumber(delay, "delay", 0, LONGEST_MS);
  if (data !== undefined) checkBody(data, "A payload");
  if (contentType === undefined) return;
  checkText(contentType, "contentType", 256);
  if (data === undefined) throw invalid("contentType describes data: give both.");
}
