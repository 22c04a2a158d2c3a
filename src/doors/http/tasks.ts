import { z } from "@hono/zod-openapi";
import { invalid } from "../../core/errors/errors.ts";
import type { ListQuery } from "../../core/answer/page.ts";
import { type Port, StillPending, type WaitOptions } from "../../core/port.ts";
import type { Body, Headers, NewTask, TaskRecord } from "../../core/task/task.ts";
import type { TaskMatch } from "../../core/task/task-match.ts";
import { subscriptionQueue } from "../../core/topic/topic.ts";
import type { Verified } from "../../core/handler/verification.ts";
import { fromBody, fromResult, toBody } from "./bodies.ts";
import { type App, define, type Given, Pending } from "./define.ts";
import { requireQueue } from "./require-queue.ts";
import {
  addedTask,
  anyJson,
  attempt,
  changed,
  duration,
  ending,
  inQueue,
  json,
  newTask,
  next,
  ofClaim,
  ofTask,
  pageQuery,
  pendingTask,
  settled,
  state,
  step,
  subscription,
  task,
  taskUpdate,
} from "./schemas.ts";

type Payload = Omit<NewTask, "queue" | "data"> & { data: unknown };

/** Tasks from add to end, and publishing, which adds to several queues. */
export function tasks(app: App): void {
  define(
    app,
    {
      ...{ method: "post", path: "/v1/queues/{queue}/tasks", summary: "Add a task" },
      ...{ params: inQueue, body: newTask, answer: addedTask, status: 201, keyed: true },
    },
    async ({ port, params, body, header }) => {
      const [added] = await port.add([{ queue: params["queue"]!, ...payloadOf(body, header) }]);
      return added;
    },
  );
  define(
    app,
    {
      ...{ method: "post", path: "/v1/queues/{queue}/batches", summary: "Add many tasks, all or none" },
      ...{ params: inQueue, status: 201, keyed: true },
      body: z.strictObject({ tasks: z.array(newTask).min(1).max(10_000) }),
      answer: z.object({ tasks: z.array(addedTask) }),
    },
    async ({ port, params, body, header }) => {
      const given = (body as { tasks: Payload[] }).tasks;
      const queue: string = params["queue"]!;
      const key = keyOf(header);
      // Each task gets its own key: that of the request, and its index.
      const keyAt = (at: number) => (key === undefined ? undefined : `${key}/${at}`);
      return {
        tasks: await port.add(given.map((each, at) => ({ queue, ...payloadOf(each, header, keyAt(at)) }))),
      };
    },
  );
  define(
    app,
    {
      ...{
        method: "get",
        answers: "page",
        path: "/v1/queues/{queue}/tasks",
        summary: "Tasks of one state, or those that match, page by page",
      },
      params: inQueue,
      query: pageQuery.extend({
        state: state.optional().openapi({ description: "needed unless something is searched for" }),
        idempotencyKey: z.string().optional(),
        uniqueKey: z.string().optional(),
        groupKey: z.string().optional(),
        header: z
          .string()
          .regex(/^[^=]+=/, "must be NAME=VALUE")
          .optional()
          .openapi({ example: "tenant=acme" }),
        payloads: z
          .enum(["preview", "full"])
          .default("preview")
          .openapi({ description: "full: no payload or result is truncated" }),
        pattern: z
          .string()
          .optional()
          .openapi({ description: "of dead letters: only those of this kind, as in dead/patterns" }),
      }),
      answer: z.object({
        ...{ tasks: z.array(task), next },
        searched: z
          .number()
          .optional()
          .openapi({ description: "how many tasks were compared for this page, at most 5,000" }),
      }),
    },
    async ({ port, params, query }) => {
      const queue: string = params["queue"]!;
      const { tasks: found, next: cursor, searched } = await port.list({ queue, ...listQueryOf(query) });
      if (found.length === 0) await requireQueue(port, queue);
      return { tasks: found.map(shownTask), next: cursor, ...(searched !== undefined && { searched }) };
    },
  );
  define(
    app,
    {
      method: "get",
      answers: "row",
      path: "/v1/tasks/{id}",
      summary: "A task",
      params: ofTask,
      answer: task,
    },
    async ({ port, params }) => shownTask(await port.task(params["id"]!)),
  );
  define(
    app,
    {
      ...{
        method: "get",
        answers: "page",
        path: "/v1/tasks/{id}/history",
        summary: "Every attempt at a task",
      },
      ...{ params: ofTask, answer: z.object({ attempts: z.array(attempt) }) },
    },
    async ({ port, params }) => ({ attempts: await port.history(params["id"]!) }),
  );
  define(
    app,
    {
      ...{
        method: "get",
        answers: "later",
        path: "/v1/tasks/{id}/result",
        summary: "Wait for a task's end, and its result",
      },
      ...{ params: ofTask, query: z.object({ timeout: duration.default(0) }), answer: ending },
      pending: pendingTask,
    },
    ({ port, params, query, signal }) => endOf(port, params["id"]!, { timeout: query["timeout"]!, signal }),
  );
  define(
    app,
    {
      method: "post",
      path: "/v1/tasks/{id}/cancel",
      summary: "Cancel a task",
      params: ofTask,
      answer: settled,
    },
    async ({ port, params }) => ({ state: await port.cancel(params["id"]!) }),
  );
  changes(app);
  flows(app);
  topics(app);
}

/** Changes of a task that is not claimed, and of an ended task. */
function changes(app: App): void {
  const changing = { method: "post", params: ofTask, answer: changed } as const;
  define(
    app,
    {
      ...{ ...changing, path: "/v1/tasks/{id}/update" },
      summary: "Change the priority, due time or data of a task that no worker has",
      body: taskUpdate,
    },
    ({ port, params, body }) => {
      const { data, ...rest } = body as { data?: unknown; priority?: number; delay?: number };
      return port.change(params["id"]!, {
        ...{ kind: "update", ...rest },
        ...(data !== undefined && { data: toBody(data) }),
      });
    },
  );
  define(
    app,
    { ...changing, path: "/v1/tasks/{id}/promote", summary: "Make a scheduled task ready now" },
    ({ port, params }) => port.change(params["id"]!, { kind: "promote" }),
  );
  define(
    app,
    {
      ...{ ...changing, path: "/v1/tasks/{id}/run-again" },
      summary: "Run a task again that has ended: the same id, at the end of the line",
      body: z.strictObject({ fresh: z.boolean().optional() }).optional(),
    },
    ({ port, params, body }) =>
      port.change(params["id"]!, { kind: "again", ...(body as { fresh?: boolean }) }),
  );
}

export function signalValue(body: unknown): Body | null {
  const { data } = body as { data?: unknown };
  return data === undefined ? null : toBody(data);
}

/** What a task waits for, and the steps of its attempts. */
function flows(app: App): void {
  define(
    app,
    {
      ...{
        method: "post",
        path: "/v1/tasks/{id}/signals/{name}",
        summary: "Send a signal to a task that waits for it, now or later",
      },
      ...{ params: z.object({ id: z.string(), name: z.string() }), answer: z.object({ kept: z.boolean() }) },
      body: z.strictObject({ data: anyJson.optional() }),
    },
    async ({ port, params, body }) => {
      return { kept: await port.signal(params["id"]!, params["name"]!, signalValue(body)) };
    },
  );
  define(
    app,
    {
      ...{
        method: "get",
        answers: "page",
        path: "/v1/tasks/{id}/steps",
        summary: "The steps of its attempts, and its signals",
      },
      ...{ params: ofTask, answer: z.object({ steps: z.array(step) }) },
    },
    async ({ port, params }) => {
      const steps = await port.steps(params["id"]!);
      return { steps: steps.map((each) => ({ ...each, value: fromResult(each.value) })) };
    },
  );
  define(
    app,
    {
      ...{
        method: "get",
        answers: "row",
        path: "/v1/verifying/{id}/{fence}",
        summary: "The task and the result that a verifier decides about; its claim's `data` names them",
      },
      ...{ params: ofClaim, answer: z.object({ task, result: json }) },
    },
    async ({ port, params }) => {
      const { id, fence } = params as unknown as Verified;
      const pending = await port.verifying({ id, fence });
      return { task: shownTask(pending.task), result: fromResult(pending.result) };
    },
  );
}

function topics(app: App): void {
  const place = z.object({ pattern: z.string(), group: z.string() });
  define(
    app,
    {
      ...{
        method: "post",
        path: "/v1/topics/{topic}/messages",
        summary: "Publish to every subscription that matches",
      },
      ...{ params: z.object({ topic: z.string() }), body: newTask, status: 201, keyed: true },
      answer: z.object({ tasks: z.array(addedTask) }),
    },
    async ({ port, params, body, header }) => ({
      tasks: await port.publish({ topic: params["topic"]!, ...payloadOf(body, header) }),
    }),
  );
  define(
    app,
    {
      ...{
        method: "get",
        answers: "page",
        path: "/v1/subscriptions",
        summary: "Subscriptions, of all topics or one, page by page",
      },
      query: pageQuery.extend({ topic: z.string().optional() }),
      answer: z.object({ subscriptions: z.array(subscription), next }),
    },
    async ({ port, query }) => {
      const page = await port.subscriptions(query);
      return { subscriptions: page.items, next: page.next };
    },
  );
  define(
    app,
    {
      ...{ method: "put", path: "/v1/subscriptions/{pattern}/{group}", params: place },
      summary: "Subscribe a group; its workers claim from the returned queue",
      answer: z.object({ queue: z.string() }),
    },
    async ({ port, params }) => {
      const [pattern, group]: [string, string] = [params["pattern"]!, params["group"]!];
      await port.subscribe(pattern, group, {});
      return { queue: subscriptionQueue(pattern, group) };
    },
  );
  define(
    app,
    {
      ...{ method: "delete", path: "/v1/subscriptions/{pattern}/{group}", params: place },
      summary: "Remove a group, and its queue with all its tasks",
    },
    ({ port, params }) => port.unsubscribe(params["pattern"]!, params["group"]!),
  );
}

type TasksQuery = Omit<ListQuery, "queue" | "match" | "filter"> &
  Omit<TaskMatch, "headers"> & { header?: string; pattern?: string };

function listQueryOf(query: unknown): Omit<ListQuery, "queue"> {
  const { idempotencyKey, uniqueKey, groupKey, header, pattern, ...rest } = query as TasksQuery;
  const match: TaskMatch = {
    ...(idempotencyKey !== undefined && { idempotencyKey }),
    ...(uniqueKey !== undefined && { uniqueKey }),
    ...(groupKey !== undefined && { groupKey }),
    ...(header !== undefined && { headers: headerOf(header) }),
  };
  const isSearch = Object.keys(match).length > 0;
  if (rest.state === undefined && !isSearch)
    throw invalid("Give a state, or what to search for: idempotencyKey, uniqueKey, groupKey or header.");
  return {
    ...rest,
    ...(isSearch && { match }),
    ...(pattern !== undefined && { filter: { pattern } }),
  };
}

function headerOf(text: string): Headers {
  const at = text.indexOf("=");
  return { [text.slice(0, at)]: text.slice(at + 1) };
}

/** How the task ended or, if it did not end in time, its current state. */
export async function endOf(port: Port, id: string, wait: WaitOptions): Promise<unknown> {
  try {
    const end = await port.end(id, { ...wait, tellState: true });
    return { ...end, result: fromResult(end.result) };
  } catch (error) {
    if (error instanceof StillPending) return new Pending({ id, state: error.state });
    throw error;
  }
}

export function payloadOf(
  body: unknown,
  header: Given["header"],
  keyInHeader = keyOf(header),
): Omit<NewTask, "queue"> {
  const { data, headers, ...options } = body as Payload;
  const key = options.idempotencyKey ?? keyInHeader;
  const traced = traceOf(header);
  return {
    ...{ ...options, data: toBody(data) },
    ...((traced || headers) && { headers: { ...traced, ...headers } }),
    ...(key !== undefined && { idempotencyKey: key }),
  };
}

/**
 * The key in the request's header, as the same text that it would be in a body. HTTP headers are bytes, which arrive as
 * one character each: most clients send UTF-8, browsers send Latin-1.
 */
function keyOf(header: Given["header"]): string | undefined {
  const given = header("idempotency-key");
  if (given === undefined) return undefined;
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Buffer.from(given, "latin1"));
  } catch {
    return given;
  }
}

/** A request that is part of a trace (W3C Trace Context) passes it on to its tasks. An invalid one is ignored. */
function traceOf(header: Given["header"]): Headers | undefined {
  const traceparent = header("traceparent");
  if (traceparent === undefined || !/^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/.test(traceparent))
    return undefined;
  const tracestate = header("tracestate");
  return { traceparent, ...(tracestate !== undefined && tracestate.length <= 512 && { tracestate }) };
}

/** A truncated text is returned as it is: a part of a JSON text is not JSON. */
export function shownTask({ data, contentType, result, ...rest }: TaskRecord): object {
  const { truncated } = rest;
  const type = truncated?.data === undefined ? contentType : "text/plain";
  const isWhole = truncated?.result === undefined || typeof result !== "string";
  return { ...rest, contentType, ...fromBody(data, type), result: isWhole ? fromResult(result) : result };
}
