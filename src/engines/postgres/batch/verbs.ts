import { isDibsError } from "../../../core/errors.ts";
import type { Op, Outcome, VerbName, Verbs } from "../../../engine/engine.ts";
import { add } from "../verbs/add.ts";
import { cancel } from "../verbs/cancel.ts";
import { listen, prune, housekeep, unlisten } from "../verbs/housekeeping.ts";
import { claim } from "../verbs/claim.ts";
import { discard, patterns, redrive } from "../verbs/dead.ts";
import { documents, put } from "../verbs/documents.ts";
import { ends, get, history, verifying } from "../verbs/inspect.ts";
import { endsOfRuns, inspectRun } from "../verbs/inspect-runs.ts";
import { list } from "../verbs/list.ts";
import { signal, step, steps } from "../verbs/park.ts";
import { publish } from "../verbs/publish.ts";
import { declare, drop, pause, purge, queues } from "../verbs/queues.ts";
import { refusal } from "../verbs/refusal.ts";
import { heartbeat, join, leave, reconcile, rejoin, retire, workers } from "../verbs/sessions.ts";
import { cancelRun } from "../flows/runs.ts";
import { extend, progress, settle } from "../verbs/settle.ts";
import { stats } from "../verbs/stats.ts";
import { subscribe, subscriptions, unsubscribe } from "../transaction/topics.ts";
import { unhold } from "../verbs/unhold.ts";
import type { Tx } from "../transaction/tx.ts";

type Answer<V extends VerbName> = Verbs[V]["out"] | Promise<Verbs[V]["out"]>;
type Handlers = { [V in VerbName]: (tx: Tx, op: Verbs[V]["in"]) => Answer<V> };

const HANDLERS: Handlers = {
  declare: (tx, op) => declare(tx, op.queue, op.policy, op),
  pause: (tx, op) => pause(tx, op.queue, op.paused),
  unhold: (tx, op) => unhold(tx, op.queue, op.groupKey),
  queues: (tx, op) => queues(tx, op.queue),
  purge: (tx, op) => purge(tx, op.queue, op.upTo, op.limit),
  drop: (tx, op) => drop(tx, op.queue, op.limit),
  subscribe: (tx, op) => subscribe(tx, op.pattern, op.group, op.queue),
  unsubscribe: (tx, op) => unsubscribe(tx, op.pattern, op.group),
  subscriptions: (tx, op) => subscriptions(tx, op.topic),
  publish: (tx, op) => publish(tx, op.message),
  add: (tx, op) => add(tx, op.tasks),
  claim,
  settle: (tx, op) => settle(tx, op.id, op.fence, op.settlement, op.spent),
  extend: (tx, op) => extend(tx, op.id, op.fence, op.lease),
  progress: (tx, op) => progress(tx, op.id, op.fence, op.value, op.note),
  step: (tx, op) => step(tx, op.id, op.fence, op.name, op.value),
  steps: (tx, op) => steps(tx, op.id),
  signal: (tx, op) => signal(tx, op.id, op.name, op.value),
  verifying: (tx, op) => verifying(tx, op),
  cancel: (tx, op) => cancel(tx, op.id),
  get: (tx, op) => get(tx, op.id),
  ends: (tx, op) => (op.of === "runs" ? endsOfRuns(tx, op.ids) : ends(tx, op.ids)),
  history: (tx, op) => history(tx, op.id),
  list,
  run: (tx, op) => inspectRun(tx, op.id, op.after, op.limit),
  cancelRun: (tx, op) => cancelRun(tx, op.id),
  patterns: (tx, op) => patterns(tx, op.queue, op.by, op.limit),
  redrive: (tx, op) => redrive(tx, op.queue, op.filter, op.spacing, op.fresh ?? false),
  discard: (tx, op) => discard(tx, op.queue, op.filter),
  join: (tx, op) => join(tx, op.worker, op.lease),
  heartbeat: (tx, op) => heartbeat(tx, op.sessions),
  reconcile: (tx, op) => reconcile(tx, op.session, op.fences),
  rejoin: (tx, op) => rejoin(tx, op.session, op.fences),
  retire: (tx, op) => retire(tx, op.session),
  leave: (tx, op) => leave(tx, op.session, op.lost ?? false),
  workers: (tx, op) => workers(tx, op.queue),
  put,
  documents: (tx, op) => documents(tx, op.kind, op.name),
  housekeep,
  prune: (tx, op) => prune(tx, op.limit),
  stats: (tx, op) => stats(tx, op.queue),
  listen: (tx, op) => listen(tx, op.listener, op.after, op.limit),
  unlisten: (tx, op) => unlisten(tx, op.listener),
};

/** Verbs check before they write, so a refusal leaves nothing half done. */
export async function runOne<V extends VerbName>(tx: Tx, op: Op<V>): Promise<Outcome> {
  try {
    const handler = HANDLERS[op.verb as V] as (tx: Tx, op: unknown) => Answer<V>;
    return { ok: await handler(tx, op) } as Outcome;
  } catch (error) {
    if (!isDibsError(error)) throw error;
    return refusal(error);
  }
}

/** Verbs that seldom find nothing to write. The others are not given a number before they have found something. */
export const WRITES: Partial<Record<VerbName, true>> = {
  add: true,
  publish: true,
  subscribe: true,
  claim: true,
  settle: true,
  declare: true,
  put: true,
  join: true,
  rejoin: true,
};
