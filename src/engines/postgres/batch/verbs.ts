import { isDibsError } from "../../../core/errors/errors.ts";
import type { Op, Outcome, VerbName, Verbs } from "../../../engine/engine.ts";
import { add } from "../verbs/add.ts";
import { cancel } from "../verbs/cancel.ts";
import { change } from "../verbs/change.ts";
import { children } from "../verbs/children.ts";
import { listen, prune, housekeep, unlisten } from "../verbs/housekeeping.ts";
import { claim } from "../verbs/claim.ts";
import { discard, patterns, redrive } from "../verbs/dead.ts";
import { documents, put } from "../verbs/documents.ts";
import { ends } from "../verbs/ends.ts";
import { get, history, verifying } from "../verbs/inspect.ts";
import { inspectRun, listRuns } from "../verbs/inspect-runs.ts";
import { list } from "../verbs/list.ts";
import { signal, step, steps } from "../verbs/park.ts";
import { publish } from "../verbs/publish.ts";
import { declare, drop, pause, purge, queues } from "../verbs/queues.ts";
import { refusal } from "../verbs/refusal.ts";
import { heartbeat, join, leave, reconcile, rejoin, retire, workers } from "../verbs/sessions.ts";
import { cancelRun } from "../flows/runs.ts";
import { extend, progress, settle } from "../verbs/settle.ts";
import { spawn } from "../verbs/spawn.ts";
import { stats } from "../verbs/stats.ts";
import { subscribe, subscriptions, unsubscribe } from "../transaction/topics.ts";
import { unhold } from "../verbs/unhold.ts";
import type { Tx } from "../transaction/tx.ts";

/** The table of verbs: which function executes which. `PostgresStore` and `execute.ts` call it. */

type Answer<V extends VerbName> = Verbs[V]["out"] | Promise<Verbs[V]["out"]>;
type Handlers = { [V in VerbName]: (tx: Tx, op: Verbs[V]["in"]) => Answer<V> };

const HANDLERS: Handlers = {
  declare,
  pause,
  unhold,
  queues,
  purge,
  drop,
  subscribe,
  unsubscribe,
  subscriptions,
  publish,
  add,
  claim,
  settle,
  extend,
  progress,
  step,
  spawn,
  children,
  steps,
  signal,
  verifying,
  cancel,
  change,
  get,
  ends,
  history,
  list,
  run: inspectRun,
  runs: listRuns,
  cancelRun,
  patterns,
  redrive,
  discard,
  join,
  heartbeat,
  reconcile,
  rejoin,
  retire,
  leave,
  workers,
  put,
  documents,
  housekeep,
  prune,
  stats,
  listen,
  unlisten,
};

/** Verbs check before they write, so a refusal leaves nothing half done. */
export async function executeOne<V extends VerbName>(tx: Tx, op: Op<V>): Promise<Outcome> {
  try {
    const handler = HANDLERS[op.verb as V] as (tx: Tx, op: unknown) => Answer<V>;
    return { ok: await handler(tx, op) } as Outcome;
  } catch (error) {
    if (!isDibsError(error)) throw error;
    return refusal(error);
  }
}

/** Verbs that nearly always write. For them the header assigns a transaction number, which saves a round trip. */
export const WRITES: Partial<Record<VerbName, true>> = {
  add: true,
  publish: true,
  subscribe: true,
  claim: true,
  settle: true,
  spawn: true,
  declare: true,
  put: true,
  join: true,
  rejoin: true,
};
