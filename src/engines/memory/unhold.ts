import type { Verbs } from "../../engine/engine.ts";
import { fillLane } from "./line.ts";
import type { Model } from "./model.ts";

/** The verb `unhold`: ends a hold of a group or a queue early. */

export function unhold(
  model: Model,
  { queue: name, groupKey: key }: Verbs["unhold"]["in"],
): { lifted: boolean } {
  const queue = model.queues.get(name);
  const gate = key === undefined ? queue?.gate : queue?.lanes.get(key);
  if (!gate || gate.heldUntil <= model.now) return { lifted: false };
  gate.heldUntil = 0;
  if (key === undefined) model.hintReady(name, model.tasksOf(name, "ready").length);
  else fillLane(model, name, key);
  return { lifted: true };
}
