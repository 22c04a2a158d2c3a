/**
 * These settings make plans use indexes. A table that is new or was just emptied has no useful statistics, and a claim
 * that is planned by them scans the whole table. Every statement of dibs has an index to use.
 *
 * For joins, and for tables with several indexes, that is not enough: see look-up.ts.
 */
export const PLANNING: Record<string, string> = {
  enable_seqscan: "off",
  enable_bitmapscan: "off",
  enable_hashjoin: "off",
  enable_mergejoin: "off",
  // Each row is looked up once, so a cache costs more than it saves.
  enable_memoize: "off",
  max_parallel_workers_per_gather: "0",
  jit: "off",
  plan_cache_mode: "force_generic_plan",
};

/** Until the end of the transaction. */
export function setLocally(settings: Record<string, string>): string {
  const calls = Object.entries(settings).map(([name, value]) => `set_config('${name}', '${value}', true)`);
  return `SELECT ${calls.join(", ")}`;
}

/** Whether a commit is answered after it is flushed to disk, or before. */
export type Durability = "full" | "relaxed";

/** A client that hangs inside a transaction must not block others for as long as a lease. */
const IDLE_MS = 10_000;

export function settingsFor(durability: Durability): Record<string, string> {
  return {
    ...PLANNING,
    // As BEGIN in connection.ts: single statements are transactions without it.
    default_transaction_isolation: "read committed",
    idle_in_transaction_session_timeout: `${IDLE_MS}`,
    // A server may be set to acknowledge before the disk does; what `add` returned must survive a power cut.
    synchronous_commit: durability === "full" ? "on" : "off",
  };
}
