import { LIMITS } from "./limits.ts";
import { checkText } from "./options.ts";

/** Checks a signal's name. A handler that waits for a signal, a caller that sends one, and the broker call it. */
export function checkSignalName(name: unknown): void {
  checkText(name, "A signal's name", LIMITS.stepName);
}
