import { randomUUID } from "node:crypto";
import {
  EXPORT_FORMAT,
  type GateState,
  type StoreRecord,
  type TaskEntry,
} from "../../../core/record/record.ts";
import { isEmpty } from "../../../core/queue/rate.ts";
import { isEnd, JSON_TYPE } from "../../../core/task/task.ts";
import { encodeAdds } from "../../../core/handler/verification.ts";
import { inOrder } from "../inspect.ts";
import type { Gate } from "../lanes.ts";
import type { Model, ModelChild, ModelPart, ModelRun, ModelTask } from "../model.ts";

/** All records of the model, except the last one. `paused`: the queues that a move has paused. */
export function* exportModel(
  model: Model,
  id: string | null,
  paused: readonly string[],
): Generator<StoreRecord> {
  yield {
    type: "store",
    format: EXPORT_FORMAT,
    export: id ?? randomUUID(),
    ...{ store: model.store, now: model.now, seq: model.seq, fence: model.fence },
  };
  for (const queue of model.queues.values()) {
    yield {
      type: "queue",
      name: queue.name,
      policy: queue.named,
      ...(queue.declared !== null && { declared: queue.declared }),
      ...(queue.paused && !paused.includes(queue.name) && { paused: true as const }),
      createdAt: queue.createdAt,
      ...gateOf(queue.gate),
      ...(queue.reviewed !== null && { reviewed: queue.reviewed }),
      ...(queue.flow.size > 0 && { flow: [...queue.flow].map(([slot, flow]) => ({ slot, ...flow })) }),
    };
  }
  for (const { name, lanes } of model.queues.values()) {
    for (const [key, lane] of lanes) {
      const state = gateOf(lane);
      if (Object.keys(state).length > 0) yield { type: "group", queue: name, key, ...state };
    }
  }
  for (const { id: _, ...subscription } of model.subscriptions)
    yield { type: "subscription", ...subscription };
  for (const [kind, documents] of model.documents) {
    for (const [name, { value, dueAt }] of documents)
      yield { type: "document", kind, name, value, ...(dueAt !== null && { dueAt }) };
  }
  for (const run of model.runs.values()) yield runEntry(run);
  for (const run of model.runs.values()) for (const part of run.parts) yield partEntry(model, run, part);
  for (const child of [...model.families.values()].flat()) yield childEntry(model, child);
  for (const task of model.tasks.values()) yield taskEntry(task);
  for (const { name, keys } of model.queues.values()) {
    for (const [key, { id: task, forgetAt, state }] of keys)
      yield {
        ...{ type: "key", queue: name, key, task },
        ...(forgetAt !== null && { forgetAt }),
        ...(state !== null && { state }),
      };
  }
}

function gateOf({ meter, heldUntil, wakeAt }: Gate): GateState {
  return {
    ...(!isEmpty(meter) && { meter }),
    ...(heldUntil > 0 && { heldUntil }),
    ...(wakeAt !== null && { wakeAt }),
  };
}

function runEntry(run: ModelRun): StoreRecord {
  const { id, queue, pipeline, stages, underWay, state, endedAt, result } = run;
  const signals = [...run.signals].map(([name, value]) => ({ name, value }));
  return {
    ...{ type: "run", id, queue, pipeline, stages, underWay },
    ...(run.counts && { counts: run.counts }),
    ...(signals.length > 0 && { signals: signals.sort((a, b) => (a.name < b.name ? -1 : 1)) }),
    ...(state !== null && { state }),
    ...(endedAt !== null && { endedAt }),
    ...(result !== null && { result }),
  };
}

function partEntry(model: Model, run: ModelRun, part: ModelPart): StoreRecord {
  const { id, stage, state, startedAt, endedAt, awaitsJoin } = part;
  // The state of a task that still exists is in its own record.
  const isGone = !model.tasks.has(id);
  return {
    ...{ type: "part", id, run: run.id, stage, part: part.part },
    ...(isGone && state !== null && { state }),
    ...(isGone && startedAt !== null && { startedAt }),
    ...(isGone && endedAt !== null && { endedAt }),
    ...(awaitsJoin && { awaitsJoin }),
  };
}

function childEntry(model: Model, child: ModelChild): StoreRecord {
  const { id, parent, n, name, queue, state, endedAt, result, error } = child;
  // The end of a task that still exists is in its own record.
  const isGone = !model.tasks.has(id);
  return {
    ...{ type: "child", id, parent, n, name, queue },
    ...(state !== null && { state }),
    ...(endedAt !== null && { endedAt }),
    ...(isGone && result !== null && { result }),
    ...(isGone &&
      error !== null && { error: { name: error.name, message: error.message, stack: error.stack } }),
  };
}

function taskEntry(task: ModelTask): TaskEntry {
  const { pos, seq, dueAt, waitsFor, elsewhere, pending, feedback } = task;
  const state = task.state === "claimed" ? "ready" : task.state;
  const blocksGroup = task.blocksGroup && ["scheduled", "parked", "verifying"].includes(state);
  return {
    ...{ type: "task", id: task.id, queue: task.queue, state, data: task.data },
    ...(task.contentType !== JSON_TYPE && { contentType: task.contentType }),
    ...(Object.keys(task.headers).length > 0 && { headers: task.headers }),
    ...(task.priority !== 0 && { priority: task.priority }),
    ...(task.urgent && { urgent: true as const }),
    ...(task.cost !== null && { cost: task.cost }),
    ...(task.groupKey !== null && { groupKey: task.groupKey }),
    ...(task.idempotencyKey !== null && { idempotencyKey: task.idempotencyKey }),
    ...(task.maxAttempts !== null && { maxAttempts: task.maxAttempts }),
    ...(task.expiresAt !== null && { expiresAt: task.expiresAt }),
    ...(pos !== seq && { pos }),
    ...(task.failures > 0 && !isEnd(state) && { failures: task.failures }),
    ...(task.state === "ready" && task.place !== pos && { linePos: task.place }),
    ...(task.state === "ready" && elsewhere && { elsewhere }),
    ...(dueAt !== null && { dueAt }),
    ...(waitsFor !== null && { waitsFor }),
    ...(blocksGroup && { blocksGroup: true as const }),
    ...(pending && { verifying: pendingEntry(task) }),
    ...(task.endedAt !== null && isEnd(state) && { endedAt: task.endedAt }),
    ...(task.result !== null && { result: task.result }),
    ...(task.steps.length > 0 && { steps: inOrder(task.steps) }),
    ...(feedback !== null && { feedback }),
    ...(task.ledger.length > 0 && { attempts: task.ledger }),
    ...(task.log.length > 0 && { log: task.log }),
  };
}

function pendingEntry(task: ModelTask): NonNullable<TaskEntry["verifying"]> {
  const { fence, worker, startedAt, result, adds, each, next, asked } = task.pending!;
  return {
    ...{ fence, worker, startedAt, result },
    ...(asked !== null && { asked }),
    ...(adds.length > 0 && { adds: encodeAdds(adds) }),
    ...(each && { each: true as const }),
    ...(next && { next }),
  };
}
