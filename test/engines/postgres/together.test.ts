import { setTimeout as sleep } from "node:timers/promises";
import { Client } from "pg";
import { expect, onTestFinished, test } from "vitest";
import { open } from "../../../src/index.ts";
import { PostgresServer, QUICK } from "../../postgres/server.ts";
import { isLong } from "../../run/long.ts";

/** Each a store with connections of its own, as processes have them: calls of one store would be gathered. */
const PRODUCERS = 32;
const CONSUMERS = 4;
/** The plans of all statements, busy ones and rare ones, are in plans.test.ts. */
const EACH = isLong ? 1_000 : 40;
/** A store has up to five connections. */
const SETTINGS = { ...QUICK, max_connections: "250", log_lock_waits: "on" };

/** Scanned by rare verbs on purpose, or never more than a handful of rows. */
const SMALL = [
  "claim",
  "session",
  "serving",
  "listener",
  // A row a queue, all of which are read when it is asked what is past its retention.
  "depth",
  "store",
  "queue",
  "migration",
  "delta",
  "notice",
  "event",
];

test(
  "32 producers, claims, groups, keys and a transaction that stays open: no deadlock, no scan, nothing lost",
  { timeout: 120_000 + PRODUCERS * EACH * 10 },
  async () => {
    const server = await PostgresServer.start({ settings: SETTINGS });
    onTestFinished(() => server.remove());
    const admin = new Client({ connectionString: server.url });
    await admin.connect();
    onTestFinished(() => admin.end());
    const holder = new Client({ connectionString: server.url });
    await holder.connect();
    onTestFinished(() => holder.end());

    const all = await Promise.all(Array.from({ length: CONSUMERS + PRODUCERS }, () => open(server.url)));
    onTestFinished(async () => void (await Promise.all(all.map((dibs) => dibs.close()))));
    const [consumers, producers] = [all.slice(0, CONSUMERS), all.slice(CONSUMERS)];
    await holder.query(`BEGIN ISOLATION LEVEL REPEATABLE READ`);
    await holder.query(`CREATE TABLE held (a int)`);
    const { rows: held } = await holder.query<{ pid: number }>(
      `SELECT pg_backend_pid() AS pid, count(*) FROM dibs.task`,
    );

    const seen = new Map<string, number>();
    const inGroup = new Map<string, number>();
    let overlaps = 0;
    const workers = consumers.map((dibs) =>
      dibs.queue<{ n: string }>("work").work(
        async (task) => {
          const group = task.groupKey;
          if (group !== null) {
            inGroup.set(group, (inGroup.get(group) ?? 0) + 1);
            if (inGroup.get(group)! > 1) overlaps++;
          }
          await sleep(Math.random() * 4);
          if (group !== null) inGroup.set(group, inGroup.get(group)! - 1);
          if (task.attempt === 1 && Math.random() < 0.05) throw new Error("once");
          seen.set(task.data.n, (seen.get(task.data.n) ?? 0) + 1);
        },
        { concurrency: 10, prefetch: 10 },
      ),
    );
    const waits = await watchLocks(server.url, held[0]!.pid);
    await Promise.all(
      producers.map(async (dibs, p) => {
        const queue = dibs.queue<{ n: string }>("work", { backoff: { type: "fixed", delay: 10 } });
        for (let i = 0; i < EACH; i++) {
          await queue.add(
            { n: `${p}-${i}` },
            {
              ...(i % 3 === 0 && { groupKey: `g${i % 7}` }),
              ...(i % 4 === 0 && { idempotencyKey: `${p}-${i}` }),
              ...(i % 5 === 0 && { delay: 20, ttl: "1h" }),
              ...(i % 6 === 0 && { priority: i % 10 }),
            },
          );
        }
      }),
    );
    const total = PRODUCERS * EACH;
    while (seen.size < total) await sleep(20);
    await Promise.all(workers.map((worker) => worker.stop()));
    const { looks, waiting, most, byQuery, behindHolder } = await waits.stop();
    console.log(`locks: ${waiting} waits in ${looks} looks, at most ${most} at once\n${topOf(byQuery)}`);
    expect(looks).toBeGreaterThan(0);
    // A process that waits, waits for one commit of another one, so most processes work most of the time.
    expect(waiting / looks).toBeLessThan(all.length / 2);
    expect(behindHolder).toEqual([]);
    expect(overlaps).toBe(0);
    expect([...seen.values()].every((count) => count === 1)).toBe(true);
    expect((await all[0]!.queue("work").stats()).depth).toMatchObject({
      done: total,
      ready: 0,
      claimed: 0,
      waiting: 0,
    });
    await Promise.all(all.map((dibs) => dibs.close()));

    // Connections report what they have counted when they end.
    await untilAlone(admin);
    const { rows: walked } = await admin.query<Walked>(WALKED);
    console.log(
      walked.map(({ index, scans, entries }) => `${scans} × ${index}: ${entries} entries`).join("\n"),
    );
    await holder.query("ROLLBACK");
    const { rows } = await admin.query<{ relname: string; seq_scan: string }>(
      `SELECT relname, seq_scan FROM pg_stat_user_tables WHERE schemaname = 'dibs' AND seq_scan > 0 AND relname <> ALL ($1)`,
      [SMALL],
    );
    // The client with the open transaction has counted the tasks with a scan, and creating an index scans too.
    const scans = rows.filter(({ relname, seq_scan: count }) => Number(count) > (relname === "task" ? 2 : 3));
    expect(scans).toEqual([]);
    const { rows: deadlocks } = await admin.query(`SELECT sum(deadlocks)::int AS n FROM pg_stat_database`);
    expect(deadlocks).toEqual([{ n: 0 }]);
    expect(server.log).not.toContain("deadlock");
  },
);

interface Walked {
  index: string;
  scans: number;
  entries: number;
}

/**
 * The busiest indexes: how often they were asked, and what that went over while no dead row could be removed. What stays
 * bounded of that is in floors.test.ts, what does not in docs/decisions/0012.
 */
const WALKED = `
  SELECT indexrelname AS index, idx_scan::float8 AS scans, idx_tup_read::float8 AS entries FROM pg_stat_user_indexes
  WHERE schemaname = 'dibs' AND idx_scan > 0 ORDER BY idx_tup_read DESC LIMIT 5`;

/** The few statements that waited most. */
function topOf(byQuery: Map<string, number>): string {
  const top = [...byQuery].sort(([, a], [, b]) => b - a).slice(0, 3);
  return top.map(([query, count]) => `${count} × ${query}`).join("\n");
}

/** Waits until the server has no process left for this test: each reports its counts before it ends. */
async function untilAlone(client: Client): Promise<void> {
  const sql = `SELECT 1 FROM pg_stat_activity WHERE application_name = 'dibs'`;
  while ((await client.query(sql)).rowCount! > 0) await sleep(5);
}

/** Which statements wait for which others. */
const WAITS = `
  SELECT query, pg_blocking_pids(pid) AS behind FROM pg_stat_activity WHERE wait_event_type = 'Lock'`;

/** Polls which statements wait for whose lock, and whether any waits for this client's. */
async function watchLocks(url: string, holder: number) {
  const client = new Client({ connectionString: url });
  await client.connect();
  let [looks, waiting, most] = [0, 0, 0];
  const byQuery = new Map<string, number>();
  const behindHolder: string[] = [];
  const over = new AbortController();
  const looking = (async () => {
    while (!over.signal.aborted) {
      const { rows } = await client.query<{ query: string; behind: number[] }>(WAITS);
      looks++;
      waiting += rows.length;
      most = Math.max(most, rows.length);
      for (const { query, behind } of rows) {
        const words = query.replaceAll(/\s+/g, " ").trim().slice(0, 150);
        byQuery.set(words, (byQuery.get(words) ?? 0) + 1);
        if (behind.includes(holder)) behindHolder.push(query);
      }
      await sleep(5);
    }
    await client.end();
  })();
  return {
    stop: async () => {
      over.abort();
      await looking;
      return { looks, waiting, most, byQuery, behindHolder };
    },
  };
}
