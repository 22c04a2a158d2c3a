import type { Link } from "./link.ts";

/** Its table is empty after a crash and on a standby that has taken over: see migrations.ts. */
export const LIFE = `SELECT token FROM dibs.life WHERE one = 1`;
// Nor may it have heard of the last fences: so many are not given out until it does.
const NEXT_LIFE = `
  WITH next AS (
    INSERT INTO dibs.life (one, token) VALUES (1, gen_random_uuid()::text) ON CONFLICT DO NOTHING RETURNING token)
  SELECT token, setval('dibs.fence', nextval('dibs.fence') + 10000000) FROM next`;
/** A standby does not let anybody look into such a table. */
const IS_STANDBY = "0A000";

/**
 * The life of the server that a connection belongs to, asked for before anything is claimed: no two claims have the same
 * fence, whatever was given out before a crash. Null at a standby, which can only be read from.
 */
export async function lifeOf(link: Link): Promise<string | null> {
  const read = async (sql: string): Promise<string | undefined> =>
    (await link.all<{ token: string }>(sql))[0]?.token;
  try {
    // Of those who find none one brings the next, and the others wait for it.
    return (await read(LIFE)) ?? (await read(NEXT_LIFE)) ?? (await read(LIFE))!;
  } catch (error) {
    if ((error as { code?: string }).code === IS_STANDBY) return null;
    throw error;
  }
}

/**
 * A transaction's number means something only in the life of the server that gave it out: what a crash has not left in the log
 * it gives out again.
 */
export interface CommitMark {
  xid: string | null;
  life: string | null;
}

const STATUS = `SELECT pg_xact_status($1::xid8) AS status`;

/** What became of a commit whose answer was lost, on this connection or another. */
export async function whatBecameOf(
  { xid, life }: CommitMark,
  link: Link,
): Promise<"committed" | "aborted" | "in progress" | "unknown"> {
  if (xid === null || life === null) return "unknown";
  if ((await lifeOf(link)) !== life) return "unknown";
  const [row] = await link.all<{ status: "committed" | "aborted" | "in progress" | null }>(STATUS, xid);
  return row!.status ?? "unknown";
}
