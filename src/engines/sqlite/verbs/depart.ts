import { onItsWay, ontoItself } from "../../../core/errors.ts";
import {
  fromRank,
  type Headers,
  isEnd,
  JSON_TYPE,
  type TravellingResult,
  type TravellingTask,
} from "../../../core/task.ts";
import { hasRuns } from "../../../core/run.ts";
import { asAges } from "../../../core/travel.ts";
import { decodeAdds, isVerificationQueue } from "../../../core/verification.ts";
import { bodyFrom } from "../statements/body.ts";
import { findAsked, type VerifyingRow } from "../line/held.ts";
import { END, type EndRow, ledger, PAYLOAD, type PayloadRow } from "./inspect.ts";
import { holdLane } from "../limits/move-lanes.ts";
import { NEVER } from "../line/line.ts";
import { stepsOf } from "./park.ts";
import { type Found, findBySeq, findTask, remove, stateOf, takeOut } from "../line/place.ts";
import { hasRunsUnderWay } from "../flows/runs.ts";
import { FEEDBACK } from "../flows/steps.ts";
import { HEADS, type Queue, type Tx } from "../transaction/tx.ts";

const ASTRAY = `SELECT destination FROM leaving WHERE queue = ? AND destination <> ? LIMIT 1`;
const HELD = `SELECT task FROM leaving WHERE queue = ? ORDER BY n LIMIT 0 + ?`;

// In this order: whoever is behind the head of a group leaves after it.
const NEXT = [
  `
  SELECT task FROM (
    SELECT task, rank, pos FROM ready WHERE queue = :queue
    UNION ALL
    SELECT task, rank, pos FROM kept WHERE queue = :queue
    UNION ALL
    SELECT task, rank, pos FROM own WHERE queue = :queue
    ORDER BY rank, pos LIMIT 0 + :limit)`,
  `SELECT task FROM scheduled WHERE queue = :queue ORDER BY pos LIMIT 0 + :limit`,
  `SELECT task FROM verifying WHERE queue = :queue ORDER BY task LIMIT 0 + :limit`,
  // Only where the head is leaving too: were it running here, they would overtake it. Or where there is none, because none
  // of the group may start yet.
  `
  SELECT waiting.task
  FROM (
    SELECT group_key FROM leaving WHERE queue = :queue AND holds_group = 1
    UNION
    SELECT group_key FROM lane WHERE queue = :queue AND json_extract(state, '$.holders') = 0
  ) AS heads
  CROSS JOIN waiting ON waiting.queue = :queue AND waiting.group_key = heads.group_key
  ORDER BY waiting.group_key, waiting.pos LIMIT 0 + :limit`,
  `
  SELECT dead.task FROM dead WHERE queue = :queue AND NOT EXISTS (SELECT 1 FROM leaving WHERE leaving.task = dead.task)
  ORDER BY died_at, dead.task LIMIT 0 + :limit`,
] as const;
const ENDED = `SELECT task FROM ended WHERE queue = ? ORDER BY ended_at, task LIMIT 0 + ?`;
const HOLD = `
  INSERT INTO leaving (task, queue, destination, state, due, signal, failures, group_key, holds_group, cancelled)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)`;
const HOLD_RESULT = `
  UPDATE leaving SET (started_at, worker, adds, result) = (
    SELECT started_at, worker, adds, result FROM verifying WHERE verifying.task = leaving.task)
  WHERE task = ?`;

export function depart(tx: Tx, name: string, to: number, limit: number): TravellingTask[] {
  if (to === tx.salt) throw ontoItself();
  const queue = tx.queueNamed(name);
  if (!queue) return [];
  if (hasRunsUnderWay(tx, queue.id)) throw hasRuns(name);
  const astray = tx.get<{ destination: number }>(ASTRAY, queue.id, to);
  if (astray) throw onItsWay(name, astray.destination, to);
  let count = held(tx, queue, limit).length;
  for (const sql of NEXT) {
    if (count === limit) break;
    const next = tx.allNamed<{ task: number }>(sql, { queue: queue.id, limit: limit - count });
    const free = next.filter(({ task }) => !asksHere(tx, queue, task));
    for (const { task } of free) hold(tx, findBySeq(tx, task)!, to);
    count += free.length;
  }
  const leaving = held(tx, queue, limit);
  const ended = tx.all<{ task: number }>(ENDED, queue.id, limit - count);
  return [...leaving, ...ended].map(({ task }) => travelling(tx, findBySeq(tx, task)!));
}

function held(tx: Tx, queue: Queue, limit: number): { task: number }[] {
  return tx.all(HELD, queue.id, limit);
}

/** It asks for a verdict on what is still here, and stays with it: the other store asks for its own. */
function asksHere(tx: Tx, queue: Queue, seq: number): boolean {
  return isVerificationQueue(queue.name) && findAsked(tx, seq) !== undefined;
}

/** It counts as what it was, until it is gone. */
function hold(tx: Tx, task: Found, to: number): void {
  const { place, queue, seq, failures, groupKey } = task;
  const state = stateOf(place);
  const due = "due" in place ? place.due : null;
  const signal = "signal" in place ? place.signal : null;
  // Whoever comes to stand in the group meanwhile waits for those that leave behind the head, too.
  const holdsGroup = task.holdsGroup || state === "waiting";
  tx.run(HOLD, seq, queue.id, to, state, due, signal, failures, groupKey, holdsGroup ? 1 : 0);
  if (state === "dead") return;
  if (state === "verifying") tx.run(HOLD_RESULT, seq);
  takeOut(tx, task);
  if (state === "waiting" && queue.lanes !== HEADS) holdLane(tx, queue, groupKey!);
  tx.count(queue, state, 1);
}

const KEY = `
  SELECT forget_at FROM idempotency
  WHERE queue = ? AND key = ? AND task = ? AND (forget_at IS NULL OR forget_at > ?)`;

function travelling(tx: Tx, task: Found): TravellingTask {
  const { now } = tx;
  const { place, seq, queue, key } = task;
  const state = stateOf(place) as TravellingTask["state"];
  const payload = tx.get<PayloadRow>(PAYLOAD, seq)!;
  const ended = isEnd(state) ? tx.get<EndRow>(END, seq, seq)! : undefined;
  const holds = key === null ? undefined : tx.get<{ forget_at: number | null }>(KEY, queue.id, key, seq, now);
  const due = "due" in place && place.due !== NEVER ? place.due : null;
  return {
    origin: tx.id(task.createdAt, seq),
    queue: queue.name,
    state,
    data: bodyFrom(payload.data),
    contentType: payload.content_type ?? JSON_TYPE,
    headers: payload.headers === null ? {} : (JSON.parse(payload.headers) as Headers),
    ...fromRank(task.rank),
    groupKey: task.groupKey,
    holdsGroup: (state === "scheduled" || state === "parked") && task.holdsGroup,
    idempotencyKey: key,
    holdsKey: holds !== undefined,
    keyFor: holds && holds.forget_at !== null ? holds.forget_at - now : null,
    maxAttempts: task.maxAttempts,
    cost: payload.cost,
    failures: task.failures,
    age: now - task.createdAt,
    dueIn: due === null ? null : due - now,
    expiresIn: task.expiresAt === null ? null : task.expiresAt - now,
    endedAgo: ended ? now - ended.ended_at : null,
    result: bodyFrom(ended?.result ?? null),
    waitsFor: "signal" in place ? place.signal : null,
    steps: stepsOf(tx, seq),
    feedback: tx.get<{ value: string }>(FEEDBACK, seq)?.value ?? null,
    pending: state === "verifying" ? pendingOf(tx, seq) : null,
    ledger: asAges(ledger(tx, seq), now),
    cancelRequested: place.state === "leaving" && place.cancelled,
  };
}

const PENDING = `SELECT started_at, worker, adds, result FROM leaving WHERE task = ?`;

function pendingOf(tx: Tx, seq: number): TravellingResult {
  const row = tx.get<Pick<VerifyingRow, "started_at" | "worker" | "adds" | "result">>(PENDING, seq)!;
  return {
    worker: row.worker,
    startedAgo: tx.now - row.started_at,
    result: bodyFrom(row.result),
    adds: row.adds === null ? [] : decodeAdds(row.adds),
  };
}

export function gone(tx: Tx, tasks: { id: string; cancelled: boolean }[]): { cancelled: string[] } {
  const cancelled: string[] = [];
  for (const { id, cancelled: isKnown } of tasks) {
    const task = findTask(tx, id);
    if (!task) continue;
    const { place } = task;
    const isOver = isEnd(stateOf(place)) && place.state !== "dead";
    if (place.state !== "leaving" && !isOver) continue;
    if (place.state === "leaving" && place.cancelled && !isKnown) {
      cancelled.push(id);
      continue;
    }
    remove(tx, task);
    tx.hint.ended = true;
  }
  return { cancelled };
}
