import type * as OpenTelemetry from "@opentelemetry/api";
import type { Context, Span } from "@opentelemetry/api";
import { LIMITS } from "../core/input/limits.ts";
import { requireHere } from "../core/process/own-files.ts";
import type { Port } from "../core/port.ts";
import type { AddedTask, Headers } from "../core/task/task.ts";

/** Spans for OpenTelemetry: open() wraps its port, and workers wrap their handlers. The server uses tracePort too. */

/** Where `@opentelemetry/api` registers its providers, whichever copy of it a program has. */
const REGISTERED = Symbol.for("opentelemetry.js.api.1");

let loaded: typeof OpenTelemetry | null | undefined;

/**
 * The OpenTelemetry API, if a tracer is registered. Otherwise it is not even loaded, and a call costs one read of a
 * global. It is an optional peer dependency.
 */
function api(): typeof OpenTelemetry | undefined {
  const registered = (globalThis as Record<symbol, { trace?: unknown } | undefined>)[REGISTERED];
  if (registered?.trace === undefined) return undefined;
  if (loaded === undefined) {
    try {
      loaded = requireHere()("@opentelemetry/api") as typeof OpenTelemetry;
    } catch {
      loaded = null;
    }
  }
  return loaded ?? undefined;
}

/** Semantic conventions for messaging, 1.45. */
function attributesOf(operation: "send" | "process", destination: string) {
  return {
    "messaging.system.name": "dibs",
    "messaging.operation.name": operation,
    "messaging.operation.type": operation,
    "messaging.destination.name": destination,
  };
}

interface Carrying {
  headers?: Headers;
}

/**
 * The port with a span for every add and publish. The span's context is stored in the tasks' headers (`traceparent`),
 * for the process that handles them. If the headers already contain a context, as they do at a server, the span becomes
 * its child.
 */
export function tracePort(port: Port, kind: "PRODUCER" | "SERVER" = "PRODUCER"): Port {
  return {
    ...port,
    add: (tasks, options) => {
      const otel = api();
      // The port refuses values of the wrong shape.
      if (!otel || !Array.isArray(tasks) || tasks.length === 0) return port.add(tasks, options);
      return send(otel, kind, String(tasks[0]?.queue), tasks, (given) => port.add(given, options));
    },
    publish: (message, options) => {
      const otel = api();
      if (!otel) return port.publish(message, options);
      return send(otel, kind, message?.topic, [message], ([given]) => port.publish(given!, options));
    },
  };
}

async function send<Given extends Carrying>(
  otel: typeof OpenTelemetry,
  kind: "PRODUCER" | "SERVER",
  name: string,
  given: Given[],
  run: (given: Given[]) => Promise<AddedTask[]>,
): Promise<AddedTask[]> {
  const brought = given[0]?.headers?.["traceparent"] === undefined ? undefined : given[0].headers;
  const parent = brought ? extract(otel, brought) : otel.context.active();
  const span = otel.trace.getTracer("dibs").startSpan(
    `send ${name}`,
    {
      kind: otel.SpanKind[kind],
      attributes: {
        ...attributesOf("send", name),
        ...(given.length > 1 && { "messaging.batch.message_count": given.length }),
      },
    },
    parent,
  );
  try {
    const context = otel.trace.setSpan(parent, span);
    const added = await run(given.map((each) => carry(otel, each, context)));
    if (added.length === 1) span.setAttribute("messaging.message.id", added[0]!.id);
    return added;
  } catch (error) {
    fail(otel, span, error);
    throw error;
  } finally {
    span.end();
  }
}

/** Puts the context of the handler's span into a task or message that it adds with its ack. */
export function carryTrace<Given extends Carrying>(given: Given): Given {
  const otel = api();
  return otel ? carry(otel, given, otel.context.active()) : given;
}

interface Handled {
  id: string;
  queue: string;
  attempt: number;
  headers: Readonly<Headers>;
}

/**
 * The handler with a span per call. It links to the spans that added its tasks, and is a child of that span if it has
 * one task.
 */
export function traceHandler<Given extends Handled | Handled[], Answer>(
  handler: (given: Given) => Answer,
): (given: Given) => Answer {
  return (given) => {
    const otel = api();
    if (!otel) return handler(given);
    const tasks: Handled[] = Array.isArray(given) ? given : [given];
    const contexts = tasks.map(({ headers }) => extract(otel, headers));
    const [{ id, queue, attempt }] = tasks as [Handled];
    const parent = Array.isArray(given) ? otel.ROOT_CONTEXT : contexts[0]!;
    const span = otel.trace.getTracer("dibs").startSpan(
      `process ${queue}`,
      {
        kind: otel.SpanKind.CONSUMER,
        attributes: {
          ...attributesOf("process", queue),
          ...(Array.isArray(given)
            ? { "messaging.batch.message_count": given.length }
            : { "messaging.message.id": id, "dibs.attempt": attempt }),
        },
        links: linksTo(otel, contexts),
      },
      parent,
    );
    const context = otel.trace.setSpan(parent, span);
    return end(otel, span, () => otel.context.with(context, () => handler(given)));
  };
}

/** Ends the span when `run` ends. A synchronous handler stays synchronous. */
function end<Answer>(otel: typeof OpenTelemetry, span: Span, run: () => Answer): Answer {
  let answer: Answer;
  try {
    answer = run();
  } catch (error) {
    fail(otel, span, error);
    span.end();
    throw error;
  }
  const promised = answer as PromiseLike<unknown> | undefined;
  if (typeof promised?.then !== "function") {
    span.end();
    return answer;
  }
  return promised.then(
    (value) => {
      span.end();
      return value;
    },
    (error: unknown) => {
      fail(otel, span, error);
      span.end();
      throw error;
    },
  ) as Answer;
}

function extract(otel: typeof OpenTelemetry, headers: Readonly<Headers>): Context {
  return otel.propagation.extract(otel.ROOT_CONTEXT, headers);
}

/**
 * Unchanged if it already carries a context, or if the headers would become too long: a trace is no reason to refuse a
 * task.
 */
function carry<Given extends Carrying>(otel: typeof OpenTelemetry, given: Given, context: Context): Given {
  if (given?.headers?.["traceparent"] !== undefined) return given;
  const headers = { ...given?.headers };
  otel.propagation.inject(context, headers);
  const isNew = Object.keys(headers).length > Object.keys(given?.headers ?? {}).length;
  return isNew && JSON.stringify(headers).length <= LIMITS.headerBytes / 2 ? { ...given, headers } : given;
}

function linksTo(otel: typeof OpenTelemetry, contexts: Context[]): OpenTelemetry.Link[] {
  const spans = contexts.map((context) => otel.trace.getSpanContext(context));
  return spans.flatMap((context) => (context ? [{ context }] : []));
}

function fail(otel: typeof OpenTelemetry, span: Span, error: unknown): void {
  span.recordException(error instanceof Error ? error : String(error));
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
  const type = [code, name].find((each) => typeof each === "string") ?? "_OTHER";
  span.setAttribute("error.type", type);
  span.setStatus({ code: otel.SpanStatusCode.ERROR });
}
