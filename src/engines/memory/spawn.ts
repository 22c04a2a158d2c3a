import {
  checkSameQueue,
  childKeyTaken,
  decodeSpawned,
  encodeSpawned,
  parentCancelled,
  planSpawn,
  shownName,
  type SpawnedTask,
} from "../../core/handler/children.ts";
import type { Verbs } from "../../engine/engine.ts";
import { addChecked, checkAdds, takenKey } from "./add.ts";
import { familyOf, stateOf } from "./children.ts";
import { heldTask } from "./line.ts";
import type { Model, ModelTask } from "./model.ts";

/** The verb `spawn`. */

export function spawn(model: Model, { id, fence, children }: Verbs["spawn"]["in"]): SpawnedTask[] {
  const parent = heldTask(model, id, fence);
  if (parent.claim!.cancelled) throw parentCancelled(id);
  for (const { name, task } of children) {
    const step = stepOf(parent, name);
    if (step) checkSameQueue(shownName(name), task.queue, decodeSpawned(step.value));
  }
  const added = children.filter(({ name }) => !stepOf(parent, name));
  const known = familyOf(model, id).length;
  const tasks = planSpawn(parent, model.policy(parent.queue), known, added);
  for (const task of tasks) if (takenKey(model, task)) throw childKeyTaken(task);
  checkAdds(model, tasks);
  const spawned = addChecked(model, tasks);
  const steps = added.map(({ name }, i) => {
    const { id: child, queue } = spawned[i]!;
    return {
      kind: "child" as const,
      name,
      value: encodeSpawned({ id: child, queue, n: tasks[i]!.childOf.n }),
    };
  });
  parent.steps = [...parent.steps, ...steps];
  const isNew = new Map(added.map(({ name }, i) => [name, spawned[i]!]));
  return children.map(({ name }) => {
    const { n, ...place } = decodeSpawned(stepOf(parent, name)!.value);
    const existing = !isNew.has(name);
    return { ...place, state: isNew.get(name)?.state ?? stateOf(model, place.id), existing, n };
  });
}

function stepOf({ steps }: ModelTask, name: string): ModelTask["steps"][number] | undefined {
  return steps.find((step) => step.kind === "child" && step.name === name);
}
