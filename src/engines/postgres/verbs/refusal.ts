import type { DibsError } from "../../../core/errors/errors.ts";
import type { Outcome } from "../../../engine/engine.ts";

/** The refusal of one operation. The other operations of its batch are executed. */
export function refusal({ code, message, retryable }: DibsError): Outcome {
  return { refused: { code, message, retryable } };
}
