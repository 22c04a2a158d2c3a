import { LIMITS } from "../input/limits.ts";
import { isChildrenSignal } from "./children-signal.ts";
import { invalid } from "../errors/errors.ts";
import { checkText } from "../input/options.ts";
import { show } from "../errors/show.ts";

/** Checks a signal's name. A handler that waits for a signal, a caller that sends one, and the broker call it. */
export function checkSignalName(name: unknown): void {
  const text = checkText(name, "A signal's name", LIMITS.stepName);
  if (isChildrenSignal(text))
    throw invalid(
      `Signals that begin with "children:" belong to task.waitForChildren(); got ${show(name)}. Use another name.`,
    );
}
