import { z } from "@hono/zod-openapi";
import { LIMITS } from "../../core/input/limits.ts";
import type { Port } from "../../core/port.ts";
import { type App, define } from "./define.ts";
import { NoSuchQueue } from "./problem.ts";
import { requireQueue } from "./require-queue.ts";
import {
  count,
  deadFilter,
  duration,
  inQueue,
  next,
  pageQuery,
  pattern,
  policy,
  stats,
  wholeNumber,
  worker,
} from "./schemas.ts";

/** Queues, and operations on whole queues. */
export function queues(app: App): void {
  const queue = z
    .object({
      ...{ name: z.string(), policy, paused: z.boolean(), createdAt: z.number() },
    })
    .openapi("Queue");
  define(
    app,
    {
      method: "get",
      answers: "page",
      path: "/v1/queues",
      summary: "Queues by name, page by page",
      query: pageQuery,
      answer: z.object({ queues: z.array(queue), next }),
    },
    async ({ port, query }) => {
      const page = await port.queues(query);
      return { queues: page.items, next: page.next };
    },
  );
  define(
    app,
    {
      method: "get",
      path: "/v1/queues/{queue}",
      summary: "A queue's statistics",
      params: inQueue,
      answer: stats,
    },
    async ({ port, params }) => {
      const answer = await port.stats(params["queue"]!);
      if (!answer.exists) throw new NoSuchQueue(params["queue"]!);
      return answer;
    },
  );
  define(
    app,
    {
      ...{ method: "put", path: "/v1/queues/{queue}", summary: "Create a queue, or change its policy" },
      ...{ params: inQueue, body: policy, answer: policy },
    },
    ({ port, params, body }) => port.declare(params["queue"]!, body, { force: true }),
  );
  define(
    app,
    {
      method: "delete",
      path: "/v1/queues/{queue}",
      summary: "Remove a queue with all its tasks",
      params: inQueue,
    },
    ({ port, params }) => port.drop(params["queue"]!),
  );
  const whole: [string, string, (port: Port, queue: string) => Promise<unknown>][] = [
    ["pause", "Hand out no more tasks", (port, name) => port.pause(name, true)],
    ["resume", "Hand out tasks again", (port, name) => port.pause(name, false)],
  ];
  for (const [verb, summary, run] of whole) {
    define(
      app,
      { method: "post", path: `/v1/queues/{queue}/${verb}`, summary, params: inQueue },
      ({ port, params }) => run(port, params["queue"]!),
    );
  }
  define(
    app,
    {
      ...{ method: "post", path: "/v1/queues/{queue}/unhold" },
      summary: "End the hold of a group, or of the queue itself",
      ...{ params: inQueue, answer: z.object({ lifted: z.boolean() }) },
      body: z.strictObject({ groupKey: z.string().optional() }),
    },
    async ({ port, params, body }) => {
      const { groupKey } = body as { groupKey?: string };
      const lifted = await port.unhold(params["queue"]!, groupKey);
      if (!lifted) await requireQueue(port, params["queue"]!);
      return { lifted };
    },
  );
  define(
    app,
    {
      ...{
        method: "post",
        path: "/v1/queues/{queue}/purge",
        summary: "Remove all tasks that are not claimed and have not ended",
      },
      ...{ params: inQueue, answer: count },
    },
    ({ port, params }) => counted(port, params["queue"]!, port.purge(params["queue"]!)),
  );
  deadLetters(app);
  define(
    app,
    {
      ...{
        method: "get",
        answers: "page",
        path: "/v1/workers",
        summary: "Workers with heartbeats, page by page",
      },
      query: pageQuery.extend({ queue: z.string().optional() }),
      answer: z.object({ workers: z.array(worker), next }),
    },
    async ({ port, query }) => {
      const page = await port.workers(query);
      return { workers: page.items, next: page.next };
    },
  );
}

async function counted(port: Port, queue: string, answer: Promise<number>): Promise<{ count: number }> {
  const found = await answer;
  if (found === 0) await requireQueue(port, queue);
  return { count: found };
}

function deadLetters(app: App): void {
  define(
    app,
    {
      ...{
        method: "get",
        answers: "page",
        path: "/v1/queues/{queue}/dead/patterns",
        summary: "The errors of the dead letters, by pattern",
      },
      params: inQueue,
      query: z.object({
        by: z.string().default("fingerprint"),
        limit: wholeNumber(1, LIMITS.page).default(20),
      }),
      answer: z.object({ patterns: z.array(pattern) }),
    },
    async ({ port, params, query }) => {
      const patterns = await port.patterns(params["queue"]!, query["by"]!, query["limit"]!);
      if (patterns.length === 0) await requireQueue(port, params["queue"]!);
      return { patterns };
    },
  );
  define(
    app,
    {
      ...{
        method: "post",
        path: "/v1/queues/{queue}/dead/redrive",
        summary: "Make dead letters ready again",
      },
      ...{ params: inQueue, answer: count },
      body: deadFilter.extend({ spacing: duration.default(0), fresh: z.boolean().default(false) }),
    },
    async ({ port, params, body }) => {
      const { spacing, fresh, ...filter } = body as { spacing: number; fresh: boolean };
      const queue: string = params["queue"]!;
      return counted(port, queue, port.redrive(queue, filter, spacing, { fresh }));
    },
  );
  define(
    app,
    {
      ...{ method: "post", path: "/v1/queues/{queue}/dead/discard", summary: "Remove dead letters" },
      ...{ params: inQueue, answer: count, body: deadFilter },
    },
    ({ port, params, body }) => counted(port, params["queue"]!, port.discard(params["queue"]!, body)),
  );
}
