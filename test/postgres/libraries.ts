// What the guide says to pass as `tx`, by library: the text of each adapter is compared with the guide.

import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import knex from "knex";
import { CompiledQuery, Kysely, PostgresDialect } from "kysely";
import { Client, Pool } from "pg";
import postgres from "postgres";
import type { CallersTransaction } from "../conformance/suite/harness.ts";
import { openPrisma } from "./prisma.ts";

type Adapter = Pick<CallersTransaction, "query">;

/** Begins a transaction, and ends it on command: with the end of its function, or an error in it. */
type Transact = (work: (tx: Adapter) => Promise<void>) => Promise<unknown>;

const ROLL_BACK = new Error("rolled back, as the test wants it");

async function begin(transact: Transact, close: () => Promise<unknown>): Promise<CallersTransaction> {
  const word = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<Adapter>();
  const over = transact(async (tx) => {
    begun.resolve(tx);
    await word.promise;
  });
  over.catch(begun.reject);
  const tx = await begun.promise;
  return {
    query: (q, p) => tx.query(q, p),
    commit: async () => {
      word.resolve();
      await over;
      await close();
    },
    rollback: async () => {
      word.reject(ROLL_BACK);
      await over.catch((error: unknown) => {
        if (error !== ROLL_BACK) throw error;
      });
      await close();
    },
  };
}

export const LIBRARIES: Record<string, (url: string) => Promise<CallersTransaction>> = {
  pg: async (url) => {
    const client = new Client({ connectionString: url });
    await client.connect();
    return begin(
      async (work) => {
        await client.query("BEGIN");
        try {
          await work(client);
          await client.query("COMMIT");
        } catch (error) {
          await client.query("ROLLBACK");
          throw error;
        }
      },
      () => client.end(),
    );
  },

  "postgres.js": async (url) => {
    const db = postgres(url, { max: 1, onnotice: () => {} });
    return begin(
      (work) => db.begin((sql) => work({ query: (q, p) => sql.unsafe(q, p as never[]) })),
      () => db.end(),
    );
  },

  Drizzle: async (url) => {
    const pool = new Pool({ connectionString: url, max: 1 });
    const db = drizzle(pool);
    const parts = (q: string, p: unknown[]) =>
      q.split(/\$(\d+)/).map((part, i) => (i % 2 ? sql`${p[+part - 1]}` : sql.raw(part)));
    return begin(
      (work) => db.transaction((trx) => work({ query: (q, p) => trx.execute(sql.join(parts(q, p))) })),
      () => pool.end(),
    );
  },

  Kysely: async (url) => {
    const db = new Kysely<object>({
      dialect: new PostgresDialect({ pool: new Pool({ connectionString: url, max: 1 }) }),
    });
    return begin(
      (work) =>
        db
          .transaction()
          .execute((trx) => work({ query: (q, p) => trx.executeQuery(CompiledQuery.raw(q, p)) })),
      () => db.destroy(),
    );
  },

  Knex: async (url) => {
    const db = knex({ client: "pg", connection: url, pool: { min: 0, max: 1 } });
    const values = (q: string, p: unknown[]) => (q.match(/\$\d+/g) ?? []).map((n) => p[+n.slice(1) - 1]);
    return begin(
      (work) =>
        db.transaction((trx) =>
          work({ query: (q, p) => trx.raw(q.replace(/\$\d+/g, "?"), values(q, p) as never[]) }),
        ),
      () => db.destroy(),
    );
  },

  Prisma: async (url) => {
    const db = openPrisma(url);
    return begin(
      (work) =>
        db.$transaction((tx) => work({ query: (q, p) => tx.$queryRawUnsafe(q, ...p) }), { timeout: 20_000 }),
      () => db.$disconnect(),
    );
  },
};
