import { createRoute, type OpenAPIHono, z } from "@hono/zod-openapi";
import { type AnswerKind, type Room, ROOM_FOR } from "../../core/answer/answer-budget.ts";
import { ERROR_CODES, invalid } from "../../core/errors/errors.ts";
import type { Port } from "../../core/port.ts";
import type { Desk } from "../../dashboard/desk.ts";

/** The context of a request. Its port is restricted to what the client may do. */
export interface Env {
  Bindings: {
    port: Port;
    /** The dashboard for this caller. A function: most requests do not need it. */
    desk: () => Pick<Desk, keyof Desk>;
    /** The owner of the request's token. Other owners may not use what this one created. */
    caller: string;
    /** Aborted when the server stops, from when on it gives no more tasks to clients. */
    draining: AbortSignal;
    /** Aborted when the server closes: waiting requests are answered. */
    closing: AbortSignal;
    /** Reserves room for an answer, until it has been read or its client is gone. */
    reserve: (bytes: number, signal: () => AbortSignal) => Promise<Room>;
  };
  Variables: {
    /** Called when the request has passed the checks, before the port call. */
    isChecked: boolean;
  };
}

export type App = OpenAPIHono<Env>;

export interface Given {
  params: Record<string, never>;
  query: Record<string, never>;
  body: never;
  header: (name: string) => string | undefined;
  port: Port;
  desk: Env["Bindings"]["desk"];
  caller: string;
  /** Aborted when the server closes. */
  closing: AbortSignal;
  /** The client is gone, or the server stops. */
  signal: AbortSignal;
}

export interface Operation {
  method: "get" | "post" | "put" | "delete";
  path: string;
  summary: string;
  params?: z.ZodObject;
  query?: z.ZodObject;
  body?: z.ZodType;
  /** The answer; none unless set. */
  answer?: z.ZodType;
  status?: 200 | 201;
  /** Answered with 202 if the wait ended first. */
  pending?: z.ZodType;
  /** The operation claims tasks, so it is refused while the server stops. */
  claims?: boolean;
  /** The request may be repeated with the same Idempotency-Key. */
  keyed?: boolean;
  /** Its answer may be large: memory for it is reserved before the call starts. */
  answers?: AnswerKind;
}

/** What a handler returns if there is no answer yet. Sent with 202, which no client retries by itself. */
export class Pending {
  readonly value: object;

  constructor(value: object) {
    this.value = value;
  }
}

const keys = z.object({
  "idempotency-key": z
    .string()
    .optional()
    .openapi({ description: "repeating the request with the same key adds nothing twice" }),
});

export const problem = z
  .object({
    ...{ type: z.string(), title: z.string(), status: z.number().int(), detail: z.string() },
    ...{ code: z.enum(ERROR_CODES), retryable: z.boolean() },
  })
  .openapi("Problem");

export const PROBLEM_RESPONSE: { description: string; content: Record<string, { schema: z.ZodType }> } = {
  description: "What went wrong (RFC 9457), with the library's code",
  content: { "application/problem+json": { schema: problem } },
};

/** One operation of the interface: its path and shapes, checked and described, and the port call behind it. */
export function define(app: App, operation: Operation, execute: (given: Given) => Promise<unknown>): void {
  const { method, path, summary, params, query, body, answer, status = 200, pending } = operation;
  const { claims = false, keyed = false, answers } = operation;
  // Refuse unknown names as in a body: the client meant them to have an effect.
  const known: { query?: z.ZodObject } = { query: (query ?? z.object({})).strict() };
  const route = createRoute({
    ...{ method, path, summary },
    operationId: operationIdOf(method, path),
    tags: [path.split("/")[2]!],
    security: [{ token: [] }, {}],
    request: {
      ...(params && { params }),
      ...known,
      ...(keyed && { headers: keys }),
      ...(body && {
        body: {
          required: !body.safeParse(undefined).success,
          content: { "application/json": { schema: body } },
        },
      }),
    },
    responses: {
      [answer ? status : 204]: {
        description: summary,
        ...(answer && { content: { "application/json": { schema: answer } } }),
      },
      ...(pending && {
        202: {
          description: "Not yet, within the given time: ask again",
          content: { "application/json": { schema: pending } },
        },
      }),
      default: PROBLEM_RESPONSE,
    },
  });
  app.openapi(
    route,
    async (context: {
      req: {
        valid(part: string): never;
        header: Given["header"];
        raw: Request;
      };
      env: Env["Bindings"];
      set(name: "isChecked", value: boolean): void;
      body(value: string | null, status: number, headers?: Record<string, string>): Response;
    }) => {
      const { req, env } = context;
      context.set("isChecked", true);
      const stops = claims ? env.draining : env.closing;
      stops.throwIfAborted();
      // Created on first use: it costs more than the rest of a small request.
      const signal = (): AbortSignal => AbortSignal.any([req.raw.signal, stops]);
      const room = answers && (await env.reserve(ROOM_FOR[answers], signal));
      const value = await execute({
        params: params ? req.valid("param") : {},
        query: query ? req.valid("query") : {},
        body: body ? req.valid("json") : (undefined as never),
        header: (name) => req.header(name),
        port: env.port,
        ...{ desk: env.desk, caller: env.caller, closing: env.closing },
        get signal() {
          return signal();
        },
      });
      if (!answer) return context.body(null, 204);
      const isPending = value instanceof Pending;
      const text = JSON.stringify(isPending ? value.value : value);
      room?.resize(text.length);
      return context.body(text, isPending ? 202 : status, { "content-type": "application/json" });
    },
  );
}

/**
 * Whether only the headers are asked for. hono calls the handler of GET and drops its body, so a stream would never be
 * read nor cancelled: the handler of a stream must not open one.
 */
export function isHead({ req }: { req: { raw: Request } }): boolean {
  return req.raw.method === "HEAD";
}

/** The first problem that zod found, as INVALID. */
export function refuseInvalid(result: { success: boolean; error?: z.ZodError }): void {
  if (result.success || !result.error) return;
  const [issue] = result.error.issues;
  const place = issue!.path.join(".");
  // For a missing field zod says "expected string, received undefined".
  const what = issue!.message.endsWith("received undefined") ? "is missing" : issue!.message;
  throw invalid(`${place === "" ? "The request" : place}: ${what}. See /openapi.json for what is accepted.`);
}

function operationIdOf(method: string, path: string): string {
  const words = path
    .split("/")
    .slice(2)
    .map((word) => word.replaceAll(/[{}]/g, ""));
  return [method, ...words]
    .map((word, at) => (at === 0 ? word : word[0]!.toUpperCase() + word.slice(1)))
    .join("");
}
