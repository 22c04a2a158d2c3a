import { PostgresServer } from "../../test/postgres/server.ts";
import type { Service } from "../contender.ts";

/** What every task on it survives: nobody is measured with less than the server's defaults. */
export const ON_POSTGRES = "on disk before every answer (PostgreSQL, synchronous_commit=on)";

/** A server of its own with its defaults, and a new database. */
export async function servePostgres(): Promise<Service> {
  const server = await PostgresServer.start();
  return { address: server.url, stop: () => server.remove() };
}
