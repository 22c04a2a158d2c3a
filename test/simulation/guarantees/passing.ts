import { isDeepStrictEqual } from "node:util";
import type { Notice } from "../../../src/engine/hint.ts";
import type { Op, Outcome } from "../../../src/engine/engine.ts";
import { answer } from "../known.ts";
import type { Books, Entry } from "./books.ts";
import { endClaim } from "./holding.ts";
import { checkDue } from "./putting.ts";
import type { Change, Turn } from "./turn.ts";
import { check } from "./violation.ts";

/** What is due: nothing happens early, and nothing is left over. */
export function checkHousekeep(turn: Turn, outcome: Outcome<"housekeep">): void {
  const { books } = turn;
  const promoted: Entry[] = [];
  for (const change of turn.left) passOne(turn, change, promoted);
  // A delayed task joins its group when it is due: behind the tasks that are there.
  promoted.sort((a, b) => dueAt(turn, a) - dueAt(turn, b) || a.order - b.order);
  for (const entry of promoted) {
    if (entry.task.groupKey !== undefined && !entry.blocksGroup) entry.arrival = ++books.arrivals;
  }
  for (const task of turn.after.tasks.values()) {
    const entry = books.entries.get(task.id)!;
    const unclaimed = ["ready", "waiting", "scheduled", "parked"].includes(task.state);
    check(task.dueAt === null || task.dueAt > books.now, `task ${task.id} is due and was left ${task.state}`);
    check(
      !(unclaimed && books.isOutlived(entry)),
      `task ${task.id} outlived its time and was left ${task.state}`,
    );
    check(!books.isLapsed(entry), `task ${task.id} is still claimed, and its lease has passed`);
  }
  for (const [id, session] of books.sessions) {
    if (!books.isAlive(session) && books.heldBy(id).length === 0) endSession(books, id);
  }
  checkDue(books, outcome);
  checkNext(turn, answer<"housekeep">(outcome).next);
}

function passOne(turn: Turn, { id, before, after }: Change, promoted: Entry[]): void {
  const { books } = turn;
  const entry = books.entries.get(id)!;
  if (before?.state === "claimed") {
    check(
      books.isLapsed(entry),
      () =>
        `task ${id} lost its claim before its lease had passed: now ${books.awake}, ${JSON.stringify(entry.holder)}`,
    );
    const { session, fence } = entry.holder!;
    if (session !== null) books.notices.push({ session, kind: "lost", id, fence });
    endClaim(turn, entry, "lost");
  } else if (after?.state === "expired") {
    check(books.isOutlived(entry), `task ${id} expired before its time-to-live had passed`);
    turn.expect(entry, "expired");
  } else if (before?.state === "scheduled" || before?.state === "parked") {
    check(before.dueAt !== null && before.dueAt <= books.now, `task ${id} came before it was due`);
    if (before.waitsFor !== null) entry.steps.set(`timeout ${before.waitsFor}`, null);
    check(
      after?.state === "ready" || after?.state === "waiting",
      `task ${id} was due and is ${after?.state}`,
    );
    turn.expect(entry, after.state);
    promoted.push(entry);
  }
}

function dueAt(turn: Turn, entry: Entry): number {
  return turn.before.tasks.get(entry.id)!.dueAt!;
}

/** No lost wake-up and no busy polling: the next check is not later than the next due time, and not immediate. */
function checkNext(turn: Turn, next: number | null): void {
  const { books } = turn;
  const times: number[] = [];
  for (const task of turn.after.tasks.values()) {
    const entry = books.entries.get(task.id)!;
    if (task.dueAt !== null) times.push(task.dueAt - books.now);
    if (task.state === "ready" && entry.keptUntil !== null) times.push(entry.keptUntil - books.now);
    if (["ready", "waiting", "scheduled", "parked"].includes(task.state) && entry.expiresAt !== null)
      times.push(entry.expiresAt - books.now);
    if (entry.holder?.session === null) times.push(entry.holder.deadline - books.awake);
    if (entry.holder != null && entry.holder.session !== null) {
      times.push(books.sessions.get(entry.holder.session)!.heartbeatAt + entry.holder.lease - books.awake);
    }
  }
  for (const { dueAt: at } of books.documents.values()) if (at !== null) times.push(at - books.now);
  const first = Math.min(...times.filter((time) => time > 0));
  check(
    first === Infinity || (next !== null && next <= first),
    `housekeep says ${next}; something happens in ${first} ms`,
  );
  check(next === null || next > 0, "housekeep asks to be called again at once, and nothing is left to do");
}

export function checkHeartbeat(turn: Turn, op: Op<"heartbeat">, outcome: Outcome<"heartbeat">): void {
  const { books } = turn;
  for (const id of op.sessions) {
    const session = books.sessions.get(id);
    if (!session) {
      books.notices.push({ session: id, kind: "gone" });
      continue;
    }
    session.heartbeatAt = books.awake;
    for (const entry of books.heldBy(id)) {
      if (entry.holder!.deadline > books.awake) continue;
      books.notices.push({ session: id, kind: "timeout", id: entry.id, fence: entry.holder!.fence });
      endClaim(turn, entry, "timeout");
    }
  }
  const mine = books.notices.filter((notice) => op.sessions.includes(notice.session));
  books.notices = books.notices.filter((notice) => !op.sessions.includes(notice.session));
  const { notices } = answer<"heartbeat">(outcome);
  check(
    isDeepStrictEqual(sorted(notices), sorted(mine)),
    () => `heartbeat brought ${JSON.stringify(notices)}; it should be ${JSON.stringify(mine)}`,
  );
}

function sorted(notices: Notice[]): string[] {
  const text = (notice: Notice) =>
    "id" in notice
      ? `${notice.session} ${notice.kind} ${notice.id} ${notice.fence}`
      : `${notice.session} ${notice.kind}`;
  return notices.map(text).sort();
}

export function checkReconcile(turn: Turn, op: Op<"reconcile">, outcome: Outcome<"reconcile">): void {
  const { books } = turn;
  const unknown = books.heldBy(op.session).filter((entry) => !op.fences.includes(entry.holder!.fence));
  for (const entry of unknown) {
    const { cancelled } = entry.holder!;
    // As if never claimed: no row in the ledger.
    endClaim(turn, entry, cancelled ? "cancelled" : "released", 0, cancelled);
  }
  check(
    answer<"reconcile">(outcome).released === unknown.length,
    `reconcile released ${JSON.stringify(outcome)}, unknown were ${unknown.length}`,
  );
}

export function checkRejoin(turn: Turn, op: Op<"rejoin">, outcome: Outcome<"rejoin">): void {
  const { books } = turn;
  const old = books.sessions.get(op.session);
  check("ok" in outcome === (old !== undefined), `rejoin answered ${JSON.stringify(outcome)}`);
  if (!old || "refused" in outcome) return;
  const { session, lost } = outcome.ok;
  check(!books.sessions.has(session), `session ${session} was given twice`);
  books.sessions.delete(op.session);
  books.sessions.set(session, { ...old, heartbeatAt: books.awake });
  for (const notice of books.notices) if (notice.session === op.session) notice.session = session;
  const held = books.heldBy(op.session);
  for (const entry of held) entry.holder!.session = session;
  const fences = held.map((entry) => entry.holder!.fence);
  check(
    isDeepStrictEqual(
      lost,
      op.fences.filter((fence) => !fences.includes(fence)),
    ),
    `rejoin says ${JSON.stringify(lost)} of ${JSON.stringify(op.fences)} are lost; it holds ${JSON.stringify(fences)}`,
  );
  for (const entry of held) {
    if (op.fences.includes(entry.holder!.fence)) continue;
    const { cancelled } = entry.holder!;
    endClaim(turn, entry, cancelled ? "cancelled" : "released", 0, cancelled);
  }
}

export function checkLeave(turn: Turn, op: Op<"leave">, outcome: Outcome<"leave">): void {
  const { books } = turn;
  const held = books.sessions.has(op.session) ? books.heldBy(op.session) : [];
  endSession(books, op.session);
  for (const entry of held)
    endClaim(turn, entry, op.lost ? "lost" : entry.holder!.cancelled ? "cancelled" : "released");
  check(
    answer<"leave">(outcome).released === held.length,
    `leave released ${JSON.stringify(outcome)}, held were ${held.length}`,
  );
}

function endSession(books: Books, id: number): void {
  books.sessions.delete(id);
  books.notices = books.notices.filter((notice) => notice.session !== id);
}
