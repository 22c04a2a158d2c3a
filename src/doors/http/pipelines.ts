import { z } from "@hono/zod-openapi";
import { invalid } from "../../core/errors/errors.ts";
import { LIMITS } from "../../core/input/limits.ts";
import type { Port } from "../../core/port.ts";
import { RUN_STATES, type RunStart, type Stage, stageQueue } from "../../core/run/run.ts";
import { withFirstCost } from "../../core/run/stage-cost.ts";
import { type App, define } from "./define.ts";
import {
  anyJson,
  duration,
  ending,
  newStage,
  newTask,
  next,
  pageQuery,
  runPage,
  runsPage,
  runState,
  stage,
  wholeNumber,
} from "./schemas.ts";
import { endOf, payloadOf, signalValue } from "./tasks.ts";

const inPipeline = z.object({ pipeline: z.string().openapi({ example: "report" }) });
const ofRun = z.object({ id: z.string() });
const page = z.object({ after: wholeNumber(0).optional(), limit: wholeNumber(1, LIMITS.page).optional() });

/** Pipelines and their runs. Workers of a stage claim from `{pipeline}/{stage}`; an ack adds the next stage. */
export function pipelines(app: App): void {
  const stages = z.object({ stages: z.array(newStage) });
  define(
    app,
    {
      ...{
        method: "get",
        answers: "page",
        path: "/v1/pipelines",
        summary: "Defined pipelines by name, page by page",
      },
      query: pageQuery,
      answer: z.object({ pipelines: z.array(z.object({ name: z.string(), stages: z.array(stage) })), next }),
    },
    async ({ port, query }) => {
      const page = await port.pipelines(query);
      return { pipelines: page.items, next: page.next };
    },
  );
  define(
    app,
    {
      ...{ method: "put", path: "/v1/pipelines/{pipeline}", summary: "Define a pipeline's stages" },
      ...{ params: inPipeline, body: stages },
    },
    ({ port, params, body }) =>
      port.definePipeline(params["pipeline"]!, (body as { stages: Stage[] }).stages),
  );
  define(
    app,
    {
      ...{ method: "post", path: "/v1/pipelines/{pipeline}/runs", summary: "Begin a run" },
      ...{ params: inPipeline, body: newTask, status: 201, keyed: true },
      answer: z.object({ id: z.string(), existing: z.boolean() }).openapi("AddedRun"),
    },
    async ({ port, params, body, header }) => {
      const run = await definedBy(port, params["pipeline"]!);
      const queue = stageQueue(run.pipeline, run.stages[0]!.name);
      const [added] = await port.add([withFirstCost({ queue, ...payloadOf(body, header), run })]);
      return { id: added!.id, existing: added!.existing };
    },
  );
  define(
    app,
    {
      ...{ method: "get", answers: "page", path: "/v1/pipelines/{pipeline}/runs" },
      ...{
        summary: "Runs of a pipeline, or those in one state, the latest first",
        params: inPipeline,
        query: page.extend({ state: z.enum(RUN_STATES).optional() }),
        answer: runsPage,
      },
    },
    ({ port, params, query }) => port.runs({ pipeline: params["pipeline"]!, ...query }),
  );
  runs(app);
}

function runs(app: App): void {
  define(
    app,
    {
      ...{ method: "get", answers: "page", path: "/v1/runs/{id}", summary: "How far a run is, task by task" },
      ...{ params: ofRun, answer: runPage },
      query: page,
    },
    ({ port, params, query }) => port.run(params["id"]!, query),
  );
  define(
    app,
    {
      ...{
        method: "get",
        answers: "later",
        path: "/v1/runs/{id}/result",
        summary: "Wait for a run's end, and its result",
      },
      ...{ params: ofRun, query: z.object({ timeout: duration.default(0) }), answer: ending },
      pending: z.object({ id: z.string(), state: z.literal("running") }).openapi("PendingRun"),
    },
    ({ port, params, query, signal }) =>
      endOf(port, params["id"]!, { timeout: query["timeout"]!, signal, of: "runs" }),
  );
  define(
    app,
    {
      ...{
        method: "post",
        path: "/v1/runs/{id}/signals/{name}",
        summary: "Send a signal to the tasks of a run that wait for it, now or later",
      },
      ...{ params: z.object({ id: z.string(), name: z.string() }), answer: z.object({ kept: z.boolean() }) },
      body: z.strictObject({ data: anyJson.optional() }),
    },
    async ({ port, params, body }) => {
      const value = signalValue(body);
      return { kept: await port.signal(params["id"]!, params["name"]!, value, { of: "runs" }) };
    },
  );
  define(
    app,
    {
      ...{
        method: "post",
        path: "/v1/runs/{id}/cancel",
        summary: "Cancel all tasks of a run that have not ended",
      },
      ...{ params: ofRun, answer: z.object({ state: runState }) },
    },
    async ({ port, params }) => ({ state: await port.cancelRun(params["id"]!) }),
  );
}

async function definedBy(port: Port, pipeline: string): Promise<RunStart> {
  const [known] = (await port.pipelines({ name: pipeline })).items;
  if (known) return { pipeline, stages: known.stages };
  throw invalid(
    `Pipeline "${pipeline}" has no definition yet: PUT its stages, or start a process that works on it.`,
  );
}
