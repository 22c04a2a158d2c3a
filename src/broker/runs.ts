import { invalid } from "../core/errors/errors.ts";
import { LIMITS } from "../core/input/limits.ts";
import { checkNumber } from "../core/input/options.ts";
import type { DeclareOutcome } from "../core/queue/policy.ts";
import type { GuardedChange } from "../core/port.ts";
import type { Paged, PageQuery, PipelineRecord, RunPage, RunsPage, RunsQuery } from "../core/answer/page.ts";
import { checkQueueName } from "../core/queue/queue-name.ts";
import { show } from "../core/errors/show.ts";
import { checkStages, RUN_STATES, type RunState, type Stage } from "../core/run/run.ts";
import { checkPage, checkTaskId } from "./check.ts";
import type { Context } from "./context.ts";
import { findDocument, listDocuments } from "./documents.ts";

/** The document kind of a pipeline's definition. */
const KIND = "pipeline";

export async function definePipeline(
  context: Context,
  name: string,
  stages: Stage[],
  { mayChange = () => true, onOutcome }: GuardedChange<Stage[] | null> = {},
): Promise<Stage[] | null> {
  checkStages(name, stages);
  const value = JSON.stringify(
    stages.map(({ name: stage, joins, after, cost }) => ({ name: stage, joins, after, cost })),
  );
  for (;;) {
    const found = await findDocument(context, KIND, name);
    const expect = found?.value ?? null;
    const before = expect === null ? null : (JSON.parse(expect) as Stage[]);
    const outcome = expect === value ? "unchanged" : mayChange(before) ? changeOf(before) : "refused";
    if (outcome === "unchanged" || outcome === "refused") {
      onOutcome?.(outcome);
      return before;
    }
    const put = await context.run({ verb: "put", kind: KIND, name, value, expect });
    // Another process has changed the definition meanwhile: read it again.
    if (put.before !== expect) continue;
    onOutcome?.(outcome);
    return before;
  }
}

const changeOf = (before: unknown): DeclareOutcome => (before === null ? "created" : "changed");

export async function pipelines(
  context: Context,
  query: PageQuery & { name?: string | undefined } = {},
): Promise<Paged<PipelineRecord>> {
  const page = checkPage(query, "pipelines", "name");
  const { name } = query;
  const only = name === undefined ? page : { ...page, name: checkQueueName(name) };
  return listDocuments(context, KIND, only, (document) => ({
    name: document.name,
    stages: JSON.parse(document.value) as Stage[],
  }));
}

export async function run(
  context: Context,
  id: string,
  { after, limit = LIMITS.page }: { after?: number | undefined; limit?: number | undefined } = {},
): Promise<RunPage> {
  checkTaskId(id);
  checkNumber(limit, "limit", 1, LIMITS.page);
  if (after !== undefined) checkNumber(after, "after", 0, Number.MAX_SAFE_INTEGER);
  return context.run({ verb: "run", id, limit, ...(after !== undefined && { after }) });
}

export async function runs(
  context: Context,
  { pipeline, state, after, limit = LIMITS.page }: RunsQuery,
): Promise<RunsPage> {
  checkQueueName(pipeline);
  checkNumber(limit, "limit", 1, LIMITS.page);
  if (after !== undefined) checkNumber(after, "after", 0, Number.MAX_SAFE_INTEGER);
  if (state !== undefined && !RUN_STATES.includes(state))
    throw invalid(`state must be one of ${RUN_STATES.join(", ")}; got ${show(state)}.`);
  return context.run({
    ...{ verb: "runs", pipeline, limit },
    ...(state !== undefined && { state }),
    ...(after !== undefined && { after }),
  });
}

export async function cancelRun(context: Context, id: string): Promise<RunState> {
  return (await context.run({ verb: "cancelRun", id: checkTaskId(id) })).state;
}
