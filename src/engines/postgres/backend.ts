import type { Link } from "./link.ts";

/** The server's process behind a connection. Its number is given to another one some time after it has ended. */
export interface Backend {
  pid: number;
  /** In microseconds. */
  startedAt: number;
}

const STARTED_AT = `floor(extract(epoch FROM backend_start) * 1000000)::int8`;

/** To be asked by a process of the server's about itself. */
export const BACKEND = `
  pg_backend_pid() AS pid, (SELECT ${STARTED_AT} FROM pg_stat_activity WHERE pid = pg_backend_pid()) AS "startedAt"`;

const PATIENCE_MS = 2_000;
const END = `
  SELECT pg_terminate_backend(pid, ${PATIENCE_MS}) FROM pg_stat_activity WHERE pid = $1 AND ${STARTED_AT} = $2`;

/**
 * Ends it, if it has not ended: what was sent to it before the connection was lost may still be waiting there, and is either
 * carried out by now or never. Answers whether that is certain.
 */
export async function hasEnded(link: Link, { pid, startedAt }: Backend): Promise<boolean> {
  return (await link.all(END, pid, startedAt)).length === 0;
}
