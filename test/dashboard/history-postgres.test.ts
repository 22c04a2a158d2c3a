import { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { openPort } from "../../src/api/open.ts";
import { freshSchema } from "../postgres/shared.ts";
import { weekOfOneQueue, writeHistories } from "./history-kit.ts";

const MEBIBYTE = 1024 * 1024;
/** Documents that a server writes in a minute: history.ts. */
const A_MINUTE = 300;

test("a week of a thousand queues stays below 20 MB on PostgreSQL, rewritten for ten minutes", async () => {
  const { url, schema } = await freshSchema(onTestFinished);
  const client = new Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  const port = await openPort(url, { schema });
  onTestFinished(() => port.close());
  const size = async (): Promise<number> => {
    const sql = `SELECT sum(pg_total_relation_size(c.oid))::float8 AS bytes
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND c.relkind = 'r'`;
    return (await client.query<{ bytes: number }>(sql, [schema])).rows[0]!.bytes;
  };
  const tables = await client.query<{ relname: string }>(
    `SELECT relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = $1 AND c.relkind = 'r'`,
    [schema],
  );
  const before = await size();
  const report = weekOfOneQueue();
  const names = Array.from({ length: 1_000 }, (_, at) => `queue-${at}`);
  await writeHistories(port, names, report);
  for (let minute = 0; minute < 10; minute++) {
    const first = (minute * A_MINUTE) % names.length;
    await writeHistories(port, [...names, ...names].slice(first, first + A_MINUTE), report);
    // As autovacuum does each minute, from 250 changed rows of a thousand on.
    for (const { relname } of tables.rows) await client.query(`VACUUM "${schema}"."${relname}"`);
  }
  expect((await size()) - before).toBeLessThan(20 * MEBIBYTE);
});
