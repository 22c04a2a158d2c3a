import { hostAndDatabaseOf } from "../../core/process/address.ts";
import { checkClock, type Finding, ok, problem, warning } from "./finding.ts";

/** Checks of a PostgreSQL server that the engine does not make when it opens a store. */
export async function checkPostgres(url: string): Promise<Finding[]> {
  const { default: pg } = await import("pg");
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  try {
    const before = Date.now();
    await client.connect();
    const started = Date.now();
    const { rows } = await client.query<Settings>(SETTINGS);
    const row = rows[0]!;
    return [
      ok(
        "postgres",
        `${hostAndDatabaseOf(url)}, PostgreSQL ${row.version}, connected in ${started - before} ms.`,
      ),
      checkClock("PostgreSQL", Number(row.now), started, Date.now()),
      checkDurability(row),
      checkConnections(row),
      checkVacuum(row),
      checkTransactions(row),
    ];
  } catch {
    // Opening the store says why it cannot be reached, and what to do.
    return [];
  } finally {
    await client.end().catch(() => {});
  }
}

interface Settings {
  version: string;
  now: string;
  fsync: string;
  commits: string;
  pages: string;
  vacuum: string;
  most: number;
  used: number;
  oldest: number | null;
}

const SETTINGS = `
  SELECT current_setting('server_version') AS version, extract(epoch FROM clock_timestamp()) * 1000 AS now,
    current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS commits,
    current_setting('full_page_writes') AS pages, current_setting('autovacuum') AS vacuum,
    current_setting('max_connections')::int4 AS most,
    (SELECT count(*)::int4 FROM pg_stat_activity WHERE backend_type = 'client backend') AS used,
    (SELECT max(extract(epoch FROM now() - xact_start))::int4 FROM pg_stat_activity
     WHERE state LIKE 'idle in transaction%' AND datname = current_database()) AS oldest`;

function checkDurability({ fsync, commits, pages }: Settings): Finding {
  const off = [fsync === "off" && "fsync", pages === "off" && "full_page_writes"].filter(Boolean);
  if (off.length > 0)
    return problem(
      "durability",
      `${off.join(" and ")} ${off.length > 1 ? "are" : "is"} off: a crash of the machine can damage the database.`,
      `Switch ${off.length > 1 ? "them" : "it"} on in postgresql.conf, unless losing the data is acceptable.`,
    );
  if (commits === "off")
    return ok(
      "durability",
      "synchronous_commit is off by default; dibs switches it on for its own transactions.",
    );
  return ok("durability", "fsync and full_page_writes are on.");
}

function checkConnections({ used, most }: Settings): Finding {
  if (used < most * 0.8) return ok("connections", `${used} of ${most} connections are used.`);
  return warning(
    "connections",
    `${used} of ${most} connections are used. Without a free one, no process can open the store.`,
    "Raise max_connections, share stores between workers of a process, or use a pooler (docs/guides/postgres.md).",
  );
}

function checkVacuum({ vacuum }: Settings): Finding {
  if (vacuum === "on") return ok("autovacuum", "autovacuum is on.");
  return problem(
    "autovacuum",
    "autovacuum is off: deleted rows pile up, and every claim becomes slower.",
    "Switch it on in postgresql.conf.",
  );
}

const LONG_SECONDS = 300;

function checkTransactions({ oldest }: Settings): Finding {
  if (oldest === null || oldest < LONG_SECONDS)
    return ok("transactions", "No idle transaction is older than 5 minutes.");
  return warning(
    "transactions",
    `A transaction has been idle for ${Math.round(oldest / 60)} minutes. While it is open, deleted rows cannot be removed.`,
    "Find it in pg_stat_activity and end it; set idle_in_transaction_session_timeout.",
  );
}
