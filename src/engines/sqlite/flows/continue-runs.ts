import { isBounded } from "../../../core/task/add-rules.ts";
import { parsePart } from "../../../core/run/run-part.ts";
import type { Body } from "../../../core/task/task.ts";
import { reportAdded } from "../../../engine/follow-up-adds.ts";
import { chunks, sized } from "../statements/chunks.ts";
import { CHILD, GROUPED, OPTIONS } from "../statements/special.ts";
import { HEAD_ONLY, isVerified, type Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";

/** Continues runs in bulk, if the result of one stage is the payload of the next. */

interface Claimed {
  task: number;
  queue: number;
  fence: number;
  cancelled: number;
  special: number;
  priority: number;
  run: number | null;
  stage: string;
  part: string;
  created_at: number;
  pipeline: string;
  stages: string;
  counts: string | null;
  state: string | null;
}

const CLAIMED = sized(
  `SELECT claim.task, claim.queue, claim.fence, claim.cancelled, claim.special, task.priority,
     run_part.stage, run_part.part, run.id AS run, run.created_at, run.pipeline, run.stages, run.counts, run.state
   FROM (VALUES `,
  () => `(?)`,
  `) CROSS JOIN claim ON claim.task = column1 CROSS JOIN task ON task.seq = claim.task
   LEFT JOIN run_part ON run_part.task = claim.task LEFT JOIN run ON run.id = run_part.run`,
);

interface Settled {
  seq: number;
  fence: number;
  result: Body | null;
}

/** A task of the next stage. */
interface NextStep {
  queue: Queue;
  result: Body | null;
  at: { id: string; stage: string; part: number[]; joins: false };
}

interface Turn<S> {
  together: boolean;
  successes: S[];
  /** The end of some may promote others of their groups. */
  bringsUp: boolean;
  /** What the successes of runs lead to, in order. */
  steps: NextStep[];
}

/** Divides successes into those that can be settled in bulk and those that cannot, in order. */
export function turnsOf<S extends Settled>(tx: Tx, successes: readonly S[]): Turn<S>[] {
  const claims = new Map<number, Claimed>();
  for (const chunk of chunks(successes.map(({ seq }) => seq))) {
    for (const row of tx.all<Claimed>(CLAIMED(chunk.length), ...chunk)) claims.set(row.task, row);
  }
  const turns: Turn<S>[] = [];
  for (const success of successes) {
    const claim = claims.get(success.seq);
    const holds = claim?.fence === success.fence && claim.cancelled === 0;
    const step = holds && claim.run !== null ? nextStep(tx, claim, success.result) : undefined;
    const isUsual = holds && !isVerified(tx.queues.of(claim.queue)) && (claim.special & CHILD) === 0;
    const brings = isUsual && bringsUp(tx.queues.of(claim.queue), claim.special);
    const together = isUsual && (claim.run === null || (step !== undefined && !brings));
    let turn = turns.at(-1);
    // Next tasks and promoted tasks get numbers in order, so one bulk has only one of both.
    const isOver = (brings && turn !== undefined && turn.steps.length > 0) || (step && turn?.bringsUp);
    if (turn?.together !== together || isOver)
      turns.push((turn = { together, successes: [], bringsUp: false, steps: [] }));
    turn.successes.push(success);
    turn.bringsUp ||= brings;
    if (together && step) turn.steps.push(step);
  }
  return turns;
}

/** Its end may promote others of its group to the last positions. */
export function bringsUp(queue: Queue, special: number): boolean {
  return queue.lanes !== HEAD_ONLY && (special & GROUPED) !== 0;
}

/** Undefined if more is needed than to add one plain task to a queue without limits. */
function nextStep(tx: Tx, claim: Claimed, result: Body | null): NextStep | undefined {
  const stages = tx.stages.parse(claim.stages);
  const next = stages[stages.findIndex(({ name }) => name === claim.stage) + 1];
  if (
    !next ||
    claim.counts !== null ||
    next.joins ||
    next.cost !== undefined ||
    claim.state !== null ||
    claim.priority !== 0 ||
    claim.special & OPTIONS
  )
    return undefined;
  if (result !== null && typeof result !== "string") return undefined;
  const queue = tx.queues.named(`${claim.pipeline}/${next.name}`);
  if (!queue || isBounded(queue.policy) || queue.policy.ttl !== null) return undefined;
  const id = tx.id(claim.created_at, claim.run!);
  return { queue, result, at: { id, stage: next.name, part: parsePart(claim.part), joins: false } };
}

export function goOnTogether(tx: Tx, steps: readonly NextStep[]): void {
  for (const { queue, result, at } of steps) {
    const seq = tx.addBuffer.take(queue, { queue: queue.name, data: result ?? "null", at })!;
    tx.counters.flow(queue).added++;
    if (tx.listeners > 0)
      tx.announce({ type: "task.added", at: tx.now, queue: queue.name, taskId: tx.id(tx.now, seq) });
    reportAdded(tx.batch.hint, [{ queue: queue.name, existing: false }]);
  }
}
