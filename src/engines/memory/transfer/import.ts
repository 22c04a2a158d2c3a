import { fingerprint } from "../../../core/errors/fingerprint.ts";
import type {
  ChildEntry,
  GateState,
  PartEntry,
  QueueEntry,
  RunEntry,
  StoreRecord,
  TaskEntry,
} from "../../../core/record/record.ts";
import { NO_METER } from "../../../core/queue/rate.ts";
import { parseTaskId } from "../../../core/task/task-id.ts";
import { isEnd, JSON_TYPE } from "../../../core/task/task.ts";
import { stageQueue } from "../../../core/run/run.ts";
import { decodeAdds } from "../../../core/handler/verification.ts";
import { type Gate, laneOf, newGate } from "../lanes.ts";
import type { Model, ModelChild, ModelPart, ModelTask } from "../model.ts";

/** Import: turns one record into objects of the model. transfer.ts of this folder calls it for each record. */

export function importRecord(model: Model, record: StoreRecord): void {
  switch (record.type) {
    case "queue":
      return importQueue(model, record);
    case "group":
      Object.assign(laneOf(model, record.queue, record.key), gateFrom(record));
      return;
    case "subscription": {
      const { pattern, group, queue, createdAt } = record;
      model.subscriptions.push({ id: ++model.subscribed, pattern, group, queue, createdAt });
      return;
    }
    case "document": {
      const { kind, name, value, dueAt = null } = record;
      if (!model.documents.has(kind)) model.documents.set(kind, new Map());
      model.documents.get(kind)!.set(name, { value, dueAt });
      return;
    }
    case "run":
      return importRun(model, record);
    case "part":
      return importPart(model, record);
    case "child":
      return importChild(model, record);
    case "task":
      return importTask(model, record);
    case "key": {
      const { queue, key, task: id, forgetAt = null, state = null } = record;
      model.queue(queue).keys.set(key, { id, forgetAt, state });
      return;
    }
    case "store":
    case "end":
  }
}

function gateFrom({ meter = NO_METER, heldUntil = 0, wakeAt }: GateState): Gate {
  return { meter, heldUntil, wakeAt: wakeAt ?? null };
}

function importQueue(model: Model, record: QueueEntry): void {
  const { name, policy, declared = null, paused = false, createdAt, reviewed = null, flow = [] } = record;
  model.queues.set(name, {
    ...{ name, named: policy, declared, paused, createdAt, reviewed },
    keys: new Map(),
    flow: new Map(flow.map(({ slot, ...rest }) => [slot, rest])),
    gate: { ...newGate(), ...gateFrom(record) },
    lanes: new Map(),
  });
}

function place(model: Model, id: string): { seq: number; createdAt: number } {
  return parseTaskId(id, model.store)!;
}

function importRun(model: Model, record: RunEntry): void {
  const { id, queue, pipeline, stages, underWay, state = null, endedAt = null, result = null } = record;
  const signals = new Map(record.signals?.map(({ name, value }) => [name, value]));
  model.runs.set(id, {
    ...{ id, ...place(model, id), queue, pipeline, stages, underWay, state, endedAt, result, parts: [] },
    signals,
    counts: record.counts ?? null,
  });
}

function importPart(model: Model, record: PartEntry): void {
  const { id, stage, part, state = null, startedAt = null, endedAt = null, awaitsJoin = null } = record;
  const run = model.runs.get(record.run)!;
  const queue = stageQueue(run.pipeline, stage);
  run.parts.push({
    ...{ id, ...place(model, id), queue, stage, part, state, startedAt, endedAt, awaitsJoin },
  });
}

function importChild(model: Model, record: ChildEntry): void {
  const { id, parent, n, name, queue, state = null, endedAt = null, result = null, error } = record;
  const { createdAt } = place(model, id);
  const child: ModelChild = {
    ...{ id, parent, n, name, queue, createdAt, state, endedAt, result },
    error: error ? { ...error, fingerprint: fingerprint(error) } : null,
  };
  model.families.set(parent, [...(model.families.get(parent) ?? []), child]);
}

function importTask(model: Model, record: TaskEntry): void {
  const { id, state, attempts = [] } = record;
  const { seq, createdAt } = place(model, id);
  const pos = record.pos ?? seq;
  const isHead = state === "ready" && record.groupKey !== undefined;
  const run = runOf(model, id);
  const task: ModelTask = {
    ...{ seq, id, queue: record.queue, state, data: record.data, createdAt, pos },
    contentType: record.contentType ?? JSON_TYPE,
    headers: record.headers ?? {},
    priority: record.priority ?? 0,
    groupKey: record.groupKey ?? null,
    idempotencyKey: record.idempotencyKey ?? null,
    maxAttempts: record.maxAttempts ?? null,
    cost: record.cost ?? null,
    urgent: record.urgent ?? false,
    expiresAt: record.expiresAt ?? null,
    place: record.linePos ?? pos,
    failures: record.failures ?? 0,
    dueAt: record.dueAt ?? null,
    waitsFor: record.waitsFor ?? null,
    steps: record.steps ?? [],
    blocksGroup: isHead || (record.blocksGroup ?? false),
    elsewhere: record.elsewhere ?? null,
    owner: null,
    claim: null,
    pending: pendingFrom(record),
    feedback: record.feedback ?? null,
    run,
    child: [...model.families.values()].flat().find((child) => child.id === id) ?? null,
    ledger: attempts,
    log: record.log ?? [],
    endedAt: record.endedAt ?? null,
    result: record.result ?? null,
    error: state === "dead" ? attempts.at(-1)!.error : null,
  };
  model.tasks.set(id, task);
  if (run && isEnd(state)) {
    const { endedAt } = task;
    Object.assign(run.part, { state, startedAt: attempts.at(-1)?.startedAt ?? null, endedAt });
  }
}

function runOf(model: Model, id: string): ModelTask["run"] {
  for (const run of model.runs.values()) {
    const part: ModelPart | undefined = run.parts.find((each) => each.id === id);
    if (part) return { run, part };
  }
  return null;
}

function pendingFrom({ verifying }: TaskEntry): ModelTask["pending"] {
  if (!verifying) return null;
  const { fence, worker, startedAt, result, adds, each = false, next, asked = null } = verifying;
  const decoded = adds === undefined ? [] : decodeAdds(adds);
  return { fence, worker, startedAt, result, adds: decoded, each, ...(next && { next }), asked };
}
