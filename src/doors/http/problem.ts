import { STATUS_CODES } from "node:http";
import { HTTPException } from "hono/http-exception";
import { DibsError, type ErrorCode, isDibsError } from "../../core/errors.ts";
import { errorForClients } from "../../core/store-fault.ts";

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
  // Not 408: clients and proxies repeat a request by themselves that was answered with it.
  TIMEOUT: 409,
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

/** Of HTTP alone, so that the library has no code for it. */
export class HttpRefusal extends Error {
  readonly status: number;

  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export class NotFound extends HttpRefusal {
  constructor(method: string | undefined, path: string) {
    super(404, `There is nothing at ${method} ${path.slice(0, 200)}.`);
  }
}

/** Nobody knows who asks, for which HTTP has a status of its own; to the library it is a FORBIDDEN like others. */
export class UnknownToken extends DibsError {
  constructor(message: string) {
    super("FORBIDDEN", message);
  }
}

/** What a problem's answer says in its head. */
export function headersOf({ status, retryable }: Problem): Record<string, string> {
  return {
    "content-type": "application/problem+json",
    "cache-control": "no-store",
    ...(status === 401 && { "www-authenticate": "Bearer" }),
    // Which of them may be sent again, many a client knows by this alone.
    ...(retryable && (status === 429 || status === 503) && { "retry-after": "1" }),
  };
}

export function problemOf(error: unknown): Problem {
  if (error instanceof HttpRefusal) {
    const { status, message: detail } = error;
    const title = STATUS_CODES[status] ?? "Refused";
    return { type: "about:blank", title, status, detail, code: "INVALID", retryable: false };
  }
  if (isDibsError(error)) {
    const { code, message } = errorForClients(error);
    const status = error instanceof UnknownToken ? 401 : STATUS[code];
    return { type: "about:blank", title: code, status, detail: message, code, retryable: error.retryable };
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
