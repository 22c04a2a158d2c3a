import type { Conflict } from "../../../core/commit.ts";
import { type NamedPolicy, type QueuePolicy, resolvePolicy } from "../../../core/policy.ts";
import { type Hint, type Op, type Outcome, type Outcomes, READING_VERBS } from "../../../engine/engine.ts";
import { addTogether } from "../verbs/add-together.ts";
import { bringLimits, endsQueues, needsExclusive } from "./exclusive.ts";
import { cancelTask } from "../verbs/cancel.ts";
import { claimTogether } from "../verbs/claim-fast.ts";
import { conflictOf, classifyFailure } from "../connection/failure.ts";
import { forgetIdleLanes } from "../line/free-groups.ts";
import { sendAhead } from "./send-ahead.ts";
import { gatesOf } from "../limits/gates.ts";
import { beginIncarnation, type CommitMark, NoIncarnation } from "../connection/incarnation.ts";
import { ExclusiveTimeout, BlockedByLock, type Locks, LocksNeeded } from "../connection/batch-conflicts.ts";
import { channelOf } from "../connection/notifier.ts";
import { takeUp, takeUpAll, takeUpFromFront } from "../caller/inbox.ts";
import type { Connection } from "../connection/connection.ts";
import { checkKnown, readNeeds } from "../schema/migrations.ts";
import { CommitLost, type BatchResult, type RunOptions } from "./batch-result.ts";
import { NO_RUNS, runsNeeded, settledBy } from "../flows/run-locks.ts";
import { settleTogether } from "../verbs/settle-together.ts";
import { Tx, type TxOptions } from "../transaction/tx.ts";
import { runOne, WRITES } from "./verbs.ts";

/**
 * Executes the verbs of a batch in one transaction on one connection: locks, begin, verbs, commit, and retries after
 * conflicts. ReconnectingStore (reconnecting-store.ts) calls it.
 */

/** Deadlocks and lost races are gone at the next try; more often than this it is something else. */
const TRIES = 10;

/** Told of every batch that is tried again because the server undid it. */
export type OnConflict = (conflict: Conflict) => void;

interface Course {
  /** What others' transactions have left is taken up first, or only that, or it is left. */
  notes: "first" | "only" | "left";
  /** Of the transaction that has taken it up. */
  hint?: Hint | undefined;
}

const NOTIFY = `SELECT pg_notify($1, $2)`;
const QUEUES = `SELECT id, name, named FROM dibs.queue WHERE name = ANY ($1::text[])`;
const NOTICED = `SELECT DISTINCT session FROM dibs.notice WHERE session = ANY ($1::int8[])`;

/** The verbs on one connection: one batch at a time, each in a transaction. */
export class PostgresStore {
  readonly link: Connection;
  readonly #tx: Tx;

  readonly #onConflict: OnConflict;

  constructor(link: Connection, options: TxOptions, onConflict: OnConflict = () => {}) {
    this.link = link;
    this.#onConflict = onConflict;
    this.#tx = new Tx(link, options);
    this.#tx.cancelPending = (seq) => cancelTask(this.#tx, seq);
    this.#tx.takeUpAll = (queues) => takeUpAll(this.#tx, queues);
    this.#tx.takeUpFromFront = (queues) => takeUpFromFront(this.#tx, queues);
  }

  /** On an error nothing of the batch has happened. */
  async run<const Ops extends readonly Op[]>(
    ops: Ops,
    options: RunOptions = {},
  ): Promise<BatchResult & { outcomes: Outcomes<Ops> }> {
    type Done = BatchResult & { outcomes: Outcomes<Ops> };
    const unlessHeldUp = (error: unknown): undefined => {
      if (!(error instanceof BlockedByLock)) throw error;
    };
    const ran = await this.#persist(ops, options, { notes: "first" }).catch(unlessHeldUp);
    if (ran) return ran as Done;
    const before = await this.#takeUpOnly(ops).catch(unlessHeldUp);
    // Where even that was held up, the notes are left to others, who see them again.
    const after = await this.#persist(ops, options, { notes: "left", hint: before?.hint });
    return { ...after, changed: after.changed || (before?.changed ?? false) } as Done;
  }

  /** What others' transactions have left, in a transaction of its own. */
  async #takeUpOnly(ops: readonly Op[]): Promise<BatchResult> {
    try {
      return await this.#persist(ops, {}, { notes: "only" });
    } catch (error) {
      // Whatever became of that: of the batch itself nothing has happened.
      throw error instanceof CommitLost ? error.cause : error;
    }
  }

  /** Once more where others were in its way. */
  async #persist(ops: readonly Op[], options: RunOptions, course: Course): Promise<BatchResult> {
    const locks: Locks = { gates: [], runs: [], claim: null, alone: false };
    let isFollowed = false;
    const onSent = (): void => {
      isFollowed = true;
      options.onSent?.();
    };
    for (let tries = 1; ; tries++) {
      try {
        return await this.#once(ops, { ...options, onSent }, { ...course, locks });
      } catch (error) {
        // The next batch has begun: to carry this one out now would be in the midst of that.
        if (isFollowed) throw error;
        if (error instanceof LocksNeeded) {
          // With each try it waits for one more: that comes to an end.
          Object.assign(locks, error.locks);
          tries = 0;
        } else if (error instanceof NoIncarnation && tries < TRIES) {
          await beginIncarnation(this.link);
        } else if (tries === TRIES || classifyFailure(error) !== "again") {
          await this.#checkSchema(error);
          throw error;
        } else {
          const conflict = conflictOf(error);
          if (conflict) this.#onConflict({ conflict });
        }
      }
    }
  }

  /** `locks`: those that it was found to need. */
  async #once(
    all: readonly Op[],
    { onSent, messageFor }: RunOptions,
    { notes, hint: before, locks }: Course & { locks: Locks },
  ): Promise<BatchResult> {
    const tx = this.#tx;
    const isReading = all.every((op) => READING_VERBS.has(op.verb));
    const ops = notes === "only" ? [] : all;
    let commit: { ran: BatchResult; mark: CommitMark } | undefined;
    let isFollowed = false;
    try {
      const alone =
        locks.alone ||
        ops.some((op) => needsExclusive(tx, op)) ||
        (await bringLimits(tx, ops)) ||
        (await endsQueues(tx, ops));
      await tx.begin(isReading ? "reading" : "writing", {
        writes: notes === "only" || ops.some((op) => op.verb in WRITES),
        alone,
        gates: isReading ? [] : [...new Set([...locks.gates, ...gatesOf(tx, ops)])],
        runs: isReading ? NO_RUNS : runsNeeded(tx, ops, locks.runs),
        claim: locks.claim,
        ahead: () => sendAhead(tx, ops),
      });
      tx.noticed = false;
      if (before) tx.hint = structuredClone(before);
      if (!isReading && tx.hasInbox && notes !== "left") await takeUp(tx, all);
      const { outcomes, special } = await runAll(tx, ops);
      await forgetIdleLanes(tx);
      const xid = await tx.finish();
      const { hint, changed, noticed } = tx;
      const ran: BatchResult = {
        outcomes,
        special,
        hint,
        changed,
        noticed,
        stirred: [...tx.floors.stirred],
        listened: tx.events.listeners > 0,
        hasInbox: isReading && tx.hasInbox,
        leftInboxEntries: tx.leftInboxEntries || (notes === "left" && tx.hasInbox),
        told: false,
      };
      const word = changed ? messageFor?.(ran) : undefined;
      if (word !== undefined) {
        tx.put(NOTIFY, channelOf(this.link.schema), word);
        ran.told = true;
      }
      if (tx.tangled) await tx.settled();
      if (changed) commit = { ran, mark: { xid, life: tx.life } };
      const committed = tx.commit();
      isFollowed = !tx.tangled && !tx.copiesChanged;
      if (isFollowed) onSent?.();
      await committed;
      return ran;
    } catch (thrown) {
      const hasNotes = !isFollowed && !isReading && tx.hasInbox && notes !== "left";
      const error = failureOf(tx, thrown, { hasNotes });
      if (commit && classifyFailure(error) === "reconnect") throw new CommitLost(error, commit);
      // With its commit the transaction has ended, one way or the other, and the next one may be under way here.
      if (isFollowed) throw error;
      return tx.undo(error);
    }
  }

  /** A table may have changed since its header was read, in one that only reads: what did that is the better word. */
  async #checkSchema(thrown: unknown): Promise<void> {
    if (!(thrown as { code?: string }).code?.startsWith("42")) return;
    const needs = await readNeeds(this.link).catch(() => 0);
    checkKnown(this.link.schema, needs);
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

/** What a batch met, by what it was about. */
function failureOf(tx: Tx, thrown: unknown, { hasNotes }: { hasNotes: boolean }): unknown {
  const first = tx.firstFailure(thrown);
  if ((first as { code?: string }).code !== "55P03") return first;
  const [words, cause] = ["Somebody's transaction stays open", { cause: first }] as const;
  if (tx.isAlone) return new ExclusiveTimeout(words, cause);
  return hasNotes ? new BlockedByLock(words, cause) : first;
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
      await tx.runs.hold(settledBy(tx, ops));
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
    if (op.verb === "claim" && ops[from + 1]?.verb === "claim") claimTogether(tx, ops, from);
    if (together.length > 0) for (const outcome of together) outcomes.push(outcome);
    else outcomes.push(await runAlone(op));
  }
  return { outcomes, special };
}
