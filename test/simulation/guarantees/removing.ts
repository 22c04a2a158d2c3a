import { keyExpiresAt } from "../../../src/core/task/idempotency.ts";
import type { DeadFilter, TaskRecord } from "../../../src/core/task/task.ts";
import type { Op, Outcome } from "../../../src/engine/engine.ts";
import { answer } from "../known.ts";
import type { Entry } from "./books.ts";
import type { Turn } from "./turn.ts";
import { check } from "./violation.ts";

/** Verbs that remove tasks, or redrive dead ones: they affect exactly the tasks that they name and count. */

export function checkPurge(turn: Turn, op: Op<"purge">, outcome: Outcome<"purge">): void {
  const { books } = turn;
  const { removed, upTo, more } = answer<"purge">(outcome);
  if (op.upTo === undefined) books.purges.set(upTo, books.arrivals);
  const last = books.purges.get(upTo)!;
  const named = [...turn.before.tasks.values()].filter(
    (task) =>
      task.queue === op.queue &&
      ["ready", "waiting", "scheduled", "parked"].includes(task.state) &&
      books.entries.get(task.id)!.arrival <= last,
  );
  const gone = takeGone(turn, "purge", named, { freeKey: true });
  check(
    removed === gone && gone === Math.min(named.length, op.limit),
    `purge removed ${gone} and says ${removed}`,
  );
  check(more === named.length > op.limit, `purge says more: ${more}`);
}

export function checkDrop(turn: Turn, op: Op<"drop">, outcome: Outcome<"drop">): void {
  const { books } = turn;
  const { removed, more } = answer<"drop">(outcome);
  const named = [...turn.before.tasks.values()].filter((task) => task.queue === op.queue);
  for (const { id } of named) {
    const holder = books.entries.get(id)!.holder;
    if (turn.after.tasks.has(id) || holder?.session == null) continue;
    books.notices.push({ session: holder.session, kind: "lost", id, fence: holder.fence });
  }
  books.subscriptions = books.subscriptions.filter(({ queue }) => queue !== op.queue);
  const gone = takeGone(turn, "drop", named, { freeKey: true });
  check(
    removed === gone && gone === Math.min(named.length, op.limit),
    `drop removed ${gone} and says ${removed}`,
  );
  check(more === named.length > op.limit, `drop says more: ${more}`);
  if (!more) books.queues.delete(op.queue);
}

export function checkPrune(turn: Turn, op: Op<"prune">, outcome: Outcome<"prune">): void {
  const { books } = turn;
  const { removed, more } = answer<"prune">(outcome);
  const named = [...books.queues.keys()].flatMap((queue) => pastRetention(turn, queue));
  const gone = takeGone(turn, "prune", named, { freeKey: false });
  check(
    removed === gone && gone === Math.min(named.length, op.limit),
    `prune removed ${gone} and says ${removed}`,
  );
  check(more === named.length > op.limit, `prune says more: ${more}`);
  for (const { keys } of books.queues.values()) {
    for (const [name, { end }] of keys) if (end && keyExpiresAt(end.at) <= books.now) keys.delete(name);
  }
}

function pastRetention({ books, before }: Turn, queue: string): TaskRecord[] {
  const { age, count } = books.policy(queue).retention;
  const ended = [...before.tasks.values()]
    .filter((task) => task.queue === queue && ["done", "cancelled", "expired"].includes(task.state))
    .sort((a, b) => a.endedAt! - b.endedAt! || orderOf(books.entries, a) - orderOf(books.entries, b));
  return ended.filter((task, index) => task.endedAt! + age <= books.now || index < ended.length - count);
}

export function checkDiscard(turn: Turn, op: Op<"discard">, outcome: Outcome<"discard">): void {
  const named = deadOnes(turn, op.queue, op.filter);
  const gone = takeGone(turn, "discard", named, { freeKey: true });
  const { count } = answer<"discard">(outcome);
  check(
    count === gone && gone === named.length,
    `discard removed ${gone}, says ${count}, was asked for ${named.length}`,
  );
}

export function checkRedrive(turn: Turn, op: Op<"redrive">, outcome: Outcome<"redrive">): void {
  const { books } = turn;
  const named = deadOnes(turn, op.queue, op.filter);
  const { count } = answer<"redrive">(outcome);
  check(count === named.length, `redrive says ${count}, was asked for ${named.length}`);
  for (const [index, { id }] of named.entries())
    checkBroughtBack(turn, books.entries.get(id)!, { fresh: op.fresh ?? false, delay: index * op.spacing });
}

/** A task that had ended runs again. */
export function checkBroughtBack(
  turn: Turn,
  entry: Entry,
  { fresh, delay }: { fresh: boolean; delay: number },
): void {
  const { books } = turn;
  const { id } = entry;
  const { queue, idempotencyKey: key, groupKey } = entry.task;
  entry.failures = 0;
  entry.failedBy = [];
  for (const name of entry.steps.keys()) if (fresh || name.startsWith("timeout ")) entry.steps.delete(name);
  if (fresh) entry.feedback = undefined;
  entry.arrival = ++books.arrivals;
  entry.expiresAt = null;
  // It gets its key back, unless a newer task has taken it meanwhile.
  const holder = key === undefined ? undefined : books.keyHolder(queue, key);
  if (key !== undefined && (!holder || holder.id === id)) books.queue(queue).keys.set(key, { id, end: null });
  const { state } = turn.after.tasks.get(id)!;
  const now = groupKey !== undefined && state === "waiting" ? "waiting" : "ready";
  turn.expect(entry, delay > 0 ? "scheduled" : now, delay > 0 ? books.now + delay : null);
}

function deadOnes({ books, before }: Turn, queue: string, filter: DeadFilter): TaskRecord[] {
  return [...before.tasks.values()]
    .filter((task) => task.queue === queue && task.state === "dead")
    .filter(({ id }) => !filter.ids || filter.ids.includes(id))
    .filter(({ error }) => filter.pattern === undefined || error!.fingerprint === filter.pattern)
    .filter(({ error }) => {
      return `${error!.name}: ${error!.message}`.toLowerCase().includes((filter.error ?? "").toLowerCase());
    })
    .sort((a, b) => a.endedAt! - b.endedAt! || orderOf(books.entries, a) - orderOf(books.entries, b));
}

function orderOf(entries: Turn["books"]["entries"], { id }: TaskRecord): number {
  return entries.get(id)!.order;
}

/** How many of the named tasks are gone. A task that is gone and was not named stays an unexplained change. */
function takeGone(turn: Turn, verb: string, named: TaskRecord[], options: { freeKey: boolean }): number {
  const gone = named.filter(({ id }) => !turn.after.tasks.has(id));
  for (const { id } of gone) {
    turn.take(id);
    turn.freed(turn.books.entries.get(id)!);
    turn.books.forget(turn.books.entries.get(id)!, verb, options);
  }
  return gone.length;
}
