import {
  checkSameQueue,
  childKeyTaken,
  decodeSpawned,
  encodeSpawned,
  parentCancelled,
  planSpawn,
  shownName,
  type SpawnedTask,
} from "../../../core/handler/children.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { keepStep } from "../flows/steps.ts";
import { heldTask } from "../line/held.ts";
import type { Tx } from "../transaction/tx.ts";
import { addChecked, checkAdds, takenKey } from "./add.ts";
import { stateOfChild } from "./children.ts";
import { MARK_CLAIM } from "./park.ts";

/** The verb `spawn`. */

const SPAWNED = `SELECT value FROM step WHERE task = ? AND kind = 'child' AND name = ?`;
const KNOWN = `SELECT coalesce(max(n), 0) AS n FROM child WHERE parent = ?`;

export function spawn(tx: Tx, { id, fence, children }: Verbs["spawn"]["in"]): SpawnedTask[] {
  const parent = heldTask(tx, id, fence);
  if (parent.cancelled) throw parentCancelled(id);
  const known = new Map<string, string>();
  for (const { name, task } of children) {
    const step = tx.get<{ value: string }>(SPAWNED, parent.seq, name);
    if (!step) continue;
    checkSameQueue(shownName(name), task.queue, decodeSpawned(step.value));
    known.set(name, step.value);
  }
  const added = children.filter(({ name }) => !known.has(name));
  const { n: last } = tx.get<{ n: number }>(KNOWN, parent.seq)!;
  const { queue, groupKey } = parent;
  const tasks = planSpawn({ id, queue: queue.name, groupKey }, queue.policy, last, added);
  for (const task of tasks)
    if (task.idempotencyKey !== undefined && takenKey(tx, task)) throw childKeyTaken(task);
  checkAdds(tx, tasks);
  const spawned = addChecked(tx, tasks).map((task, i) => ({ ...task, n: last + 1 + i }));
  for (const [i, { name }] of added.entries())
    keepStep(tx, parent.seq, "child", name, encodeSpawned(spawned[i]!));
  tx.run(MARK_CLAIM, parent.seq);
  const byName = new Map(added.map(({ name }, i) => [name, spawned[i]!]));
  return children.map(({ name }) => byName.get(name) ?? knownChild(tx, known.get(name)!));
}

function knownChild(tx: Tx, value: string): SpawnedTask {
  const { n, ...place } = decodeSpawned(value);
  return { ...place, state: stateOfChild(tx, tx.place(place.id)!.seq), existing: true, n };
}
