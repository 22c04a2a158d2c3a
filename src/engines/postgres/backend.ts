import { fateOf } from "./failure.ts";
import type { Link } from "./link.ts";

/** The server's process behind a connection. Its number is given to another one some time after it has ended. */
export interface Backend {
  pid: number;
  /** In microseconds. Null where the server does not tell: a role that was changed on the way in may not see its own. */
  startedAt: number | null;
}

const STARTED_AT = `floor(extract(epoch FROM backend_start) * 1000000)::int8`;

/** To be asked by a process of the server's about itself. */
export const BACKEND = `
  pg_backend_pid() AS pid, (SELECT ${STARTED_AT} FROM pg_stat_activity WHERE pid = pg_backend_pid()) AS "startedAt"`;

const PATIENCE_MS = 2_000;
const END = `
  SELECT pg_terminate_backend(pid, ${PATIENCE_MS}) AS ended FROM pg_stat_activity WHERE pid = $1 AND ${STARTED_AT} = $2`;

/**
 * Ends it, if it has not ended: what was sent to it before its connection was lost may still be waiting there, and is either
 * carried out by then or never.
 */
export async function endBackend(link: Link, { pid, startedAt }: Backend): Promise<void> {
  try {
    while ((await link.all<{ ended: boolean }>(END, pid, startedAt)).some(({ ended }) => !ended));
  } catch (error) {
    // Where it may not be ended, it is not waited for either.
    if (fateOf(error) === "reconnect") throw error;
  }
}
