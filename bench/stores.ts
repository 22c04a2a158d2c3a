import { Client } from "pg";
import { join } from "node:path";
import { PostgresServer } from "../test/postgres/server.ts";
import { inFreshFolder } from "./scenario.ts";

export const STORES = ["sqlite", "postgres"] as const;
export type StoreName = (typeof STORES)[number];

/** Where the scenarios run: each on a store that nobody has used. */
export interface Ground {
  withFreshStore<T>(work: (storePath: string) => Promise<T>): Promise<T>;
  end(): Promise<void>;
}

export async function groundFor(store: StoreName): Promise<Ground> {
  return store === "postgres" ? postgres() : sqlite;
}

const sqlite: Ground = {
  withFreshStore: (work) => inFreshFolder((folder) => work(join(folder, "bench.db"))),
  end: async () => {},
};

/** One server with its defaults, which flush every commit; a database for each scenario. */
async function postgres(): Promise<Ground> {
  const server = await PostgresServer.start();
  let databases = 0;
  return {
    withFreshStore: async (work) => {
      const name = `bench_${++databases}`;
      await administer(server.url, `CREATE DATABASE ${name}`);
      const url = new URL(server.url);
      url.pathname = `/${name}`;
      try {
        return await work(url.href);
      } finally {
        await administer(server.url, `DROP DATABASE ${name} WITH (FORCE)`);
      }
    },
    end: () => server.remove(),
  };
}

async function administer(url: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}
