import { z } from "@hono/zod-openapi";
import type { BulkAction } from "../../dashboard/contract.ts";
import { FLOW_SERIES, HISTORY_SERIES } from "../../dashboard/contract.ts";
import { invalid } from "../../core/errors/errors.ts";
import { type App, define, isHead, PROBLEM_RESPONSE } from "./define.ts";
import { streamParts } from "./part-stream.ts";
import { NotFound } from "./problem.ts";
import { inQueue, next, pageQuery, pattern, policy, state, task, wholeNumber } from "./schemas.ts";
import { shownTask } from "./tasks.ts";

// The paths that the dashboard's page reads. Each calls the caller's desk (`dashboard/desk.ts`).

const DAY_MS = 86_400_000;
const ACTIONS = ["redrive", "discard", "cancel", "retry"] as const satisfies BulkAction[];

const me = z
  .object({
    signIn: z.boolean().openapi({ description: "the server asks for a token, and the request had none" }),
    name: z.string().nullable(),
    scopes: z.array(z.string()),
    ...{ version: z.string(), store: z.string().nullable(), engine: z.string().nullable() },
    ...{ startedAt: z.number(), now: z.number(), demo: z.boolean() },
  })
  .openapi("Me");

const values = z.array(z.number().nullable());
const history = z
  .object({
    ...{ queue: z.string(), from: z.number(), step: z.number() },
    series: z.object(Object.fromEntries(HISTORY_SERIES.map((name) => [name, values]))),
  })
  .openapi("History");

const flowHistory = z
  .object({
    ...{ from: z.number(), step: z.number() },
    series: z.object(Object.fromEntries(FLOW_SERIES.map((name) => [name, values]))),
  })
  .openapi("FlowHistory");

const preview = z
  .object({
    ...{ before: policy, after: policy },
    changes: z.array(
      z.object({ field: z.string(), from: z.any(), to: z.any(), effect: z.string() }).openapi("PolicyChange"),
    ),
  })
  .openapi("PolicyPreview");

const found = z
  .object({
    ...{ tasks: z.array(task), next },
    searched: z.object({
      ...{ text: z.string(), looked: z.number(), of: z.number(), states: z.array(state) },
      ...{ queues: z.number(), shortened: z.number() },
      until: z.object({ queue: z.string(), state }).nullable(),
    }),
  })
  .openapi("SearchPage");

const dead = z
  .object({
    total: z.number(),
    groups: z.array(pattern.extend({ queue: z.string() })),
    queues: z.array(z.object({ queue: z.string(), dead: z.number() })),
  })
  .openapi("DeadOverview");

const newJob = z
  .strictObject({
    action: z.enum(ACTIONS),
    queue: z.string().optional(),
    ids: z.array(z.string()).max(10_000).optional(),
    ...{ pattern: z.string().optional(), error: z.string().optional() },
    q: z.string().optional().openapi({ description: "everything that a search with this text finds" }),
    rate: z.number().optional().openapi({ description: "at most so many tasks per second" }),
  })
  .openapi("NewBulkJob");

const job = z
  .object({
    ...{ id: z.string(), action: z.enum(ACTIONS), queue: z.string().nullable(), text: z.string() },
    ...{ by: z.string(), state: z.enum(["running", "stopped", "finished", "failed"]) },
    ...{ total: z.number().nullable(), done: z.number(), skipped: z.number() },
    ...{ startedAt: z.number(), endedAt: z.number().nullable(), error: z.string().nullable() },
  })
  .openapi("BulkJob");

const entry = z.looseObject({ at: z.number(), by: z.string(), verb: z.string() }).openapi("AuditEntry");

const when = { queue: z.string(), when: z.string() };
const alertStates = z
  .object({
    running: z.boolean(),
    rules: z.array(z.object({ ...when, above: z.number(), clear: z.number(), for: z.number() })),
    states: z.array(z.object({ ...when, raised: z.boolean(), since: z.number().nullable() })),
  })
  .openapi("AlertStates");

const span = z.object({ min: z.number(), max: z.number() });
const demo = z
  .object({
    ...{ running: z.boolean(), rate: z.number(), workers: z.number(), queue: z.string() },
    limits: z.object({ rate: span, workers: span }),
  })
  .openapi("Demo");

/** What the dashboard's page reads and does beyond the other paths. */
export function dashboard(app: App, options: { readMs: number; onFailure: (error: unknown) => void }): void {
  define(
    app,
    { method: "get", path: "/v1/me", summary: "Who the caller is, and what it may do", answer: me },
    async ({ desk }) => desk().me(),
  );
  queues(app);
  lists(app);
  jobs(app);
  demonstration(app);
  live(app, options);
}

function queues(app: App): void {
  define(
    app,
    {
      ...{
        method: "get",
        answers: "row",
        path: "/v1/queues/{queue}/history",
        params: inQueue,
        answer: history,
      },
      summary: "A queue's figures over time, up to a week; the last hour unless set",
      query: z.object({
        from: wholeNumber(0).optional().openapi({ description: "milliseconds since 1970" }),
        to: wholeNumber(0).optional(),
        points: wholeNumber(1, 1_000).default(120),
      }),
    },
    async ({ desk, port, params, query }) => {
      const given = query as unknown as { from?: number; to?: number; points: number };
      const to = given.to ?? Math.floor(port.clock.read().wall);
      const from = given.from ?? to - 3_600_000;
      if (from >= to || to - from > 31 * DAY_MS)
        throw invalid(`from must be before to, and at most 31 days; got ${from} and ${to}.`);
      return desk().history(params["queue"]!, { from, to, points: given.points });
    },
  );
  define(
    app,
    {
      ...{
        method: "post",
        path: "/v1/queues/{queue}/preview",
        params: inQueue,
        body: policy,
        answer: preview,
      },
      summary: "What a change of a queue's policy would do; changes nothing",
    },
    ({ desk, params, body }) => desk().preview(params["queue"]!, body),
  );
}

function lists(app: App): void {
  define(
    app,
    {
      ...{ method: "get", path: "/v1/history", answer: flowHistory },
      summary: "The last quarter of an hour of all queues together",
    },
    async ({ desk }) => desk().flow(),
  );
  define(
    app,
    {
      ...{ method: "get", answers: "page", path: "/v1/search", answer: found },
      summary: "Search tasks by state, id, key, error, header, worker, age and payload",
      query: pageQuery.extend({
        q: z.string().default("").openapi({ example: "state:dead error:timeout older:1h ada@example.com" }),
        queue: z.string().optional(),
      }),
    },
    async ({ desk, query }) => {
      const page = await desk().search(query as unknown as { q: string; limit: number });
      return { ...page, tasks: page.tasks.map(shownTask) };
    },
  );
  define(
    app,
    {
      ...{ method: "get", answers: "page", path: "/v1/dead", answer: dead },
      summary: "The dead letters of all queues, by pattern",
      query: z.object({ by: z.string().default("fingerprint") }),
    },
    ({ desk, query }) => desk().dead(query["by"]!),
  );
  define(
    app,
    {
      ...{ method: "get", path: "/v1/alerts/states", answer: alertStates },
      summary: "The rules of the alerts, and which are raised",
    },
    ({ desk }) => desk().alerts(),
  );
  define(
    app,
    {
      ...{ method: "get", path: "/v1/audit", summary: "Who did what through this server, the newest first" },
      query: pageQuery.extend({ after: wholeNumber(1).optional() }),
      answer: z.object({ entries: z.array(entry), next }),
    },
    async ({ desk, query }) => desk().audit(query["limit"]!, query["after"]),
  );
}

function jobs(app: App): void {
  const ofJob = z.object({ id: z.string() });
  const existing = <Job>(found: Job | undefined, id: string): Job => {
    if (found === undefined) throw new NotFound("GET", `/v1/jobs/${id}`);
    return found;
  };
  define(
    app,
    {
      ...{ method: "get", path: "/v1/jobs", summary: "Bulk jobs of this server, the newest first" },
      answer: z.object({ jobs: z.array(job) }),
    },
    async ({ desk }) => ({ jobs: desk().jobs() }),
  );
  define(
    app,
    {
      ...{ method: "post", path: "/v1/jobs", body: newJob, answer: job, status: 201 },
      summary: "Change everything that matches, in the background",
    },
    ({ desk, body }) => desk().startJob(body),
  );
  define(
    app,
    { method: "get", path: "/v1/jobs/{id}", summary: "A bulk job", params: ofJob, answer: job },
    async ({ desk, params }) => existing(desk().job(params["id"]!), params["id"]!),
  );
  define(
    app,
    {
      ...{ method: "post", path: "/v1/jobs/{id}/stop", params: ofJob, answer: job },
      summary: "Stop a bulk job; what it has done stays done",
    },
    async ({ desk, params }) => existing(await desk().stopJob(params["id"]!), params["id"]!),
  );
}

function demonstration(app: App): void {
  define(
    app,
    { method: "get", path: "/v1/demo", summary: "The demo's traffic on this server", answer: demo },
    async ({ desk }) => desk().demo(),
  );
  define(
    app,
    {
      ...{ method: "post", path: "/v1/demo", answer: demo },
      summary: "Start, change or stop the demo's traffic",
      body: z.strictObject({
        running: z.boolean().optional(),
        rate: z.number().optional(),
        workers: z.number().optional(),
      }),
    },
    ({ desk, body }) => desk().changeDemo(body),
  );
}

/** The live feed: lines of JSON, in a stream that fetch() can read with a token in its header. */
function live(app: App, { onFailure }: { onFailure: (error: unknown) => void }): void {
  app.openAPIRegistry.registerPath({
    ...{ method: "get", path: "/v1/live", summary: "The dashboard's live feed, as lines of JSON" },
    ...{ operationId: "getLive", tags: ["live"], security: [{ token: [] }, {}] },
    request: {
      query: z.object({ queues: z.enum(["true", "false"]).optional(), queue: z.string().optional() }),
    },
    responses: {
      200: {
        description: "one frame per line; see docs/guides/dashboard.md",
        content: { "application/x-ndjson": { schema: { type: "string" } } },
      },
      default: PROBLEM_RESPONSE,
    },
  });
  app.get("/v1/live", (context) => {
    const { queue, queues: rows = "false", ...others } = context.req.query();
    const [unknown] = Object.keys(others);
    if (unknown !== undefined || !["true", "false"].includes(rows))
      throw invalid(`The live feed takes queues=true and queue=NAME; got ${unknown ?? `queues=${rows}`}.`);
    context.header("content-type", "application/x-ndjson; charset=utf-8");
    context.header("cache-control", "no-store");
    // Proxies such as nginx would collect the lines.
    context.header("x-accel-buffering", "no");
    if (isHead(context)) return context.body(null);
    const stop = new AbortController();
    const signal = AbortSignal.any([stop.signal, context.env.closing]);
    const writes = context.env.desk().live({ queues: rows === "true", queue }, signal);
    return context.body(streamParts(writes, { onEnd: () => stop.abort(), onFailure }));
  });
}
