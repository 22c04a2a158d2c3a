import { checkText } from "../core/options.ts";
import { LIMITS } from "../core/limits.ts";
import type { Body } from "../core/task.ts";
import { checkStepValue, checkTaskId } from "./check.ts";
import type { Context } from "./context.ts";

/** Stores a signal for a task that waits for it, now or later. Answers whether it was stored. */
export async function signal(
  context: Context,
  id: string,
  name: string,
  value: Body | null,
): Promise<boolean> {
  checkTaskId(id);
  checkText(name, "A signal's name", LIMITS.stepName);
  checkStepValue(value, "A signal's value");
  return (await context.run({ verb: "signal", id, name, value })).kept;
}
