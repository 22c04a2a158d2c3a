import { HTTPException } from "hono/http-exception";
import { type ErrorCode, isDibsError } from "../../core/errors.ts";

/** The statuses of HTTP, by the library's codes: the one place where they meet. */
const STATUS: Record<ErrorCode, number> = {
  INVALID: 400,
  PAYLOAD_TOO_LARGE: 413,
  QUEUE_FULL: 429,
  CLAIM_LOST: 409,
  TASK_NOT_FOUND: 404,
  TASK_DEAD: 410,
  TASK_CANCELLED: 410,
  TASK_EXPIRED: 410,
  TIMEOUT: 408,
  UNAVAILABLE: 503,
  OUTCOME_UNKNOWN: 500,
  UNSUPPORTED: 501,
  FORBIDDEN: 403,
  CLOSED: 503,
};

/** RFC 9457: what a failure looks like to whoever speaks HTTP. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: ErrorCode;
  retryable: boolean;
}

/** Nothing is there: of HTTP alone, so that the library has no code for it. */
export class NotFound extends Error {
  constructor(method: string | undefined, path: string) {
    super(`There is nothing at ${method} ${path.slice(0, 200)}.`);
  }
}

export function problemOf(error: unknown): Problem {
  if (error instanceof NotFound) {
    const detail = error.message;
    return {
      type: "about:blank",
      title: "Not Found",
      status: 404,
      detail,
      code: "INVALID",
      retryable: false,
    };
  }
  if (isDibsError(error)) {
    const { code, message, retryable } = error;
    return { type: "about:blank", title: code, status: STATUS[code], detail: message, code, retryable };
  }
  // What hono finds wrong before any of our checks: no JSON, or another type than JSON.
  if (error instanceof HTTPException && error.status < 500) {
    const detail = `${error.message}. A body is JSON, sent with content-type: application/json.`;
    const { status } = error;
    return { type: "about:blank", title: "INVALID", status, detail, code: "INVALID", retryable: false };
  }
  return {
    type: "about:blank",
    title: "UNAVAILABLE",
    status: 500,
    detail: "Something went wrong in the server; its log says what.",
    code: "UNAVAILABLE",
    retryable: false,
  };
}
