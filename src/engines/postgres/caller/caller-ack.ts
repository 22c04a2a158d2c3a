import { claimLost, invalid } from "../../../core/errors/errors.ts";
import { isLarger, tooLarge } from "../../../core/input/limits.ts";
import type { QueuePolicy } from "../../../core/queue/policy.ts";
import { stepsAside } from "../../../core/task/transition.ts";
import type { Body, TaskState } from "../../../core/task/task.ts";
import { encodeAdds, isVerificationQueue, verificationTask } from "../../../core/handler/verification.ts";
import { keyExpiresAt } from "../../../core/task/idempotency.ts";
import { BOUNDS } from "../../../engine/bounds.ts";
import type { Settlement } from "../../../engine/settlement.ts";
import { tooOld } from "./caller-failure.ts";
import { STEPS } from "./read-latest.ts";
import { toColumns } from "../statements/text.ts";
import { BEGAN, type CallerTransaction, childRefused, stageRefused } from "./caller-transaction.ts";

/** An ack in the caller's transaction. caller-transaction.ts calls it. */

type Done = Settlement & { kind: "done" };

/** An ack in the caller's transaction: see caller-transaction.ts. */
export async function settleWithin(
  within: CallerTransaction,
  id: string,
  fence: number,
  settlement: Settlement,
  spent: number | undefined,
): Promise<{ state: TaskState }> {
  if (settlement.kind !== "done") throw invalid("Only an ack can be part of your transaction.");
  const { link, lookups, now } = within;
  const held = await find(within, id, fence);
  within.checkBegun(held);
  if (held.of_run) throw stageRefused(id);
  if (held.is_child) throw childRefused(id);
  const { result, adds = [] } = settlement;
  const { policy } = (await lookups.queues([held.queue_name])).get(held.queue_name)!;
  if (!held.cancelled && result !== null && isLarger(result, policy.maxPayload)) {
    throw tooLarge("The result", result, policy.maxPayload, held.queue_name);
  }
  // It would change the row of the task that the verdict is about, and lock it until the caller commits.
  if (isVerificationQueue(held.queue_name)) throw invalid("A verdict cannot be part of your transaction.");
  if (!held.cancelled && policy.verified)
    return askForVerdict(within, id, held, settlement, { policy, spent });
  if (!held.cancelled && adds.length > 0) await within.add(await within.fanOut(adds));
  await correctLater(within, held, spent);
  const state = held.cancelled ? "cancelled" : "done";
  await link.run(DELETE_CLAIM, held.task);
  if (held.special) await link.run(DELETE_STEPS, held.task);
  if (held.cancelled) await link.run(INSERT_ATTEMPT, held.task, now, JSON.stringify(held));
  await link.run(INSERT_ENDED, JSON.stringify({ ...held, state, ...resultOf(held, result) }), now);
  if (held.idempotency_key !== null) {
    const forgetAt = keyExpiresAt(now);
    await link.run(END_KEY, forgetAt, state, held.queue, held.idempotency_key, held.task);
  }
  const service = now - Number(held.started_at);
  const slot = Math.floor(now / BOUNDS.rateSlot);
  const [done, cancelled] = held.cancelled ? [0, 1] : [1, 0];
  await link.run(DELTA, held.queue, slot, done, cancelled, held.cancelled ? 0 : service);
  if (held.group_key !== null) await link.run(FREE_LATER, held.queue, held.group_key);
  await within.notifyAtCommit();
  return { state };
}

/** The claim, locked. A claim that is newer than the caller's snapshot is not reported as lost. */
async function find(within: CallerTransaction, id: string, fence: number): Promise<HeldRow> {
  const { link, hasFixedSnapshot } = within;
  const { latest } = within.lookups;
  const seq = within.seqOf(id);
  if (seq === undefined) throw claimLost(id, fence);
  // Read first: to lock a row that has been deleted since the snapshot would fail the transaction.
  if (hasFixedSnapshot && !(await latest.isHeld(seq, fence))) throw claimLost(id, fence);
  const [held] = await link.all<HeldRow>(HELD, seq, fence);
  if (!hasFixedSnapshot) {
    if (!held) throw claimLost(id, fence);
    return held;
  }
  if (!held) {
    const [row] = await link.all<{ ended: boolean }>(ENDED, seq, fence);
    throw row!.ended ? claimLost(id, fence) : tooOld(`task ${id} was claimed (fence ${fence})`);
  }
  if (held.special) {
    const [row] = await link.all<{ count: number }>(STEPS, seq);
    if (row!.count !== (await latest.steps(seq))) throw tooOld(`steps or signals were kept for task ${id}`);
  }
  return held;
}

/** In a verified queue, the result and its adds wait for the verdict: see verify.ts. */
async function askForVerdict(
  within: CallerTransaction,
  id: string,
  held: HeldRow,
  { result, adds = [] }: Done,
  { policy, spent }: { policy: QueuePolicy; spent: number | undefined },
): Promise<{ state: TaskState }> {
  const { link } = within;
  const tasks = await within.fanOut(adds);
  await within.check(tasks, await within.queuesOf(tasks));
  const asks = [verificationTask(held.queue_name, { id, fence: Number(held.fence) })];
  const [asking] = await within.addChecked(asks, await within.queuesOf(asks));
  const asked = within.seqOf(asking!.id)!;
  await correctLater(within, held, spent);
  const kept = adds.length > 0 ? encodeAdds(adds) : null;
  const row = { ...held, asked, adds: kept, ...resultOf(held, result) };
  await link.run(INSERT_VERIFYING, JSON.stringify(row));
  await link.run(DELETE_CLAIM, held.task);
  if (stepsAside(held.group_key !== null, policy)) {
    await link.run(STEP_ASIDE, held.task);
    await link.run(FREE_LATER, held.queue, held.group_key);
  }
  await link.run(DELTA_VERIFYING, held.queue, Math.floor(within.now / BOUNDS.rateSlot));
  await within.notifyAtCommit();
  return { state: "verifying" };
}

/** After every check that may refuse the ack. */
async function correctLater(
  { link }: CallerTransaction,
  held: HeldRow,
  spent: number | undefined,
): Promise<void> {
  if (spent === undefined) return;
  await link.run(CORRECT_LATER, held.queue, held.group_key, held.cost, spent, held.started_at);
}

interface HeldRow {
  task: string;
  began: string;
  queue: number;
  queue_name: string;
  fence: string;
  started_at: string;
  failures: number;
  worker: string;
  cancelled: boolean;
  special: boolean;
  of_run: boolean;
  is_child: boolean;
  cost: string | null;
  group_key: string | null;
  idempotency_key: string | null;
}

const HELD = `
  SELECT claim.task::text, claim.queue, queue.name AS queue_name, claim.fence::text, claim.started_at::text,
    claim.failures, claim.worker, claim.cancelled, claim.special, task.cost::text, task.group_key,
    task.idempotency_key, ${BEGAN},
    EXISTS (SELECT 1 FROM dibs.run_part WHERE run_part.task = claim.task) AS of_run,
    EXISTS (SELECT 1 FROM dibs.child WHERE child.task = claim.task) AS is_child
  FROM dibs.claim JOIN dibs.task ON task.seq = claim.task JOIN dibs.queue ON queue.id = claim.queue
  WHERE claim.task = $1::int8 AND claim.fence = $2::int8 FOR UPDATE OF claim`;
// Settled in this transaction.
const ENDED = `
  SELECT EXISTS (SELECT 1 FROM dibs.ended WHERE task = $1::int8)
    OR EXISTS (SELECT 1 FROM dibs.verifying WHERE task = $1::int8 AND fence = $2::int8) AS ended`;
const DELETE_CLAIM = `DELETE FROM dibs.claim WHERE task = $1::int8`;
const DELETE_STEPS = `DELETE FROM dibs.step WHERE task = $1::int8`;
const INSERT_VERIFYING = `
  INSERT INTO dibs.verifying (task, asked, fence, started_at, queue, failures, worker, adds, result, result_bytes)
  SELECT task, asked, fence, started_at, queue, failures, worker, adds, result, decode(result_bytes, 'base64')
  FROM json_to_record($1::text::json) AS held (task int8, asked int8, fence int8, started_at int8, queue int4, failures int2,
    worker text, adds text, result text, result_bytes text)`;
const INSERT_ATTEMPT = `
  INSERT INTO dibs.attempt (task, fence, attempt, worker, started_at, ended_at, outcome)
  SELECT $1::int8, fence, failures + 1, worker, started_at, $2::int8, 'cancelled'
  FROM json_to_record($3::text::json) AS held (fence int8, failures int2, worker text, started_at int8)`;
const INSERT_ENDED = `
  INSERT INTO dibs.ended (task, queue, state, ended_at, started_at, attempt, fence, worker, result, result_bytes)
  SELECT task, queue, state, $2::int8, CASE state WHEN 'done' THEN started_at END,
    CASE state WHEN 'done' THEN failures + 1 END, CASE state WHEN 'done' THEN fence END,
    CASE state WHEN 'done' THEN worker END, result, decode(result_bytes, 'base64')
  FROM json_to_record($1::text::json) AS held (task int8, queue int4, state text, started_at int8, failures int2, fence int8,
    worker text, result text, result_bytes text)`;
const END_KEY = `
  UPDATE dibs.idempotency SET forget_at = $1::int8, state = $2
  WHERE queue = $3::int4 AND key = $4 AND task = $5::int8`;
const DELTA = `
  INSERT INTO dibs.delta (queue, slot, ready, waiting, scheduled, claimed, parked, verifying, done, dead, cancelled,
    expired, added, started, succeeded, failed, wait_ms, service_ms)
  VALUES ($1::int4, $2::int8, 0, 0, 0, -1, 0, 0, $3::int4, 0, $4::int4, 0, 0, 0, $3::int4, 0, 0, $5::int8)`;
const DELTA_VERIFYING = `
  INSERT INTO dibs.delta (queue, slot, ready, waiting, scheduled, claimed, parked, verifying, done, dead, cancelled,
    expired, added, started, succeeded, failed, wait_ms, service_ms)
  VALUES ($1::int4, $2::int8, 0, 0, 0, -1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)`;
const STEP_ASIDE = `INSERT INTO dibs.stepped_aside (task) VALUES ($1::int8)`;
// The meter is in the queue's gate, which the caller would hold until its commit.
const CORRECT_LATER = `
  INSERT INTO dibs.inbox (queue, group_key, cost, spent, started_at) VALUES ($1::int4, $2, $3::int8, $4::int8, $5::int8)`;
const FREE_LATER = `INSERT INTO dibs.inbox (queue, group_key) VALUES ($1::int4, $2)`;

function resultOf({ cancelled }: HeldRow, result: Body | null): object {
  const [text, bytes] = toColumns(cancelled ? null : result);
  return { result: text, result_bytes: bytes && Buffer.from(bytes).toString("base64") };
}
