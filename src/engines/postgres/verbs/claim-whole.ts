import { LIMITS } from "../../../core/limits.ts";
import type { ClaimOutcome, ClaimRequest } from "../../../engine/claim-request.ts";
import { INCARNATION } from "../connection/incarnation.ts";
import { STATEMENT_BEGAN as NOW } from "../statements/clock.ts";
import { TASK_OF } from "../statements/look-up.ts";
import { insertClaimed } from "../transaction/counters.ts";
import type { Queue } from "../transaction/queue-cache.ts";
import type { Tx } from "../transaction/tx.ts";
import {
  BESIDE_LIMITS,
  handOver,
  holdHeadSql,
  onlyQueue,
  type Row,
  type Taken,
  takenFrom,
  valuesFor,
} from "./claim-fast.ts";
import { readLarge } from "./claim-size.ts";

/**
 * The claim that is a whole transaction: the statement of the fast path (claim-fast.ts), which also checks what headers
 * tell, counts, and returns the transaction's number. batch/claim-at-once.ts sends it.
 */

const wholeSql = (calm: string): string =>
  holdHeadSql({
    // Events and times-to-live would take another statement.
    calm: `${calm}
      AND NOT EXISTS (SELECT 1 FROM dibs.listener) AND NOT EXISTS (SELECT 1 FROM dibs.ttl) AND ${INCARNATION} IS NOT NULL`,
    also: `, counted AS (
    ${insertClaimed({ queue: "$1", now: NOW, count: "count(*)", waitMs: `sum(greatest(0, ${NOW} - task.created_at))` })}
    FROM held CROSS JOIN ${TASK_OF("held", "created_at")} HAVING count(*) > 0)`,
    columns: `, CASE WHEN held.fence IS NOT NULL THEN pg_current_xact_id()::text END`,
  });
const WHOLE = wholeSql("");
const WHOLE_BESIDE_LIMITS = wholeSql(BESIDE_LIMITS);

type WholeRow = [...Row, xid: string | null];

/** What the statement found. */
export interface Found {
  taken: Taken[] | "busy" | "gone";
  /** The transaction's number, if it claimed something and this is all that its worker needs. */
  xid: string | null;
}

export class WholeClaim {
  readonly #tx: Tx;
  readonly #request: ClaimRequest;
  readonly #queue: Queue;
  /** So many tasks fit into one answer, whatever their size. */
  readonly #room: number;

  private constructor(tx: Tx, request: ClaimRequest, queue: Queue) {
    this.#tx = tx;
    this.#request = request;
    this.#queue = queue;
    const fit = Math.floor(LIMITS.answerBytes / Math.max(1, queue.policy.maxPayload));
    this.#room = Math.min(request.max, Math.max(1, fit));
  }

  /** Undefined if the request is not for one known queue without limits. */
  static of(tx: Tx, request: ClaimRequest): WholeClaim | undefined {
    const queue = tx.queues.areKnown ? onlyQueue(tx, request) : undefined;
    return queue && new WholeClaim(tx, request, queue);
  }

  async send(): Promise<Found> {
    const tx = this.#tx;
    const sql = tx.queues.hasLimits ? WHOLE_BESIDE_LIMITS : WHOLE;
    const values = valuesFor(this.#request, this.#queue, { room: this.#room, known: tx.queues.knownBy });
    const rows = await tx.rows<WholeRow>(sql, ...values);
    const taken = takenFrom(tx, this.#queue, rows as unknown as Row[]);
    const isComplete = Array.isArray(taken) && !taken.some(isLarge);
    if (Array.isArray(taken) && taken.length > 0) tx.noteWrite();
    return { taken, xid: isComplete ? rows[0]![8] : null };
  }

  /** There may be more tasks than this claim had room for. */
  isFullWith(taken: readonly Taken[]): boolean {
    return taken.length === this.#room && this.#room < this.#request.max;
  }

  /** For the worker. After the commit, since it may have to read. */
  async outcomeOf(taken: readonly Taken[]): Promise<ClaimOutcome> {
    // These were added when the queue took larger payloads. They may be gone by now, and their claims with them.
    const large = taken.filter(isLarge).map(({ row }) => row[3]);
    const payloads = await readLarge(this.#tx, large);
    const found = taken.filter((each) => !isLarge(each) || payloads.has(each.row[3]));
    const { name, policy } = this.#queue;
    return {
      tasks: found.map((each) => handOver(this.#tx, this.#queue, this.#request.worker, each, payloads)),
      policies: found.length > 0 ? { [name]: policy } : {},
      passed: false,
      more: this.isFullWith(taken),
    };
  }
}

function isLarge({ special }: Taken): boolean {
  return special[10] !== null;
}
