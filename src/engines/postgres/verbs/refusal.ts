import type { DibsError } from "../../../core/errors.ts";
import type { Outcome } from "../../../engine/engine.ts";

/** Of one operation: the others of its batch are carried out all the same. */
export function refusal({ code, message, retryable }: DibsError): Outcome {
  return { refused: { code, message, retryable } };
}
