/**
 * Every failure that a caller can get has a stable code. A code names the consequence, that is, what the caller can do
 * next. It does not name the component that failed.
 */
export const ERROR_CODES = [
  "INVALID",
  "PAYLOAD_TOO_LARGE",
  "QUEUE_FULL",
  "CLAIM_LOST",
  "TASK_NOT_FOUND",
  "WRONG_STATE",
  "TASK_DEAD",
  "TASK_CANCELLED",
  "TASK_EXPIRED",
  "TIMEOUT",
  "UNAVAILABLE",
  "OUTCOME_UNKNOWN",
  "UNSUPPORTED",
  "FORBIDDEN",
  "CLOSED",
] as const;

export type ErrorCode = (typeof ERROR_CODES)[number];

/** The same call may succeed later, unchanged. After OUTCOME_UNKNOWN, retry only with an idempotencyKey. */
const RETRYABLE: ReadonlySet<ErrorCode> = new Set([
  "QUEUE_FULL",
  "TIMEOUT",
  "UNAVAILABLE",
  "OUTCOME_UNKNOWN",
]);

export class DibsError extends Error {
  readonly code: ErrorCode;
  readonly retryable: boolean;

  constructor(code: ErrorCode, message: string, options?: { cause?: unknown; retryable?: boolean }) {
    super(message, options && "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.retryable = options?.retryable ?? RETRYABLE.has(code);
  }

  override get name(): string {
    return "DibsError";
  }
}

/** The claim was settled or lost: its lease ended, or the task was taken away. Nothing was changed. */
export class ClaimLostError extends DibsError {
  constructor(message: string) {
    super("CLAIM_LOST", message);
  }

  override get name(): string {
    return "ClaimLostError";
  }
}

export function invalid(message: string): DibsError {
  return new DibsError("INVALID", message);
}

export function claimLost(taskId: string, fence: number): ClaimLostError {
  return new ClaimLostError(
    `The claim on task ${taskId} (fence ${fence}) no longer holds: it was settled, or its lease ended. ` +
      `Nothing was changed. Stop working on it; if it still has to be done, another claim has it.`,
  );
}

/** SQLite has one writer at a time, so it cannot join another transaction. */
export function noTx(): DibsError {
  return new DibsError("UNSUPPORTED", "tx: this store cannot join your transaction; only PostgreSQL can.");
}

/** An Error as plain data, for threads and the wire. `instanceof` does not survive either; the code does. */
export interface ErrorData {
  code: ErrorCode;
  message: string;
  retryable?: boolean;
}

export function errorFrom(data: ErrorData): DibsError {
  if (data.code === "CLAIM_LOST") return new ClaimLostError(data.message);
  return new DibsError(
    data.code,
    data.message,
    data.retryable === undefined ? {} : { retryable: data.retryable },
  );
}

export function isDibsError(error: unknown): error is DibsError {
  return error instanceof Error && ERROR_CODES.includes((error as { code?: ErrorCode }).code as ErrorCode);
}
