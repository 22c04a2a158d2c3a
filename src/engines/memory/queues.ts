import { decideDeclaration } from "../../core/queue/declaration.ts";
import { resolvePolicy } from "../../core/queue/policy.ts";
import { sizeOfRow } from "../../core/answer/answer-size.ts";
import { rankOf } from "../../core/task/task.ts";
import type { Paged, QueueSummary } from "../../core/answer/page.ts";
import { nameAfter, pageOf } from "../../engine/cursor.ts";
import type { Declared, Verbs } from "../../engine/engine.ts";
import { figuresOf } from "./inspect.ts";
import { remove } from "./line.ts";
import type { Model, ModelTask } from "./model.ts";
import { adoptPolicy } from "./review.ts";
import { removeSubscriptions } from "./topics.ts";

/** Verbs of whole queues: `declare`, `pause`, `queues`, `purge`, `drop`. */

export function declare(
  model: Model,
  { queue: name, policy, force = false, create = false }: Verbs["declare"]["in"],
): Declared {
  const isNew = !model.queues.has(name);
  const queue = model.queue(name);
  const { outcome, changes, named, declared } = decideDeclaration(queue, isNew, policy, { force, create });
  const before = resolvePolicy(queue.named);
  Object.assign(queue, { named, declared });
  if (changes) {
    model.announce({ type: "queue.updated", at: model.now, queue: name });
    adoptPolicy(model, queue, before);
  }
  return { policy: resolvePolicy(named), outcome };
}

export function pause(model: Model, { queue: name, paused }: Verbs["pause"]["in"]): { changed: boolean } {
  const queue = model.queue(name);
  const changed = queue.paused !== paused;
  queue.paused = paused;
  if (changed)
    model.announce({ type: paused ? "queue.paused" : "queue.resumed", at: model.now, queue: name });
  if (changed && !paused) model.hintReady(name, model.tasksOf(name, "ready").length);
  return { changed };
}

export function queues(
  model: Model,
  { queue: name, stats = false, after, limit }: Verbs["queues"]["in"],
): Paged<QueueSummary> {
  const start = nameAfter(after);
  const found = [...model.queues.values()]
    .filter((queue) => (name === undefined ? queue.name > start : queue.name === name))
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .map(({ name: queue, named, paused, createdAt }) => ({
      name: queue,
      policy: resolvePolicy(named),
      paused,
      createdAt,
      ...(stats && { stats: figuresOf(model, queue) }),
    }));
  return pageOf(found, limit, { sizeOf: sizeOfRow, keyOf: (queue) => [queue.name] });
}

export function purge(
  model: Model,
  { queue, upTo, limit }: Verbs["purge"]["in"],
): { removed: number; upTo: number; more: boolean } {
  const last = upTo ?? model.seq;
  // Waiting tasks first: to remove a head would promote the next one.
  const order = [["waiting"], ["scheduled", "parked"], ["ready"]];
  const turnOf = ({ state }: ModelTask): number => order.findIndex((states) => states.includes(state));
  const doomed = model
    .tasksOf(queue, "waiting", "scheduled", "parked", "ready")
    .filter((task) => task.pos <= last)
    .sort((a, b) => turnOf(a) - turnOf(b) || inTurn(a, b));
  for (const task of doomed.slice(0, limit)) remove(model, task, { keepKey: false });
  const more = doomed.length > limit;
  if (doomed.length > 0) model.hint.ended = true;
  if (!more && model.queues.has(queue)) model.announce({ type: "queue.purged", at: model.now, queue });
  return { removed: Math.min(doomed.length, limit), upTo: last, more };
}

/** Waiting tasks by group, ready ones by priority: the order in which an engine can read its indexes. */
function inTurn(a: ModelTask, b: ModelTask): number {
  if (a.state === "waiting" && a.groupKey !== b.groupKey) return a.groupKey! < b.groupKey! ? -1 : 1;
  if (a.state === "ready") return rankOf(a) - rankOf(b) || a.place - b.place;
  return a.pos - b.pos;
}

export function drop(
  model: Model,
  { queue, limit }: Verbs["drop"]["in"],
): { removed: number; more: boolean } {
  if (!model.queues.has(queue)) return { removed: 0, more: false };
  removeSubscriptions(model, (subscription) => subscription.queue === queue);
  const doomed = [...model.tasks.values()].filter((task) => task.queue === queue);
  for (const task of doomed.slice(0, limit)) {
    if (task.claim?.session != null) {
      model.notices.push({ session: task.claim.session, kind: "lost", id: task.id, fence: task.claim.fence });
    }
    remove(model, task, { keepKey: false });
  }
  const more = doomed.length > limit;
  if (doomed.length > 0) model.hint.ended = true;
  if (!more) {
    model.queues.delete(queue);
    model.announce({ type: "queue.deleted", at: model.now, queue });
  }
  return { removed: Math.min(doomed.length, limit), more };
}
