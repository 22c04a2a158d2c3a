import { DibsError } from "../../../core/errors.ts";

export function sessionGone(session: number): DibsError {
  return new DibsError(
    "CLAIM_LOST",
    `Session ${session} has ended: it gave no sign of life for a whole lease, and what it held went to others. Join again.`,
  );
}
