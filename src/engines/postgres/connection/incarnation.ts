import type { Connection } from "./connection.ts";
import { StaleRead } from "./batch-conflicts.ts";

/**
 * The server's life, by its name. It ends with a crash and where a standby takes over, for the table is not logged and then
 * empty; and where the store is restored from a dump, which brings the row as it was: but written by another transaction than
 * the one it says. What was given out last in a life that has ended, the numbers of transactions and the fences, may be given
 * out again.
 *
 * Each transaction that writes asks for it with its header: behind a pooler a connection outlives the server's crash.
 */
const COUNTS = `life.xmin = life.born::xid`;
export const LIFE = `(SELECT life.token FROM dibs.life WHERE life.one = 1 AND ${COUNTS})`;

/**
 * Above all that was given out before. So many may not have reached the log, or the standby. Since a dump was made more may have
 * been given out, but never 1,000 in each millisecond since 1970: by the clock it is above them however old the dump is.
 */
const above = (sequence: string): string =>
  `setval('${sequence}', greatest(nextval('${sequence}') + 10000000,
    floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 * 1000))`;

// Of those who find none one begins the next, and the others wait for it. It reaches the disk before anything that follows:
// another crash must not lead to the same numbers.
const NEXT_LIFE = `
  WITH next AS (
    INSERT INTO dibs.life (one, token) VALUES (1, gen_random_uuid()::text)
    ON CONFLICT (one) DO UPDATE SET token = excluded.token, born = excluded.born WHERE NOT ${COUNTS}
    RETURNING token)
  SELECT set_config('synchronous_commit', 'on', true), ${above("dibs.fence")}, ${above("dibs.session_id")} FROM next`;

/** The transaction's header found that the life before has ended. */
export class NoIncarnation extends StaleRead {
  override get name(): string {
    return "NoIncarnation";
  }
}

/** Before anything is claimed: no two claims have the same fence. */
export async function beginIncarnation(link: Connection): Promise<void> {
  await link.all(NEXT_LIFE);
}

/** By which the server can be asked what became of a transaction: its number, which means something only in the life that gave it out. */
export interface CommitMark {
  xid: string | null;
  life: string | null;
}

// In one statement: through a pooler the next one may be another server's.
const STATUS = `
  SELECT pg_xact_status($1::xid8) AS status FROM dibs.life WHERE life.one = 1 AND life.token = $2 AND ${COUNTS}`;

/** What became of a commit whose answer was lost. */
export async function commitOutcome(
  link: Connection,
  { xid, life }: CommitMark,
): Promise<"committed" | "aborted" | "in progress" | "unknown"> {
  if (xid === null || life === null) return "unknown";
  const [row] = await link.all<{ status: "committed" | "aborted" | "in progress" | null }>(STATUS, xid, life);
  return row?.status ?? "unknown";
}
