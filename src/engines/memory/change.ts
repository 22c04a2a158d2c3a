import {
  againNote,
  checkChange,
  checkNewPayload,
  destinationOf,
  goesOnBlocking,
  type TaskChange,
} from "../../core/task/change.ts";
import { LIMITS } from "../../core/input/limits.ts";
import { JSON_TYPE } from "../../core/task/task.ts";
import { stepsAside } from "../../core/task/transition.ts";
import type { Verbs } from "../../engine/engine.ts";
import { bringBack } from "./dead.ts";
import { freeGroup, schedule } from "./line.ts";
import type { Model, ModelTask } from "./model.ts";
import { promote } from "./sweep.ts";

/** The verb `change`. */
export function change(model: Model, { id, change: wanted }: Verbs["change"]["in"]): Verbs["change"]["out"] {
  const task = model.task(id);
  checkChange(wanted, { id, state: task.state, ofRun: task.run !== null });
  const changed =
    wanted.kind === "again" ? runAgain(model, task, wanted.fresh) : changePending(model, task, wanted);
  return { state: task.state, changed };
}

function runAgain(model: Model, task: ModelTask, fresh = false): boolean {
  const last = task.ledger.at(-1);
  if (last) task.log.push({ fence: last.fence, at: model.now, text: againNote(task.state) });
  task.log = task.log.slice(-LIMITS.logLines);
  task.result = null;
  bringBack(model, task, { delay: 0, fresh });
  return true;
}

function changePending(
  model: Model,
  task: ModelTask,
  wanted: Exclude<TaskChange, { kind: "again" }>,
): boolean {
  let changed = false;
  if (wanted.kind === "update") {
    checkNewPayload(wanted, task.queue, model.policy(task.queue));
    if (wanted.data !== undefined) {
      task.data = wanted.data;
      task.contentType = wanted.contentType ?? JSON_TYPE;
      changed = true;
    }
    if (wanted.priority !== undefined && wanted.priority !== task.priority) {
      task.priority = wanted.priority;
      changed = true;
      if (task.state === "ready") model.hintReady(task.queue);
    }
  }
  const goes = destinationOf(wanted, task.state);
  if (goes.to === "line") promote(model, task);
  if (goes.to === "schedule") reschedule(model, task, goes.delay);
  return changed || goes.to !== "stay";
}

function reschedule(model: Model, task: ModelTask, delay: number): void {
  const blocks = goesOnBlocking(task, stepsAside(task.blocksGroup, model.policy(task.queue)));
  task.elsewhere = null;
  task.owner = null;
  schedule(task, model.now + delay);
  if (!blocks) freeGroup(model, task);
}
