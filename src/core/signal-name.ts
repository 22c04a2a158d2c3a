import { LIMITS } from "./limits.ts";
import { isChildrenSignal } from "./children-signal.ts";
import { invalid } from "./errors.ts";
import { checkText } from "./options.ts";
import { show } from "./show.ts";

/** Checks a signal's name. A handler that waits for a signal, a caller that sends one, and the broker call it. */
export function checkSignalName(name: unknown): void {
  const text = checkText(name, "A signal's name", LIMITS.stepName);
  if (isChildrenSignal(text))
    throw invalid(
      `Signals that begin with "children:" belong to task.waitForChildren(); got ${show(name)}. Use another name.`,
    );
}
