import type { Reading } from "../../core/clock.ts";
import { isDibsError } from "../../core/errors.ts";
import { type NamedPolicy, type QueuePolicy, resolvePolicy } from "../../core/policy.ts";
import {
  type Hint,
  type Op,
  type Outcome,
  type Outcomes,
  READING_VERBS,
  type VerbName,
  type Verbs,
} from "../../engine/engine.ts";
import { add } from "./add.ts";
import { addTogether, numbersFor } from "./add-together.ts";
import { arrive, origins } from "./arrive.ts";
import { bringLimits, hasToBeAlone } from "./alone.ts";
import { type AtOnce, atOnce } from "./at-once.ts";
import { cancel, cancelTask } from "./cancel.ts";
import { listen, prune, tend, unlisten } from "./care.ts";
import { claim } from "./claim.ts";
import { depart, gone } from "./depart.ts";
import { discard, patterns, redrive } from "./dead.ts";
import { documents, put } from "./documents.ts";
import { fateOf } from "./failure.ts";
import { forgetIdleLanes } from "./free-groups.ts";
import { ForeseenGates } from "./foresee-gates.ts";
import { sendAhead } from "./foresee.ts";
import { GateTaken } from "./limits.ts";
import { Crowded } from "./overtaken.ts";
import { channelOf } from "./herald.ts";
import { takeUp, takeUpAll } from "./inbox.ts";
import { ends, get, history, list, stats, verifying } from "./inspect.ts";
import { endsOfRuns, inspectRun } from "./inspect-runs.ts";
import { beginLife, type CommitMark, fateOfCommit, NoLife } from "./life.ts";
import type { Link } from "./link.ts";
import { checkKnown, readNeeds } from "./migrations.ts";
import { signal, step, steps } from "./park.ts";
import { publish } from "./publish.ts";
import { declare, drop, pause, purge, queues } from "./queues.ts";
import { beat, join, leave, reconcile, rejoin, retire, workers } from "./sessions.ts";
import { cancelRun, lockRuns } from "./runs.ts";
import { settleTogether } from "./settle-together.ts";
import { extend, progress, settle } from "./settle.ts";
import { subscribe, subscriptions, unsubscribe } from "./topics.ts";
import { Tx, type TxOptions } from "./tx.ts";
import { unhold } from "./unhold.ts";

type Answer<V extends VerbName> = Verbs[V]["out"] | Promise<Verbs[V]["out"]>;
type Handlers = { [V in VerbName]: (tx: Tx, op: Verbs[V]["in"]) => Answer<V> };

const HANDLERS: Handlers = {
  declare: (tx, op) => declare(tx, op.queue, op.policy, op.force ?? false),
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
  list: (tx, op) => list(tx, op.queue, op.state, op.filter, op.after, op.limit),
  run: (tx, op) => inspectRun(tx, op.id, op.after, op.limit),
  cancelRun: (tx, op) => cancelRun(tx, op.id),
  patterns: (tx, op) => patterns(tx, op.queue, op.by, op.limit),
  redrive: (tx, op) => redrive(tx, op.queue, op.filter, op.spacing, op.fresh ?? false),
  discard: (tx, op) => discard(tx, op.queue, op.filter),
  depart: (tx, op) => depart(tx, op.queue, op.to, op.limit),
  arrive: (tx, op) => arrive(tx, op.tasks),
  gone: (tx, op) => gone(tx, op.tasks),
  origins: (tx, op) => origins(tx, op.ids),
  join: (tx, op) => join(tx, op.worker, op.lease),
  beat: (tx, op) => beat(tx, op.sessions),
  reconcile: (tx, op) => reconcile(tx, op.session, op.fences),
  rejoin: (tx, op) => rejoin(tx, op.session, op.fences),
  retire: (tx, op) => retire(tx, op.session),
  leave: (tx, op) => leave(tx, op.session, op.lost ?? false),
  workers: (tx, op) => workers(tx, op.queue),
  put,
  documents: (tx, op) => documents(tx, op.kind, op.name),
  tend,
  prune: (tx, op) => prune(tx, op.limit),
  stats: (tx, op) => stats(tx, op.queue),
  listen: (tx, op) => listen(tx, op.listener, op.after, op.limit),
  unlisten: (tx, op) => unlisten(tx, op.listener),
};

/** Verbs that seldom find nothing to write. The others are not given a number before they have found something. */
const WRITES: Partial<Record<VerbName, true>> = {
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

/** Deadlocks and lost races are gone at the next try; more often than this it is something else. */
const TRIES = 10;

/** The commit was under way when the connection was lost. */
export class CommitLost extends Error {
  /** What would have been answered; undefined where that was lost with the connection. */
  readonly ran: Ran | undefined;
  /** By which the server can be asked what became of it. */
  readonly mark: CommitMark;

  constructor(ran: Ran | undefined, mark: CommitMark, cause: unknown) {
    super("The connection was lost during a commit.", { cause });
    this.ran = ran;
    this.mark = mark;
  }

  override get name(): string {
    return "CommitLost";
  }
}

export interface Ran {
  outcomes: Outcome[];
  /** How many times something had to be done that most operations do not need: other rows than those of a plain task. */
  special: number;
  hint: Hint;
  /** Something was written. */
  changed: boolean;
  /** Notices were left for sessions. */
  noticed: boolean;
  /** Queues from which something was taken that had lowered their floors. */
  stirred: readonly string[];
  /** Somebody follows the events. */
  listened: boolean;
  /** Others' transactions had left something that this batch, which only reads, could not take up. */
  hasInbox: boolean;
  /** It left something for a batch that comes after others' commits, and those are under way. */
  leftNotes: boolean;
  /** The commit itself has told others of it. */
  told: boolean;
}

export interface RunOptions {
  /** Called when all has been sent and cannot meet anybody's lock: the next batch may begin, behind it. */
  onSent?: () => void;
  /** What the commit itself is to tell others, if anything. */
  wordFor?: (ran: Ran) => string | undefined;
}

const NOTHING: Ran = {
  outcomes: [],
  special: 0,
  hint: {},
  changed: false,
  noticed: false,
  stirred: [],
  listened: false,
  hasInbox: false,
  leftNotes: false,
  told: false,
};

const NOTIFY = `SELECT pg_notify($1, $2)`;
const QUEUES = `SELECT id, name, named FROM dibs.queue WHERE name = ANY ($1::text[])`;
const NOTICED = `SELECT DISTINCT session FROM dibs.notice WHERE session = ANY ($1::int8[])`;

/** The verbs on one connection: one batch at a time, each in a transaction. */
export class PostgresStore {
  readonly link: Link;
  readonly #tx: Tx;
  readonly #foreseenGates = new ForeseenGates();

  constructor(link: Link, options: TxOptions) {
    this.link = link;
    this.#tx = new Tx(link, options);
    this.#tx.cancelPending = (seq) => cancelTask(this.#tx, seq);
    this.#tx.takeUpAll = (queues) => takeUpAll(this.#tx, queues);
  }

  /** `reading`: of an injected clock; null: the server's own. On an error nothing of the batch has happened. */
  async run<const Ops extends readonly Op[]>(
    ops: Ops,
    reading: Reading | null,
    options: RunOptions = {},
  ): Promise<Ran & { outcomes: Outcomes<Ops> }> {
    let gates: readonly number[] = [];
    for (let tries = 1; ; tries++) {
      try {
        const send = reading === null && tries === 1 ? atOnce(this.#tx, ops) : undefined;
        const ran = send && (await this.#atOnce(send, options.onSent));
        return (ran ?? (await this.#once(ops, reading, options, gates))) as Ran & { outcomes: Outcomes<Ops> };
      } catch (error) {
        if (error instanceof GateTaken) {
          // With each try it waits for one more: that comes to an end.
          gates = error.gates;
          tries = 0;
        } else if (error instanceof NoLife && tries < TRIES) {
          await beginLife(this.link);
        } else if (tries === TRIES || fateOf(error) !== "again") {
          await this.#checkSchema(error);
          throw error;
        }
      }
    }
  }

  /** `gates`: those that it was found to need. */
  async #once(
    ops: readonly Op[],
    reading: Reading | null,
    { onSent, wordFor }: RunOptions,
    gates: readonly number[],
  ): Promise<Ran> {
    const tx = this.#tx;
    const isReading = ops.every((op) => READING_VERBS.has(op.verb));
    let commit: { ran: Ran; mark: CommitMark } | undefined;
    let isFollowed = false;
    try {
      const alone = ops.some((op) => hasToBeAlone(tx, op)) || (await bringLimits(tx, ops));
      await tx.begin(isReading ? "reading" : "writing", reading, {
        numbers: numbersFor(tx, ops),
        writes: ops.some((op) => op.verb in WRITES),
        alone,
        gates: isReading ? [] : [...new Set([...gates, ...this.#foreseenGates.of(tx, ops)])],
        ahead: () => sendAhead(tx, ops),
      });
      tx.noticed = false;
      if (!isReading && tx.rebooted) tx.changed = true;
      if (!isReading && tx.hasInbox) await takeUp(tx, ops);
      const { outcomes, special } = await runAll(tx, ops);
      await forgetIdleLanes(tx);
      const xid = await tx.finish();
      this.#foreseenGates.note(tx, ops, outcomes);
      const { hint, changed, noticed, listeners } = tx;
      const ran: Ran = {
        outcomes,
        special,
        hint,
        changed,
        noticed,
        stirred: [...tx.stirred],
        listened: listeners > 0,
        hasInbox: isReading && tx.hasInbox,
        leftNotes: tx.leftNotes,
        told: false,
      };
      const word = changed ? wordFor?.(ran) : undefined;
      if (word !== undefined) {
        tx.put(NOTIFY, channelOf(this.link.schema), word);
        ran.told = true;
      }
      if (tx.tangled) await tx.settled();
      if (changed) commit = { ran, mark: { xid, life: tx.life } };
      const committed = tx.commit();
      isFollowed = !tx.tangled && !tx.queuesChanged;
      if (isFollowed) onSent?.();
      await committed;
      return ran;
    } catch (thrown) {
      const error = firstFailure(tx, thrown);
      if (commit && fateOf(error) === "reconnect") throw new CommitLost(commit.ran, commit.mark, error);
      // With its commit the transaction has ended, one way or the other, and the next one may be under way here.
      if (isFollowed) throw error;
      return this.#undo(error);
    }
  }

  /** Its commit follows the header's answer. Undefined: nothing has happened, it is to be carried out step by step. */
  async #atOnce(send: AtOnce, onSent?: () => void): Promise<Ran | undefined> {
    const tx = this.#tx;
    let answer: ReturnType<AtOnce> | undefined;
    let commit: { mark: CommitMark; done: Promise<unknown> } | undefined;
    let mayHaveChanged = true;
    let ran: Ran | undefined;
    try {
      await tx.begin("writing", null, { writes: true, ahead: () => void (answer = handled(send())) });
      commit = { mark: { xid: tx.xid, life: tx.life }, done: handled(tx.commit()) };
      const done = await answer;
      mayHaveChanged = done?.changed ?? false;
      if (done) {
        ran = { ...NOTHING, outcomes: [done.outcome], changed: done.changed, stirred: [...tx.stirred] };
        // It has met all the locks it may meet: what is sent behind it will not come before it.
        onSent?.();
      }
      await commit.done;
      return ran;
    } catch (error) {
      if (!commit) return this.#undo(error);
      if (mayHaveChanged && fateOf(error) === "reconnect") throw new CommitLost(ran, commit.mark, error);
      await Promise.allSettled([commit.done]);
      if (!ran) tx.forget();
      throw error;
    }
  }

  async #undo(thrown: unknown): Promise<never> {
    this.#tx.forget();
    if (!this.link.ended) await this.link.exec("ROLLBACK").catch(() => this.link.destroy());
    throw thrown;
  }

  /** A table may have changed since its header was read, in one that only reads: what did that is the better word. */
  async #checkSchema(error: unknown): Promise<void> {
    if (!(error as { code?: string }).code?.startsWith("42")) return;
    const needs = await readNeeds(this.link).catch(() => 0);
    checkKnown(this.link.schema, needs);
  }

  /** What became of a commit whose answer was lost, on this connection or another. */
  async fateOf({ mark }: CommitLost): ReturnType<typeof fateOfCommit> {
    return fateOfCommit(this.link, mark);
  }

  /** By name; those that there are. */
  async queues(names: string[]): Promise<Map<string, { id: number; policy: QueuePolicy }>> {
    const rows = await this.link.all<{ id: number; name: string; named: string }>(QUEUES, names);
    return new Map(
      rows.map(({ id, name, named }) => [
        name,
        { id, policy: resolvePolicy(JSON.parse(named) as NamedPolicy) },
      ]),
    );
  }

  /** Those of the sessions that notices wait for. */
  async noticed(sessions: number[]): Promise<number[]> {
    return (await this.link.all<{ session: number }>(NOTICED, sessions)).map((row) => row.session);
  }
}

/** Somebody will look at it, but perhaps not before it fails. */
function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}

/** What a statement that nobody waited for met makes all that follow fail, in words that do not tell why. */
function firstFailure(tx: Tx, thrown: unknown): unknown {
  const isSequel = (thrown as { code?: string }).code === "25P02";
  const first = isSequel ? (tx.failure ?? thrown) : thrown;
  const hasWaited = tx.isAlone && (first as { code?: string }).code === "55P03";
  return hasWaited ? new Crowded("Somebody's transaction stays open", { cause: first }) : first;
}

/** One after the other; those of a kind that follow each other together, where that comes to the same. */
async function runAll(tx: Tx, ops: readonly Op[]): Promise<{ outcomes: Outcome[]; special: number }> {
  const outcomes: Outcome[] = [];
  let special = 0;
  let hasRuns = false;
  const runAlone = async (op: Op): Promise<Outcome> => {
    special++;
    if (op.verb === "settle" && !hasRuns) {
      hasRuns = true;
      await lockRuns(tx, ops);
    }
    // It may bring limits, which count who has groups.
    if (op.verb === "declare") await forgetIdleLanes(tx);
    return runOne(tx, op);
  };
  while (outcomes.length < ops.length) {
    const from = outcomes.length;
    const op = ops[from]!;
    const together =
      op.verb === "add" || op.verb === "publish"
        ? await addTogether(tx, ops, from)
        : op.verb === "settle"
          ? await settleTogether(tx, ops, from, { alone: runAlone, onSpecial: () => special++ })
          : [];
    if (together.length > 0) for (const outcome of together) outcomes.push(outcome);
    else outcomes.push(await runAlone(op));
  }
  return { outcomes, special };
}

/** Verbs check before they write, so a refusal leaves nothing half done. */
async function runOne<V extends VerbName>(tx: Tx, op: Op<V>): Promise<Outcome> {
  try {
    const handler = HANDLERS[op.verb as V] as (tx: Tx, op: unknown) => Answer<V>;
    return { ok: await handler(tx, op) } as Outcome;
  } catch (error) {
    if (!isDibsError(error)) throw error;
    return { refused: { code: error.code, message: error.message, retryable: error.retryable } };
  }
}
