import { OpenAPIHono } from "@hono/zod-openapi";
import { HTTPException } from "hono/http-exception";
import type { EventPage } from "../../core/event/event-page.ts";
import { typeOf } from "../../core/event/event-text.ts";
import { DibsError, invalid } from "../../core/errors/errors.ts";
import { show } from "../../core/errors/show.ts";
import { isStoreFault } from "../../core/errors/store-fault.ts";
import { children } from "./children.ts";
import { claims } from "./claims.ts";
import { dashboard } from "./dashboard.ts";
import { type App, type Env, isHead, PROBLEM_RESPONSE, refuseInvalid } from "./define.ts";
import { describePage } from "./page.ts";
import { headersOf, NotFound, type Problem, problemOf } from "./problem.ts";
import { streamParts } from "./part-stream.ts";
import { pipelines } from "./pipelines.ts";
import { queues } from "./queues.ts";
import { pools } from "./pools.ts";
import { schedules } from "./schedules.ts";
import { sessions } from "./sessions.ts";
import { settlements } from "./settlements.ts";
import { tasks } from "./tasks.ts";
import { WorkerSessions } from "./worker-sessions.ts";

export interface HttpDoor {
  fetch(request: Request, env: Env["Bindings"]): Promise<Response> | Response;
}

export interface DoorOptions {
  /** Most bytes of a request. */
  maxBody: number;
  /**
   * The server cuts off a client that reads nothing for this many milliseconds. A stream of events gets two keep-alive
   * comments in that time.
   */
  readMs: number;
  onFailure: (error: unknown) => void;
}

/** HTTP and JSON, for any language: a path for each verb of the port, and a description generated from the checks. */
export function createHttpDoor(options: DoorOptions): HttpDoor {
  const app: App = new OpenAPIHono<Env>({ defaultHook: refuseInvalid as never });
  app.use(async (context, next) => {
    checkLength(context.req.raw.headers, options.maxBody);
    await next();
  });
  app.onError((error, context) => {
    // Only a body can contain such objects.
    const isInCheck = context.req.method !== "GET" && !context.get("isChecked");
    const problem = problemOf(isInCheck ? refusalOf(error) : error);
    if (problem.status === 500 || isStoreFault(error)) options.onFailure(error);
    return respondProblem(problem);
  });
  app.notFound((context) => respondProblem(problemOf(new NotFound(context.req.method, context.req.path))));
  queues(app);
  tasks(app);
  const workers = new WorkerSessions();
  claims(app);
  children(app);
  settlements(app, workers);
  sessions(app, workers);
  pipelines(app);
  schedules(app);
  pools(app);
  dashboard(app, options);
  events(app, options);
  describe(app);
  return app;
}

/** Checked before a byte is read: a body without a length could be endless. */
function checkLength(headers: Headers, most: number): void {
  if (headers.has("transfer-encoding"))
    throw new HTTPException(411, { message: "A body must have a content-length" });
  const length = Number(headers.get("content-length") ?? 0);
  if (length > most) {
    throw new DibsError(
      "PAYLOAD_TOO_LARGE",
      `A request has at most ${most} bytes; this one has ${length}. Send it in smaller parts.`,
    );
  }
}

/**
 * The error of a check. zod compares the `length` of a value that should be a text or an array. For an object with a
 * strange `length` that throws a TypeError.
 */
function refusalOf(error: unknown): unknown {
  return error instanceof TypeError
    ? invalid("The request does not have the right shape. See /openapi.json for what is accepted.")
    : error;
}

export function respondProblem(problem: Problem): Response {
  return Response.json(problem, { status: problem.status, headers: headersOf(problem) });
}

/** Events from now on, as server-sent events. A slow reader gets a gap. */
function events(app: App, { readMs, onFailure }: DoorOptions): void {
  app.openAPIRegistry.registerPath({
    ...{ method: "get", path: "/v1/events", summary: "Events from now on, as server-sent events" },
    ...{ operationId: "getEvents", tags: ["events"], security: [{ token: [] }, {}] },
    responses: {
      200: {
        description: "one event after another",
        content: { "text/event-stream": { schema: { type: "string" } } },
      },
      default: PROBLEM_RESPONSE,
    },
  });
  app.get("/v1/events", (context) => {
    const [unknown] = Object.keys(context.req.query());
    if (unknown !== undefined)
      throw invalid(
        `${show(unknown)}: these events are those of the whole store. There are no query parameters.`,
      );
    if (isHead(context)) return context.body(null, 200, { "content-type": "text/event-stream" });
    const stop = new AbortController();
    const pages = context.env.port.events(AbortSignal.any([stop.signal, context.env.closing]));
    const body = streamParts(sentParts(pages), {
      ...{ onEnd: () => stop.abort(), onFailure },
      // Many proxies cut a stream that is silent for a minute, and a client that is gone is noticed only by writing.
      beat: { text: ":\n\n", everyMs: readMs / 2 },
    });
    return context.body(body, 200, {
      ...{ "content-type": "text/event-stream", "cache-control": "no-cache", connection: "keep-alive" },
      // Send the headers now. Otherwise they would wait for the first part.
      "transfer-encoding": "chunked",
    });
  });
}

async function* sentParts(pages: AsyncIterable<EventPage>): AsyncGenerator<string | Uint8Array, void, void> {
  // Send a comment at once, so that the client knows that it is listening.
  yield ": listening\n\n";
  for await (const page of pages) yield page.derive(sentEvents, sentEvents);
}

/** The events of a page as server-sent events. */
function sentEvents({ texts }: EventPage): Uint8Array {
  return Buffer.from(texts.map((text) => `event: ${typeOf(text)}\ndata: ${text}\n\n`).join(""));
}

function describe(app: App): void {
  app.openAPIRegistry.registerComponent("securitySchemes", "token", { type: "http", scheme: "bearer" });
  // Generated on first use, and once: it takes longer than any call.
  let made: ReturnType<typeof make> | undefined;
  const document = () => (made ??= make());
  const make = () =>
    app.getOpenAPI31Document({
      openapi: "3.1.0",
      info: {
        title: "dibs",
        version: "1",
        description:
          "First to call it gets it: a work queue. Failures are problem documents (RFC 9457) with a code.",
      },
    });
  app.get("/openapi.json", (context) => context.json(document()));
  app.get("/docs", (context) => context.html(describePage(document() as never)));
}
