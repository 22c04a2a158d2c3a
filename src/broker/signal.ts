import { invalid } from "../core/errors/errors.ts";
import { show } from "../core/errors/show.ts";
import { checkSignalName } from "../core/handler/signal-name.ts";
import type { Body } from "../core/task/task.ts";
import { checkStepValue, checkTaskId } from "./check.ts";
import type { Context } from "./context.ts";

/** Stores a signal for a task, or the tasks of a run, that wait for it now or later. Answers whether it was stored. */
export async function signal(
  context: Context,
  id: string,
  name: string,
  value: Body | null,
  { of }: { of?: "runs" | undefined } = {},
): Promise<boolean> {
  checkTaskId(id);
  checkSignalName(name);
  checkStepValue(value, "A signal's value");
  if (of !== undefined && of !== "runs") throw invalid(`of is "runs" or absent; got ${show(of)}.`);
  return (await context.run({ verb: "signal", id, name, value, ...(of && { of }) })).kept;
}
