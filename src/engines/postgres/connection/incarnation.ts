import type { Connection } from "./connection.ts";
import { StaleRead } from "./batch-conflicts.ts";

/**
 * The incarnation of the server: a random token in `dibs.incarnation`. It ends when the server crashes, when a standby
 * takes over, and when the store is restored from a dump. After that, the last transaction numbers and fences may be given
 * out again, so a new incarnation begins with higher ones.
 *
 * The table is unlogged, so a crash and a take-over empty it. A dump contains its row, and `born` then is not the
 * transaction that wrote it. Each batch that writes reads the token with its header, because a connection through a
 * pooler outlives a crash of the server.
 */
const IS_CURRENT = `incarnation.xmin = incarnation.born::xid`;
export const INCARNATION = `(SELECT incarnation.token FROM dibs.incarnation WHERE incarnation.one = 1 AND ${IS_CURRENT})`;

/**
 * A number above all that were given out. Up to 10 million may be missing from the log or the standby. A dump may be of
 * any age, but never were 1,000 given out in each millisecond since 1970, so the clock gives a higher one.
 */
const above = (sequence: string): string =>
  `setval('${sequence}', greatest(nextval('${sequence}') + 10000000,
    floor(extract(epoch FROM clock_timestamp()) * 1000)::int8 * 1000))`;

// Of several processes, one begins the incarnation, and the others wait for its row. The commit is synced, whatever the
// durability: after another crash, the same numbers must not be given out again.
const BEGIN_INCARNATION = `
  WITH next AS (
    INSERT INTO dibs.incarnation (one, token) VALUES (1, gen_random_uuid()::text)
    ON CONFLICT (one) DO UPDATE SET token = excluded.token, born = excluded.born WHERE NOT ${IS_CURRENT}
    RETURNING token)
  SELECT set_config('synchronous_commit', 'on', true), ${above("dibs.fence")}, ${above("dibs.session_id")} FROM next`;

/** The header found no current incarnation. */
export class NoIncarnation extends StaleRead {
  override get name(): string {
    return "NoIncarnation";
  }
}

/** Before anything is claimed: no two claims have the same fence. */
export async function beginIncarnation(link: Connection): Promise<void> {
  await link.all(BEGIN_INCARNATION);
}

/** Identifies a transaction, to ask the server for its outcome. The number is unique within its incarnation. */
export interface CommitMark {
  xid: string | null;
  incarnation: string | null;
}

// One statement: through a pooler, the next one may reach another server.
const STATUS = `
  SELECT pg_xact_status($1::xid8) AS status FROM dibs.incarnation
  WHERE incarnation.one = 1 AND incarnation.token = $2 AND ${IS_CURRENT}`;

/** The outcome of a commit whose answer was lost. */
export async function commitOutcome(
  link: Connection,
  { xid, incarnation }: CommitMark,
): Promise<"committed" | "aborted" | "in progress" | "unknown"> {
  if (xid === null || incarnation === null) return "unknown";
  const [row] = await link.all<{ status: "committed" | "aborted" | "in progress" | null }>(
    STATUS,
    xid,
    incarnation,
  );
  return row?.status ?? "unknown";
}
