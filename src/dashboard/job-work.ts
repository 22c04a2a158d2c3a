import { isDibsError } from "../core/errors/errors.ts";
import { countOf } from "../core/answer/figures.ts";
import type { Port } from "../core/port.ts";
import { show } from "../core/errors/show.ts";
import { isEnd, PENDING_STATES, type TaskRecord } from "../core/task/task.ts";
import type { BulkAction, NewBulkJob } from "./contract.ts";
import { everyMatch } from "./search.ts";

/** Tasks that one batch changes. */
const BATCH = 200;

export interface Progress {
  done: number;
  skipped: number;
}

export interface JobScope {
  /** What was added, or died, after this time is not meant. */
  before: number;
  /** Whether the caller may change tasks of this queue. A search finds tasks in others too. */
  isAllowed: (queue: string) => boolean;
}

/** What a job does, for jobs.ts: a batch after the other. The caller may stop between two of them. */
export async function* changeMatches(port: Port, job: NewBulkJob, scope: JobScope): AsyncGenerator<Progress> {
  const most = job.rate === undefined ? BATCH : Math.max(1, Math.min(BATCH, Math.floor(job.rate / 2)));
  for await (const batch of batchesOf(matchesOf(port, job, scope), most))
    yield await change(port, job.action, batch);
}

/** Null: only a search can tell. */
export async function countMatches(port: Port, { action, queue, ids, pattern, error, q }: NewBulkJob) {
  if (ids) return ids.length;
  if (q !== undefined || error !== undefined) return null;
  const { depth } = await port.stats(queue!);
  if (action === "cancel") return PENDING_STATES.reduce((sum, state) => sum + depth[state], 0);
  if (pattern === undefined) return depth.dead;
  const patterns = await port.patterns(queue!, "fingerprint", 1_000);
  return patterns.find((each) => each.pattern === pattern)?.count ?? 0;
}

export function describeJob({ action, queue, ids, pattern, error, q, rate }: NewBulkJob): string {
  const verb = { redrive: "Redrive", discard: "Discard", cancel: "Cancel", retry: "Retry from the start" }[
    action
  ];
  const what = action === "cancel" ? "the tasks" : "the dead letters";
  const which = ids ? countOf(ids.length, action === "cancel" ? "task" : "dead letter") : what;
  const where = queue === undefined ? "" : ` of ${queue}`;
  const filters = [
    pattern === undefined ? "" : ` that failed with ${show(pattern)}`,
    error === undefined ? "" : ` whose error contains ${show(error)}`,
    q === undefined ? "" : ` that match ${show(q)}`,
    rate === undefined ? "" : `, ${rate} a second`,
  ];
  return `${verb} ${which}${where}${filters.join("")}`;
}

type Target = Pick<TaskRecord, "id" | "queue">;

async function* matchesOf(port: Port, job: NewBulkJob, scope: JobScope): AsyncGenerator<Target> {
  const { action, queue, ids, q } = job;
  if (ids) {
    for (const id of new Set(ids)) yield { id, queue: queue ?? "" };
    return;
  }
  const isCancel = action === "cancel";
  if (q === undefined && !isCancel) return yield* deadLetters(port, job, scope);
  for await (const task of everyMatch(port, { q: q ?? "", queue })) {
    const isMeant = isCancel ? !isEnd(task.state) : task.state === "dead";
    const isOld = (isCancel ? task.createdAt : task.endedAt!) <= scope.before;
    if (isMeant && isOld && scope.isAllowed(task.queue)) yield task;
  }
}

/** In the order of their deaths. */
async function* deadLetters(port: Port, job: NewBulkJob, { before }: JobScope): AsyncGenerator<Target> {
  const { queue, pattern, error } = job;
  const filter = { ...(pattern !== undefined && { pattern }), ...(error !== undefined && { error }) };
  let after: string | undefined;
  do {
    const page = await port.list({ queue: queue!, state: "dead", filter, limit: BATCH, after });
    for (const task of page.tasks) {
      if (task.endedAt! > before) return;
      yield task;
    }
    after = page.next ?? undefined;
  } while (after !== undefined);
}

async function* batchesOf(targets: AsyncIterable<Target>, most: number): AsyncGenerator<Target[]> {
  let batch: Target[] = [];
  for await (const target of targets) {
    batch.push(target);
    if (batch.length < most) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

async function change(port: Port, action: BulkAction, batch: Target[]): Promise<Progress> {
  const done = action === "cancel" ? await cancelAll(port, batch) : await changeDead(port, action, batch);
  return { done, skipped: batch.length - done };
}

async function cancelAll(port: Port, batch: Target[]): Promise<number> {
  const outcomes = await Promise.all(
    batch.map(({ id }) =>
      port.cancel(id).then(
        // A claimed one ends when its worker lets go.
        (state) => state === "cancelled" || !isEnd(state),
        (error: unknown) => {
          // It has ended meanwhile, or is gone.
          if (isDibsError(error) && error.code.startsWith("TASK_")) return false;
          throw error;
        },
      ),
    ),
  );
  return outcomes.filter(Boolean).length;
}

async function changeDead(
  port: Port,
  action: Exclude<BulkAction, "cancel">,
  batch: Target[],
): Promise<number> {
  let done = 0;
  for (const [queue, targets] of Map.groupBy(batch, (target) => target.queue)) {
    const filter = { ids: targets.map(({ id }) => id) };
    done +=
      action === "discard"
        ? await port.discard(queue, filter)
        : await port.redrive(queue, filter, 0, { fresh: action === "retry" });
  }
  return done;
}
