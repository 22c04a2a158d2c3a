import { Client } from "pg";
import { afterAll } from "vitest";
import { createBroker } from "../../src/broker/broker.ts";
import type { CallersTransaction, CleanUp, Harness, Opened } from "../../src/engine/conformance/harness.ts";
import { openPostgres } from "../../src/engines/postgres/engine.ts";
import type { ManualClock } from "../../src/testing/manual-clock.ts";
import { dropSchema, freshSchema } from "../postgres/shared.ts";
import { Heart } from "./heart.ts";

interface Ground {
  url: string;
  schema: string;
}

/** A schema of its own for each store. To make and drop one takes as long as a case: both are done beside the cases. */
let next: Promise<Ground> | undefined;
let dropping: Promise<void> = Promise.resolve();

async function make(): Promise<Ground> {
  const ground = await freshSchema(() => {});
  await (await openPostgres(ground)).close();
  return ground;
}

async function take(cleanUp: CleanUp): Promise<Ground> {
  const ground = await (next ?? make());
  next = make();
  // Awaited at the end; until then it must not count as unhandled.
  next.catch(() => {});
  cleanUp(async () => drop(ground));
  return ground;
}

function drop({ url, schema }: Ground): void {
  dropping = dropping.then(() => dropSchema(url, schema));
}

/** To be called by the file that runs the suite. */
export function dropAfterAll(): void {
  afterAll(async () => {
    if (next) drop(await next);
    await dropping;
  });
}

export const postgres: Harness = {
  shared: true,
  transactions: true,
  open: async (clock, cleanUp) => openSchema(await take(cleanUp), clock),
};

async function openSchema(ground: Ground, clock: ManualClock): Promise<Opened> {
  const heart = new Heart(clock);
  const engine = await openPostgres({ ...ground, clock: heart });
  return {
    port: createBroker(engine, { clock }),
    hang: () => heart.stop(),
    begin: () => beginTransaction(ground.url),
    another: () => openSchema(ground, clock),
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
