import type { Conflict } from "../../../core/commit.ts";
import { type NamedPolicy, type QueuePolicy, resolvePolicy } from "../../../core/queue/policy.ts";
import type { Hint } from "../../../engine/hint.ts";
import { type Op, type Outcomes, READING_VERBS } from "../../../engine/engine.ts";
import { BlockedByLock, ExclusiveTimeout, type Locks, LocksNeeded } from "../connection/batch-conflicts.ts";
import type { Connection } from "../connection/connection.ts";
import { classifyFailure, conflictOf } from "../connection/failure.ts";
import { beginIncarnation, type CommitMark, NoIncarnation } from "../connection/incarnation.ts";
import { channelOf } from "../connection/notifier.ts";
import { NO_RUNS, runsNeeded } from "../flows/run-locks.ts";
import { gatesOf } from "../limits/gates.ts";
import { followEnds } from "../line/follow-ends.ts";
import { forgetIdleLanes } from "../line/free-groups.ts";
import { processInbox } from "../line/inbox.ts";
import { checkKnown, readNeeds } from "../schema/migrations.ts";
import { Tx, type TxOptions } from "../transaction/tx.ts";
import { type BatchResult, CommitLost, type RunOptions } from "./batch-result.ts";
import { isExclusive } from "./exclusive.ts";
import { executeAll } from "./execute.ts";
import { sendAhead } from "./send-ahead.ts";
import { WRITES } from "./verbs.ts";

/**
 * Executes the verbs of a batch in one transaction on one connection: locks, begin, verbs, commit, and retries after
 * conflicts. ReconnectingStore (reconnecting-store.ts) calls it.
 */

/** Deadlocks and lost races are rare. After so many in a row, something else is wrong. */
const TRIES = 10;

/** Called for every batch that is retried because the server rolled it back. */
export type OnConflict = (conflict: Conflict) => void;

interface Course {
  /** Inbox entries: processed before the operations, or nothing but them, or left to another batch. */
  inbox: "first" | "only" | "left";
  /** Of the transaction that has processed them. */
  hint?: Hint | undefined;
}

const NOTIFY = `SELECT pg_notify($1, $2)`;
const QUEUES = `SELECT id, name, named FROM dibs.queue WHERE name = ANY ($1::text[])`;
const NOTICED = `SELECT DISTINCT session FROM dibs.notice WHERE session = ANY ($1::int8[])`;

/** One batch at a time, each in a transaction. */
export class PostgresStore {
  readonly link: Connection;
  readonly #tx: Tx;
  readonly #onConflict: OnConflict;

  constructor(link: Connection, options: TxOptions, onConflict: OnConflict = () => {}) {
    this.link = link;
    this.#onConflict = onConflict;
    this.#tx = new Tx(link, options);
  }

  /** If it fails, nothing of the batch was done. */
  async run<const Ops extends readonly Op[]>(
    ops: Ops,
    options: RunOptions = {},
  ): Promise<BatchResult & { outcomes: Outcomes<Ops> }> {
    type Done = BatchResult & { outcomes: Outcomes<Ops> };
    const unlessBlocked = (error: unknown): undefined => {
      if (!(error instanceof BlockedByLock)) throw error;
    };
    const result = await this.#persist(ops, options, { inbox: "first" }).catch(unlessBlocked);
    if (result) return result as Done;
    const before = await this.#processInboxOnly(ops).catch(unlessBlocked);
    // If that is blocked too, the entries are left to another batch.
    const after = await this.#persist(ops, options, { inbox: "left", hint: before?.hint });
    return { ...after, changed: after.changed || (before?.changed ?? false) } as Done;
  }

  async #processInboxOnly(ops: readonly Op[]): Promise<BatchResult> {
    try {
      return await this.#persist(ops, {}, { inbox: "only" });
    } catch (error) {
      // Whether it committed or not: nothing of the batch itself was done, so it can be retried.
      throw error instanceof CommitLost ? error.cause : error;
    }
  }

  /** Retries after conflicts. */
  async #persist(ops: readonly Op[], options: RunOptions, course: Course): Promise<BatchResult> {
    let locks: Locks = { gates: [], exclusive: false, runs: [], rows: null, before: null };
    let isFollowed = false;
    const onSent = (): void => {
      isFollowed = true;
      options.onSent?.();
    };
    for (let tries = 1; ; tries++) {
      try {
        if (locks.before) await this.#tx.waitFor(locks.before);
        return await this.#once(ops, { ...options, onSent }, { ...course, locks });
      } catch (error) {
        // The next batch has begun on this connection: a retry would be inside its transaction.
        if (isFollowed) throw error;
        if (error instanceof LocksNeeded) {
          // Each try waits for the transaction that was in its way.
          locks = error.and(locks);
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

  /** `locks`: those that earlier tries were found to need. */
  async #once(
    all: readonly Op[],
    { onSent, messageFor }: RunOptions,
    { inbox, hint, locks }: Course & { locks: Locks },
  ): Promise<BatchResult> {
    const tx = this.#tx;
    const isReading = all.every((op) => READING_VERBS.has(op.verb));
    const ops = inbox === "only" ? [] : all;
    let commit: { result: BatchResult; mark: CommitMark } | undefined;
    let isFollowed = false;
    try {
      await tx.begin(isReading ? "reading" : "writing", {
        writes: inbox === "only" || ops.some((op) => op.verb in WRITES),
        exclusive: locks.exclusive || (await isExclusive(tx, ops)),
        gates: isReading ? [] : [...new Set([...locks.gates, ...gatesOf(tx, ops)])],
        runs: isReading ? NO_RUNS : runsNeeded(tx, ops, locks.runs),
        rows: locks.rows,
        hint,
        ahead: () => sendAhead(tx, ops),
      });
      if (!isReading && tx.hasInbox && inbox !== "left") {
        await processInbox(tx, all);
        await followEnds(tx);
      }
      const outcomes = await executeAll(tx, ops);
      await forgetIdleLanes(tx);
      const xid = await tx.finish();
      const { changed } = tx;
      const result: BatchResult = {
        outcomes,
        hint: tx.batch.hint,
        changed,
        hasNotices: tx.batch.hasNotices,
        loweredFloors: [...tx.floors.loweredFloors],
        hasListeners: tx.events.listeners > 0,
        hasInbox: isReading && tx.hasInbox,
        leftInboxEntries: tx.batch.leavesInboxEntries || (inbox === "left" && tx.hasInbox),
        isNotified: false,
      };
      const message = changed ? messageFor?.(result) : undefined;
      if (message !== undefined) {
        tx.put(NOTIFY, channelOf(this.link.schema), message);
        result.isNotified = true;
      }
      if (tx.mayBlock) await tx.settled();
      if (changed) commit = { result, mark: { xid, incarnation: tx.incarnation } };
      const committed = tx.commit();
      isFollowed = !tx.mayBlock && !tx.changedCopies;
      if (isFollowed) onSent?.();
      await committed;
      return result;
    } catch (thrown) {
      const hasEntries = !isFollowed && !isReading && tx.hasInbox && inbox !== "left";
      const error = failureOf(tx, thrown, { hasEntries });
      if (commit && classifyFailure(error) === "reconnect") throw new CommitLost(error, commit);
      // The transaction has ended with its commit, and the next one may be in progress on this connection.
      if (isFollowed) throw error;
      return tx.undo(error);
    }
  }

  /** A batch that only reads may meet a table of a newer schema: then the newer schema is the better message. */
  async #checkSchema(thrown: unknown): Promise<void> {
    if (!(thrown as { code?: string }).code?.startsWith("42")) return;
    const needs = await readNeeds(this.link).catch(() => 0);
    checkKnown(this.link.schema, needs);
  }

  /** By name; those that exist. */
  async queues(names: string[]): Promise<Map<string, { id: number; policy: QueuePolicy }>> {
    const rows = await this.link.all<{ id: number; name: string; named: string }>(QUEUES, names);
    return new Map(
      rows.map(({ id, name, named }) => [
        name,
        { id, policy: resolvePolicy(JSON.parse(named) as NamedPolicy) },
      ]),
    );
  }

  /** The sessions among these that have notices. */
  async noticed(sessions: number[]): Promise<number[]> {
    return (await this.link.all<{ session: number }>(NOTICED, sessions)).map((row) => row.session);
  }
}

/** A lock timeout (55P03) becomes the error that says what the batch was waiting for. */
function failureOf(tx: Tx, thrown: unknown, { hasEntries }: { hasEntries: boolean }): unknown {
  const first = tx.firstFailure(thrown);
  if ((first as { code?: string }).code !== "55P03") return first;
  const [message, cause] = ["Another transaction stays open", { cause: first }] as const;
  if (tx.isExclusive) return new ExclusiveTimeout(message, cause);
  return hasEntries ? new BlockedByLock(message, cause) : first;
}
