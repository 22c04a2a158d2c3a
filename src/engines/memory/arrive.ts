import { formatTaskId } from "../../core/task-id.ts";
import { isEnd, type TravellingResult, type TravellingTask } from "../../core/task.ts";
import type { Verbs } from "../../engine/engine.ts";
import { takenKey } from "./add.ts";
import { closeAttempt, enter, groupHead } from "./line.ts";
import type { Model, ModelTask } from "./model.ts";
import { wait } from "./verify.ts";

export function arrive(model: Model, tasks: TravellingTask[]): Verbs["arrive"]["out"] {
  return { store: model.store, tasks: tasks.map((task) => arriveOne(model, task)) };
}

function arriveOne(model: Model, task: TravellingTask): { id: string; existing: boolean } {
  const known = model.origins.get(task.origin);
  if (known !== undefined) return { id: known, existing: true };
  const { queue, idempotencyKey } = task;
  const taken =
    task.holdsKey && idempotencyKey !== null ? takenKey(model, { queue, idempotencyKey }) : undefined;
  if (taken && !isEnd(task.state)) {
    model.origins.set(task.origin, taken.id);
    return { id: taken.id, existing: true };
  }
  const arrived = settleIn(model, task);
  model.origins.set(task.origin, arrived.id);
  if (task.holdsKey && !taken) {
    const end = isEnd(task.state) ? task.state : null;
    model.queue(queue).keys.set(idempotencyKey!, {
      id: arrived.id,
      forgetAt: end && model.now + task.keyFor!,
      state: end,
    });
  }
  return { id: arrived.id, existing: false };
}

function settleIn(model: Model, task: TravellingTask): ModelTask {
  const { now } = model;
  model.queue(task.queue);
  const seq = ++model.seq;
  const createdAt = now - task.age;
  const ledger = task.ledger.map(({ startedAgo, endedAgo, ...row }) => ({
    ...row,
    // New numbers, which later claims of this store will be above.
    fence: ++model.fence,
    startedAt: now - startedAgo,
    endedAt: now - endedAgo,
  }));
  const arrived: ModelTask = {
    seq,
    id: formatTaskId(createdAt, seq, model.store),
    queue: task.queue,
    state: task.state,
    data: task.data,
    contentType: task.contentType,
    headers: task.headers,
    priority: task.priority,
    groupKey: task.groupKey,
    idempotencyKey: task.idempotencyKey,
    maxAttempts: task.maxAttempts,
    cost: task.cost,
    urgent: task.urgent,
    createdAt,
    expiresAt: task.expiresIn === null ? null : now + task.expiresIn,
    pos: seq,
    place: seq,
    failures: task.failures,
    dueAt: null,
    waitsFor: null,
    steps: task.steps,
    holdsGroup: false,
    elsewhere: null,
    owner: null,
    claim: null,
    pending: null,
    feedback: task.feedback,
    leaving: null,
    run: null,
    ledger,
    endedAt: task.endedAgo === null ? null : now - task.endedAgo,
    result: task.result,
    error: task.state === "dead" ? ledger.at(-1)!.error : null,
  };
  model.tasks.set(arrived.id, arrived);
  if (isEnd(task.state)) return arrived;
  model.flow(task.queue).added++;
  model.announce({ type: "task.added", at: now, queue: task.queue, taskId: arrived.id });
  lineUp(model, arrived, task);
  return arrived;
}

function lineUp(model: Model, arrived: ModelTask, task: TravellingTask): void {
  if (task.pending) return askAgain(model, arrived, task.pending);
  const { dueIn, holdsGroup, waitsFor } = task;
  // A parked one whose time has passed on its way is told so by the next sweep.
  const later = waitsFor !== null || (dueIn !== null && dueIn > 0);
  // The head of its group waits for its next try as the head; where there is another here, it waits behind that.
  if (later && holdsGroup && !groupHead(model, arrived)) arrived.holdsGroup = true;
  if (!later || holdsGroup !== arrived.holdsGroup) return enter(model, arrived);
  arrived.state = task.state;
  arrived.waitsFor = waitsFor;
  arrived.dueAt = dueIn === null ? null : model.now + dueIn;
}

/** Whoever was asked for a verdict in the other store has no say here. */
function askAgain(
  model: Model,
  arrived: ModelTask,
  { worker, startedAgo, result, adds }: TravellingResult,
): void {
  const attempt = { fence: ++model.fence, worker, startedAt: model.now - startedAgo };
  const isHead = arrived.groupKey !== null && !groupHead(model, arrived);
  if (arrived.groupKey === null || isHead) {
    arrived.holdsGroup = isHead;
    wait(model, arrived, { ...attempt, result, adds, each: false });
    return;
  }
  // Its group has another head here, so that it cannot be the one that the group waits for: it is to be done again.
  arrived.pending = { ...attempt, result, adds, each: false, asked: null };
  closeAttempt(model, arrived, "released", null);
  enter(model, arrived);
}

export function origins(model: Model, ids: string[]): (string | null)[] {
  return ids.map((id) => model.origins.get(id) ?? null);
}
