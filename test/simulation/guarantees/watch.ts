import { isDeepStrictEqual } from "node:util";
import type { Reading } from "../../../src/core/time/clock.ts";
import { differs, mergePolicy } from "../../../src/core/queue/policy.ts";
import { type Attempt, isEnd } from "../../../src/core/task/task.ts";
import {
  type Op,
  type Outcome,
  READING_VERBS,
  type Store,
  type VerbName,
} from "../../../src/engine/engine.ts";
import { answer } from "../known.ts";
import { ExpectedTime } from "../machine.ts";
import { checkAdded, refusalOfAdds } from "./adding.ts";
import { Books, type Holder, type Row } from "./books.ts";
import { checkChange } from "./changing.ts";
import { checkClaim } from "./claiming.ts";
import { close } from "./closing.ts";
import { checkHeartbeat, checkLeave, checkReconcile, checkRejoin, checkHousekeep } from "./passing.ts";
import { checkPublish, checkSubscribe, checkSubscriptions, checkUnsubscribe } from "./publishing.ts";
import { checkDocuments, checkPut } from "./putting.ts";
import { checkDiscard, checkDrop, checkPrune, checkPurge, checkRedrive } from "./removing.ts";
import { checkFence } from "./holding.ts";
import { checkSettle } from "./settling.ts";
import { checkSignal, checkStep, checkSteps } from "./stepping.ts";
import { EMPTY, type Snapshot, takeSnapshot } from "./snapshot.ts";
import { Turn } from "./turn.ts";
import { check } from "./violation.ts";

/**
 * Watches its own store, one operation at a time, and compares every change with the guarantees. It knows the contract
 * and the answers. Of the store it sees only what the reading verbs show.
 */
export class Watch {
  readonly books: Books;
  readonly #store: Store;
  #last: Snapshot = EMPTY;

  constructor(store: Store, reading: Reading) {
    this.#store = store;
    this.books = new Books(new ExpectedTime(reading));
  }

  /** Executes the operation. `refused`: the outcome on the other store, which decides whether a claim sweeps. */
  run(op: Op, reading: Reading, refused: boolean): Outcome {
    this.books.time.observe(reading);
    // A claim sweeps before it takes anything: here that is a separate step.
    if (op.verb === "claim" && !refused) this.#runOne({ verb: "housekeep" }, reading);
    return this.#runOne(op, reading);
  }

  #runOne(op: Op, reading: Reading): Outcome {
    const outcome = this.#store.execute([op], reading).outcomes[0];
    if (READING_VERBS.has(op.verb)) {
      this.#checkReading(op, outcome);
      return outcome;
    }
    const after = takeSnapshot(this.#store, reading);
    const turn = new Turn(this.books, this.#last, after);
    checkOperation(turn, op, outcome);
    close(turn);
    this.#last = after;
    return outcome;
  }

  #checkReading(op: Op, outcome: Outcome): void {
    const { books } = this;
    if (op.verb === "history" && "ok" in outcome) {
      const rows = answer<"history">(outcome).map(withoutError);
      check(
        isDeepStrictEqual(rows, books.entries.get(op.id)!.rows),
        () =>
          `the ledger of ${op.id} is ${JSON.stringify(rows)}; it should be ${JSON.stringify(books.entries.get(op.id)!.rows)}`,
      );
    }
    if (op.verb === "steps") checkSteps(books, op, outcome as Outcome<"steps">);
    if (op.verb === "subscriptions") checkSubscriptions(books, op, outcome as Outcome<"subscriptions">);
    if (op.verb === "documents") checkDocuments(books, op, outcome as Outcome<"documents">);
    if (op.verb === "get")
      check("ok" in outcome === books.entries.has(op.id), `get answered ${JSON.stringify(outcome)}`);
    if (op.verb === "ends" && op.of === undefined) {
      const expected = op.ids.map((id) => {
        const record = this.#last.tasks.get(id);
        return record ? (isEnd(record.state) ? record.state : "pending") : "missing";
      });
      const seen = answer<"ends">(outcome).map((end) => (typeof end === "string" ? end : end.state));
      check(seen.join() === expected.join(), `ends answered ${seen.join()}; it should be ${expected.join()}`);
    }
  }

  /** The whole ledger of every task. */
  checkLedgers(reading: Reading): void {
    const ops = [...this.books.entries.keys()].map((id): Op<"history"> => ({ verb: "history", id }));
    for (const [index, outcome] of this.#store.execute(ops, reading).outcomes.entries())
      this.#checkReading(ops[index]!, outcome);
  }
}

function withoutError({ attempt, fence, worker, startedAt, endedAt, outcome }: Attempt): Row {
  return { attempt, fence, worker, startedAt, endedAt, outcome };
}

type Checks = { [V in VerbName]: (turn: Turn, op: Op<V>, outcome: Outcome<V>) => void };

function checkOperation(turn: Turn, op: Op, outcome: Outcome): void {
  if ("refused" in outcome) check(turn.left.length === 0, `${op.verb} was refused, and changed something`);
  (CHECKS[op.verb] as (turn: Turn, op: Op, outcome: Outcome) => void)(turn, op, outcome);
}

/** The row for a result that got no verdict. */
function rowOf({ fence, worker, startedAt }: Holder, attempt: number, endedAt: number): Row {
  return { attempt, fence, worker, startedAt, endedAt, outcome: "cancelled" };
}

const nothing = () => {};

const CHECKS: Checks = {
  declare: (turn, op, outcome) => {
    const { books } = turn;
    const isNew = !books.queues.has(op.queue);
    const queue = books.queue(op.queue);
    const before = books.policy(op.queue);
    const text = JSON.stringify(op.policy);
    const isRefused = op.create === true && !isNew && differs(queue.named, op.policy);
    if (!op.create || isNew) {
      // A declaration that was the last one applied is skipped. An operator's change is not a declaration.
      if (op.force || (text !== queue.declared && text !== "{}"))
        queue.named = mergePolicy(queue.named, op.policy);
      if (!op.force && text !== "{}") queue.declared = text;
    }
    const policy = books.policy(op.queue);
    const changed = isDeepStrictEqual(policy, before) ? "unchanged" : "changed";
    const expected = { policy, outcome: isRefused ? "refused" : isNew ? "created" : changed };
    check(
      isDeepStrictEqual(answer<"declare">(outcome), expected),
      () => `declare answered ${JSON.stringify(outcome)}; it should be ${JSON.stringify(expected)}`,
    );
    for (const { id, before: was, after } of turn.left) {
      // In tasks it changes only what is looked up in the policy.
      if (was && after && isDeepStrictEqual({ ...was, maxAttempts: after.maxAttempts }, after)) turn.take(id);
    }
  },
  pause: (turn, op, outcome) => {
    const queue = turn.books.queue(op.queue);
    check(
      answer<"pause">(outcome).changed === (queue.paused !== op.paused),
      `pause answered ${JSON.stringify(outcome)}`,
    );
    queue.paused = op.paused;
  },
  add: (turn, op, outcome) => {
    const expected = refusalOfAdds(turn, op.tasks);
    const refusal = "refused" in outcome ? outcome.refused.code : undefined;
    check(refusal === expected, `add was refused with ${refusal}; it should be with ${expected}`);
    if ("ok" in outcome) checkAdded(turn, op.tasks, outcome.ok);
  },
  publish: checkPublish,
  subscribe: checkSubscribe,
  unsubscribe: checkUnsubscribe,
  subscriptions: nothing,
  claim: checkClaim,
  settle: checkSettle,
  extend: (turn, op, outcome) => {
    const entry = checkFence(turn, op, outcome);
    if (entry) entry.holder!.deadline = turn.books.awake + op.lease;
  },
  progress: (turn, op, outcome) => {
    const entry = checkFence(turn, op, outcome);
    if (!entry) return;
    const { progress } = turn.expect(entry, "claimed");
    if (op.value === null) return;
    check(
      isDeepStrictEqual(progress, { value: op.value, note: op.note }),
      `progress is ${JSON.stringify(progress)}`,
    );
  },
  step: checkStep,
  signal: checkSignal,
  steps: nothing,
  // guarantees/families.ts watches parents and children.
  spawn: nothing,
  children: nothing,
  verifying: nothing,
  // guarantees/runs.ts watches the runs.
  run: nothing,
  runs: nothing,
  cancelRun: nothing,
  cancel: (turn, op, outcome) => {
    const { books } = turn;
    const entry = books.entries.get(op.id);
    check("ok" in outcome === (entry !== undefined), `cancel answered ${JSON.stringify(outcome)}`);
    if (!entry || "refused" in outcome) return;
    const was = turn.before.tasks.get(op.id)!;
    const state = entry.holder || isEnd(was.state) ? was.state : "cancelled";
    check(outcome.ok.state === state, `cancel answered ${outcome.ok.state}; it should be ${state}`);
    turn.expect(entry, state);
    if (entry.pending) {
      entry.rows.push(rowOf(entry.pending.holder, entry.failures + 1, books.now));
      entry.pending = null;
    }
    if (!entry.holder) return;
    const { session, fence, cancelled } = entry.holder;
    if (!cancelled && session !== null) books.notices.push({ session, kind: "cancel", id: op.id, fence });
    entry.holder.cancelled = true;
  },
  change: checkChange,
  purge: checkPurge,
  drop: checkDrop,
  redrive: checkRedrive,
  discard: checkDiscard,
  prune: checkPrune,
  join: (turn, op, outcome) => {
    const { session } = answer<"join">(outcome);
    check(!turn.books.sessions.has(session), `session ${session} was given twice`);
    turn.books.sessions.set(session, {
      worker: op.worker,
      lease: op.lease,
      heartbeatAt: turn.books.awake,
      retired: false,
    });
  },
  heartbeat: checkHeartbeat,
  rejoin: checkRejoin,
  retire: ({ books }, op) => {
    const session = books.sessions.get(op.session);
    if (session) session.retired = true;
  },
  leave: checkLeave,
  reconcile: checkReconcile,
  put: checkPut,
  documents: nothing,
  housekeep: (turn, _, outcome) => checkHousekeep(turn, outcome),
  listen: nothing,
  unlisten: nothing,
  unhold: nothing,
  queues: nothing,
  get: nothing,
  ends: nothing,
  history: nothing,
  list: nothing,
  patterns: nothing,
  workers: nothing,
  stats: nothing,
};
