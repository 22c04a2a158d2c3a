import { isDeepStrictEqual } from "node:util";
import { isEnd, type TaskRecord, type TaskState } from "../../../src/core/task/task.ts";
import { BOUNDS } from "../../../src/engine/bounds.ts";
import type { Books, Entry } from "./books.ts";
import { groupOf, type Turn } from "./turn.ts";
import { checkMissed } from "./verifying.ts";
import { check } from "./violation.ts";

/** What must hold after every operation. */
export function close(turn: Turn): void {
  checkMissed(turn);
  const entered = follow(turn);
  checkGroups(turn, entered);
  for (const { id, before, after } of turn.left) {
    check(
      false,
      `task ${id} changed for no reason: ${JSON.stringify(before)} became ${JSON.stringify(after)}`,
    );
  }
  checkNothingLost(turn);
  checkCounters(turn);
  checkQueues(turn);
  checkWorkers(turn);
}

/** Updates the books with what was seen. Returns the tasks that became the head of their group. */
function follow(turn: Turn): Entry[] {
  const { books, before, after } = turn;
  const entered: Entry[] = [];
  for (const [id, record] of after.tasks) {
    const entry = books.entries.get(id);
    const was = before.tasks.get(id)?.state;
    if (!entry || was === record.state) continue;
    if (isEnd(record.state)) endTask(turn, entry, record);
    if (record.state === "ready") entry.keptUntil = keptUntil(books, entry);
    else if (record.state !== "claimed") entry.keptUntil = null;
    if (entry.task.groupKey !== undefined && record.state === "ready" && !entry.blocksGroup) {
      entry.blocksGroup = true;
      entered.push(entry);
    }
  }
  return entered;
}

function endTask(turn: Turn, entry: Entry, record: TaskRecord): void {
  const { books } = turn;
  check(record.endedAt === books.now, `task ${entry.id} ended at ${record.endedAt}; it is ${books.now}`);
  turn.freed(entry);
  // Dead tasks keep their steps, because they may be redriven and continue from there.
  if (record.state !== "dead") {
    entry.steps.clear();
    entry.feedback = undefined;
  }
  const { queue, idempotencyKey } = entry.task;
  const key = idempotencyKey === undefined ? undefined : books.queue(queue).keys.get(idempotencyKey);
  if (key?.id === entry.id && isEnd(record.state)) key.end = { at: books.now, state: record.state };
}

/** Retry elsewhere: until when it is offered only to other workers, if there are any. */
function keptUntil(books: Books, entry: Entry): number | null {
  const { elsewhere } = books.policy(entry.task.queue);
  return entry.failures > 0 && elsewhere > 0 && books.hasOtherWorker(entry) ? books.now + elsewhere : null;
}

/** In order, one at a time, and no task waits without a head. */
function checkGroups(turn: Turn, entered: Entry[]): void {
  const { books, after } = turn;
  const heads = new Map<string, Entry>();
  for (const entry of books.entries.values()) {
    if (!entry.blocksGroup) continue;
    const other = heads.get(groupOf(entry));
    check(!other, () => `tasks ${entry.id} and ${other!.id} run at once in group ${groupOf(entry)}`);
    heads.set(groupOf(entry), entry);
  }
  const waiting = [...after.tasks.values()].filter(({ state }) => state === "waiting");
  for (const { id } of waiting) {
    const entry = books.entries.get(id);
    check(!entry || heads.has(groupOf(entry)), `task ${id} waits behind nothing`);
  }
  for (const entry of entered) {
    const first = waiting.every(({ id }) => {
      const other = books.entries.get(id);
      return !other || groupOf(other) !== groupOf(entry) || other.arrival > entry.arrival;
    });
    check(first, `task ${entry.id} overtook its group ${groupOf(entry)}`);
    if (turn.freedGroups.has(groupOf(entry)) && turn.before.tasks.get(entry.id)?.state === "waiting")
      turn.expect(entry, "ready");
  }
}

/**
 * Every task that was ever added is in exactly one state, or was removed by a verb that says so. (Duplicates are found
 * earlier.)
 */
function checkNothingLost({ books, after }: Turn): void {
  check(after.tasks.size === books.entries.size, () => {
    const lost = [...books.entries.keys()].filter((id) => !after.tasks.has(id));
    const strange = [...after.tasks.keys()].filter((id) => !books.entries.has(id));
    return `lost: ${lost.join(", ") || "none"}; of unknown origin: ${strange.map((id) => `${id} (${books.gone.get(id) ?? "never added"})`).join(", ") || "none"}`;
  });
  for (const [id, entry] of books.entries) {
    const record = after.tasks.get(id);
    check(record !== undefined, `task ${id} is lost`);
    check(
      (record.state === "claimed") === (entry.holder !== null),
      `task ${id} is ${record.state}, and its holder is ${JSON.stringify(entry.holder)}`,
    );
    if (!isEnd(record.state))
      check(record.attempt === entry.failures + 1, `task ${id} is on attempt ${record.attempt}`);
    check(
      record.cancelRequested === (entry.holder?.cancelled ?? false),
      `task ${id}: cancelRequested is ${record.cancelRequested}`,
    );
    check(record.expiresAt === entry.expiresAt, `task ${id} expires at ${record.expiresAt}`);
  }
}

/** The counters match the lists. */
function checkCounters({ books, after }: Turn): void {
  const counted = new Map<string, Partial<Record<TaskState, number>>>(
    after.stats.map(({ queue }) => [queue, {}]),
  );
  const oldest = new Map<string, number>();
  for (const { queue, state, createdAt } of after.tasks.values()) {
    const depth = counted.get(queue)!;
    depth[state] = (depth[state] ?? 0) + 1;
    if (state === "ready") oldest.set(queue, Math.min(oldest.get(queue) ?? Infinity, createdAt));
  }
  const since = Math.floor((books.now - BOUNDS.rateWindow) / BOUNDS.rateSlot);
  for (const { queue, depth, oldestAge, rates } of after.stats) {
    for (const [state, count] of Object.entries(depth) as [TaskState, number][]) {
      check(
        count === (counted.get(queue)![state] ?? 0),
        `${queue} counts ${count} ${state}; listed are ${counted.get(queue)![state]}`,
      );
    }
    const age = oldest.has(queue) ? books.now - oldest.get(queue)! : null;
    check(oldestAge === age, `the oldest task ready in ${queue} is ${oldestAge} ms old; it should be ${age}`);
    const flow = (books.queues.get(queue)?.flow ?? []).filter(
      ({ at }) => Math.floor(at / BOUNDS.rateSlot) > since,
    );
    const perSecond = (name: string) =>
      flow.filter(({ what }) => what === name).length / (BOUNDS.rateWindow / 1_000);
    check(
      rates.addedPerSecond === perSecond("added") &&
        rates.donePerSecond === perSecond("done") &&
        rates.failedPerSecond === perSecond("failed"),
      () =>
        `rates of ${queue}: ${JSON.stringify(rates)}; added ${perSecond("added")}, done ${perSecond("done")}, failed ${perSecond("failed")}`,
    );
  }
}

function checkQueues({ books, after }: Turn): void {
  const seen = after.queues.map(({ name, policy, paused }) => ({ name, policy, paused }));
  const expected = [...books.queues]
    .map(([name, { paused }]) => ({ name, policy: books.policy(name), paused }))
    .sort((a, b) => (a.name < b.name ? -1 : 1));
  check(
    isDeepStrictEqual(seen, expected),
    () => `queues are ${JSON.stringify(seen)}; they should be ${JSON.stringify(expected)}`,
  );
}

function checkWorkers({ books, after }: Turn): void {
  const expected = [...books.sessions]
    .filter(([, session]) => books.isAlive(session))
    .map(
      ([id, { worker, heartbeatAt }]) =>
        `${worker.id} ${books.awake - heartbeatAt} ${books.heldBy(id).length}`,
    );
  const seen = after.workers.map(({ id, silentFor, claims }) => `${id} ${silentFor} ${claims}`);
  check(
    seen.sort().join() === expected.sort().join(),
    () => `workers are ${seen.join()}; they should be ${expected.join()}`,
  );
}
