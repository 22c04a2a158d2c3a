/**
 * Plans are fixed by the indexes: a table that is new or was just emptied has no statistics worth the name, and a
 * claim that is planned by them walks the whole table. Every statement here has an index to go by.
 *
 * That alone is not enough for tables that are joined, or have several indexes: look-up.ts.
 */
export const PLANNING: Record<string, string> = {
  enable_seqscan: "off",
  enable_bitmapscan: "off",
  enable_hashjoin: "off",
  enable_mergejoin: "off",
  // What is looked up is looked up once.
  enable_memoize: "off",
  max_parallel_workers_per_gather: "0",
  jit: "off",
  plan_cache_mode: "force_generic_plan",
};

/** For the open transaction, and no longer. */
export function setLocally(settings: Record<string, string>): string {
  const calls = Object.entries(settings).map(([name, value]) => `set_config('${name}', '${value}', true)`);
  return `SELECT ${calls.join(", ")}`;
}

/** Whether a commit is answered once it is on disk, or before. */
export type Durability = "full" | "relaxed";

/** A client that hangs in the midst of a transaction must not hold others up for long: not for as long as a lease. */
const IDLE_MS = 10_000;

export function settingsFor(durability: Durability): Record<string, string> {
  return {
    ...PLANNING,
    // As BEGIN says it (connection.ts): some transactions begin without that word.
    default_transaction_isolation: "read committed",
    idle_in_transaction_session_timeout: `${IDLE_MS}`,
    // A server may be set to acknowledge before the disk does; what `add` returned must survive a power cut.
    synchronous_commit: durability === "full" ? "on" : "off",
  };
}
