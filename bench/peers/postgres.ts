import { PostgresServer } from "../../test/postgres/server.ts";
import type { Service } from "../contender.ts";

/** Durability of all peers on this server: none is measured with weaker settings than the server's defaults. */
export const ON_POSTGRES = "on disk before every answer (PostgreSQL, synchronous_commit=on)";

/** A separate server with default settings, and a new database. */
export async function servePostgres(): Promise<Service> {
  const server = await PostgresServer.start();
  return { address: server.url, stop: () => server.remove() };
}
