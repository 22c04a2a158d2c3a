import {
  checkSameQueue,
  childKeyTaken,
  type ChildTask,
  decodeSpawned,
  encodeSpawned,
  parentCancelled,
  planSpawn,
  shownName,
  type SpawnedTask,
} from "../../../core/handler/children.ts";
import type { Verbs } from "../../../engine/engine.ts";
import { beginFamily } from "../flows/children.ts";
import { keepStep } from "../flows/steps.ts";
import { heldTask } from "../line/held.ts";
import { allAnswered } from "../statements/all-answered.ts";
import { fromText, toText } from "../statements/text.ts";
import type { Tx } from "../transaction/tx.ts";
import { addChecked, checkAdds, keyName, takenKeys } from "./add.ts";
import { statesOfChildren } from "./children.ts";
import { MARK_CLAIM } from "./park.ts";

/** The verb `spawn`. */

const SPAWNED = `SELECT name, value FROM dibs.step WHERE task = $1 AND kind = 'child' AND name = ANY ($2::text[])`;
const KNOWN = `SELECT coalesce(max(n), 0)::int4 AS n FROM dibs.child WHERE parent = $1`;

export async function spawn(tx: Tx, { id, fence, children }: Verbs["spawn"]["in"]): Promise<SpawnedTask[]> {
  const parent = await heldTask(tx, id, fence);
  if (parent.cancelled) throw parentCancelled(id);
  await tx.runs.recheck([parent.seq]);
  const names = children.map(({ name }) => toText(name));
  const [steps, [known]] = await allAnswered([
    tx.all<{ name: string; value: string }>(SPAWNED, parent.seq, names),
    tx.all<{ n: number }>(KNOWN, parent.seq),
  ]);
  const spawnedBefore = new Map(steps.map(({ name, value }) => [fromText(name), fromText(value)]));
  for (const { name, task } of children) {
    const value = spawnedBefore.get(name);
    if (value !== undefined) checkSameQueue(shownName(name), task.queue, decodeSpawned(value));
  }
  const last = known!.n;
  const added = children.filter(({ name }) => !spawnedBefore.has(name));
  const { queue, groupKey } = parent;
  const tasks = planSpawn({ id, queue: queue.name, groupKey }, queue.policy, last, added);
  const spawned = await addChildren(tx, parent.seq, tasks);
  for (const [i, { name }] of added.entries())
    keepStep(tx, parent.seq, "child", name, encodeSpawned(spawned[i]!));
  tx.send(MARK_CLAIM, parent.seq);
  const byName = new Map(added.map(({ name }, i) => [name, spawned[i]!]));
  for (const [name, child] of await knownChildren(tx, spawnedBefore)) byName.set(name, child);
  return children.map(({ name }) => byName.get(name)!);
}

async function addChildren(tx: Tx, parent: number, tasks: ChildTask[]): Promise<SpawnedTask[]> {
  const taken = await takenKeys(tx, tasks);
  for (const task of tasks) if (taken.has(keyName(task))) throw childKeyTaken(task);
  await checkAdds(tx, tasks);
  if (tasks.length === 0) return [];
  beginFamily(tx, parent);
  const added = await addChecked(tx, tasks);
  return added.map((task, i) => ({ ...task, n: tasks[i]!.childOf.n }));
}

async function knownChildren(tx: Tx, values: Map<string, string>): Promise<Map<string, SpawnedTask>> {
  if (values.size === 0) return new Map();
  const known = [...values].map(([name, value]) => ({ name, ...decodeSpawned(value) }));
  const seqs = known.map((child) => tx.place(child.id)!.seq);
  const states = await statesOfChildren(tx, seqs);
  return new Map(
    known.map(({ name, n, ...place }, i) => {
      return [name, { ...place, state: states.get(seqs[i]!)!, existing: true, n }];
    }),
  );
}
