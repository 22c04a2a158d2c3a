import { HTTPException } from "hono/http-exception";
import { DibsError, type ErrorCode, isDibsError } from "../../core/errors/errors.ts";
import { show } from "../../core/errors/show.ts";
import { errorForClients } from "../../core/errors/store-fault.ts";
import { STATUS_CODES } from "./node-http.ts";

/** The HTTP status of each error code. This is the only place that maps them. */
const STATUS: Record<ErrorCode, number> = {
  INVALID: 400,
  PAYLOAD_TOO_LARGE: 413,
  QUEUE_FULL: 429,
  CLAIM_LOST: 409,
  TASK_NOT_FOUND: 404,
  WRONG_STATE: 409,
  TASK_DEAD: 410,
  TASK_CANCELLED: 410,
  TASK_EXPIRED: 410,
  // Not 408, because clients and proxies retry such requests by themselves.
  TIMEOUT: 409,
  UNAVAILABLE: 503,
  OUTCOME_UNKNOWN: 500,
  UNSUPPORTED: 501,
  FORBIDDEN: 403,
  CLOSED: 503,
};

/** A failure over HTTP, by RFC 9457. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: ErrorCode;
  retryable: boolean;
}

/** An HTTP-only refusal, for which the library has no code. */
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

export class NoSuchQueue extends HttpRefusal {
  constructor(queue: string) {
    super(
      404,
      `There is no queue ${show(queue)}. GET /v1/queues lists the queues; adding a task creates one.`,
    );
  }
}

/** The token is unknown, for which HTTP has its own status (401). For the library it is FORBIDDEN. */
export class UnknownToken extends DibsError {
  constructor(message: string) {
    super("FORBIDDEN", message);
  }
}

/** The headers of a problem's answer. */
export function headersOf({ status, retryable }: Problem): Record<string, string> {
  return {
    "content-type": "application/problem+json",
    "cache-control": "no-store",
    ...(status === 401 && { "www-authenticate": "Bearer" }),
    // Many clients recognise a retryable answer by this header only.
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
  // What hono refuses before our checks: not JSON, or another content type.
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
