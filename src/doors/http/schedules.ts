import { z } from "@hono/zod-openapi";
import type { Port } from "../../core/port.ts";
import {
  MISSED,
  type Missed,
  type ScheduleDefinition,
  type ScheduleRecord,
} from "../../core/time/schedule.ts";
import { fromBody, toBody } from "./bodies.ts";
import { type App, define } from "./define.ts";
import { NotFound } from "./problem.ts";
import { addedTask, anyJson, duration, json, newTask, next, pageQuery } from "./schemas.ts";

const ofSchedule = z.object({ name: z.string().openapi({ example: "nightly" }) });

const scheduledTask = newTask
  .omit({ idempotencyKey: true, unique: true })
  .extend({ queue: z.string(), data: anyJson.optional() })
  .openapi("ScheduledTask");

/** The task as answers show it: data that is not JSON is text or base64. */
const shownTask = scheduledTask
  .extend({ data: json, encoding: z.literal("base64").optional() })
  .openapi("ShownScheduledTask");

const definition = z
  .strictObject({
    cron: z.string().optional().openapi({ example: "0 3 * * *" }),
    tz: z.string().optional().openapi({ example: "Europe/London", description: "default UTC" }),
    every: duration.optional(),
    missed: z.enum(MISSED).default("once"),
    until: z
      .union([z.string(), z.number()])
      .optional()
      .openapi({ example: "2026-12-31T23:59:59Z", description: "no firing after this time" }),
    limit: z.number().int().optional().openapi({ description: "ends after this many tasks" }),
    jitter: duration.optional(),
    task: scheduledTask,
  })
  .openapi("ScheduleDefinition");

const record = z
  .object({
    name: z.string(),
    cron: z.string().nullable(),
    tz: z.string().nullable(),
    every: z.number().nullable(),
    missed: z.enum(MISSED),
    until: z.number().nullable(),
    limit: z.number().nullable(),
    jitter: z.number().nullable(),
    task: shownTask,
    paused: z.boolean(),
    ended: z.boolean(),
    fired: z.number(),
    next: z.array(z.number()).openapi({ description: "the next firing times, in milliseconds since 1970" }),
    lastAt: z.number().nullable(),
    createdAt: z.number(),
    error: z.object({ at: z.number(), code: z.string(), message: z.string() }).nullable(),
  })
  .openapi("Schedule");

/** Schedules. A definition put here counts as an operator's change, which a restart of a program does not undo. */
export function schedules(app: App): void {
  define(
    app,
    {
      ...{
        method: "get",
        answers: "page",
        path: "/v1/schedules",
        summary: "Schedules by name, with their next times, page by page",
      },
      query: pageQuery,
      answer: z.object({ schedules: z.array(record), next }),
    },
    async ({ port, query }) => {
      const page = await port.schedules(query);
      return { schedules: page.items.map(shown), next: page.next };
    },
  );
  define(
    app,
    {
      ...{ method: "get", answers: "page", path: "/v1/schedules/{name}", summary: "A schedule" },
      ...{ params: ofSchedule, answer: record },
    },
    async ({ port, params }) => {
      const [found] = (await port.schedules({ name: params["name"]! })).items;
      if (!found) throw new NotFound("GET", `/v1/schedules/${String(params["name"])}`);
      return shown(found);
    },
  );
  define(
    app,
    {
      ...{ method: "put", path: "/v1/schedules/{name}", summary: "Create or change a schedule" },
      ...{ params: ofSchedule, body: definition, answer: record },
    },
    async ({ port, params, body }) => {
      const { task, ...timing } = body as Given;
      const given = { ...timing, task: { ...task, data: toBody(task.data) } } as ScheduleDefinition;
      return shown(await port.schedule(params["name"]!, given, { force: true }));
    },
  );
  define(
    app,
    {
      ...{ method: "delete", path: "/v1/schedules/{name}", params: ofSchedule },
      summary: "Remove a schedule; tasks that it has added stay",
    },
    ({ port, params }) => port.unschedule(params["name"]!),
  );
  fire(app);
  const verbs: [string, string, (port: Port, name: string) => Promise<void>][] = [
    ["pause", "Pause a schedule", (port, name) => port.pauseSchedule(name, true)],
    ["resume", "Resume a schedule, from now on", (port, name) => port.pauseSchedule(name, false)],
  ];
  for (const [verb, summary, run] of verbs) {
    define(
      app,
      { method: "post", path: `/v1/schedules/{name}/${verb}`, summary, params: ofSchedule },
      ({ port, params }) => run(port, params["name"]!),
    );
  }
}

/** Answers with the task that was added. */
function fire(app: App): void {
  define(
    app,
    {
      ...{ method: "post", path: "/v1/schedules/{name}/fire", params: ofSchedule, status: 201 },
      ...{ summary: "Add the schedule's task now; its plan stays", answer: addedTask },
    },
    ({ port, params }) => port.fireSchedule(params["name"]!),
  );
}

interface Given {
  missed: Missed;
  task: { data?: unknown };
}

function shown({ task, ...rest }: ScheduleRecord): object {
  const { data, contentType = "application/json", ...options } = task;
  return { ...rest, task: { ...options, ...fromBody(data, contentType) } };
}
