import { Client } from "pg";
import { createBroker } from "../../src/broker/broker.ts";
import type { CallersTransaction, Opened } from "../../src/engine/conformance/harness.ts";
import { conformance } from "../../src/engine/conformance/index.ts";
import { openPostgres } from "../../src/engines/postgres/engine.ts";
import type { ManualClock } from "../../src/testing/manual-clock.ts";
import { freshSchema } from "../postgres/shared.ts";
import { Heart } from "./heart.ts";
import { standStillDuring } from "./stand-still.ts";

conformance("postgres", {
  shared: true,
  transactions: true,
  open: async (clock, cleanUp) => {
    const { url, schema } = await freshSchema(cleanUp);
    return openSchema(url, schema, clock);
  },
});

async function openSchema(url: string, schema: string, clock: ManualClock): Promise<Opened> {
  const heart = new Heart(clock);
  const engine = await openPostgres({ url, schema, clock: heart });
  return {
    port: createBroker(standStillDuring(engine, clock), { clock }),
    hang: () => heart.stop(),
    begin: () => beginTransaction(url),
    another: () => openSchema(url, schema, clock),
  };
}

/** Of a client of `pg`, which closes when it is over. */
async function beginTransaction(url: string): Promise<CallersTransaction> {
  const client = new Client({ connectionString: url });
  await client.connect();
  await client.query("BEGIN");
  const end = async (word: "COMMIT" | "ROLLBACK"): Promise<void> => {
    await client.query(word);
    await client.end();
  };
  return {
    query: (sql, params) => client.query(sql, params),
    commit: () => end("COMMIT"),
    rollback: () => end("ROLLBACK"),
  };
}
