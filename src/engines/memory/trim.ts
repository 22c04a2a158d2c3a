import { dropsOldest, sizeOf, surplusOf } from "../../core/task/add-rules.ts";
import { BOUNDS } from "../../engine/bounds.ts";
import { rankOf } from "../../core/task/task.ts";
import { drop } from "./line.ts";
import type { Model, ModelTask } from "./model.ts";

/** After an add to a full queue: drops its oldest ready tasks, those of the lowest priority first. */
export function trim(model: Model, queue: string, added: number): void {
  const policy = model.policy(queue);
  if (!dropsOldest(policy)) return;
  let surplus = surplusOf(model.depth(queue), policy);
  let bytes = policy.maxBytes === null ? 0 : readyBytes(model, queue) - policy.maxBytes;
  const line = lineOf(model, queue);
  line.sort((a, b) => rankOf(b) - rankOf(a) || a.place - b.place);
  for (const task of line.slice(0, Math.max(added, BOUNDS.sweep))) {
    if (surplus <= 0 && bytes <= 0) break;
    surplus--;
    bytes -= sizeOf(task.data);
    drop(model, task);
  }
}

/** The ready tasks that are for every worker. */
function lineOf(model: Model, queue: string): ModelTask[] {
  return model.tasksOf(queue, "ready").filter(({ elsewhere, owner }) => !elsewhere && owner === null);
}

export function readyBytes(model: Model, queue: string): number {
  return lineOf(model, queue).reduce((sum, { data }) => sum + sizeOf(data), 0);
}
