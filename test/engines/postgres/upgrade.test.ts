import { expect, test } from "vitest";
import { formatTaskId } from "../../../src/core/task-id.ts";
import { BELOW_FLOORS } from "../../../src/engines/postgres/line/floors.ts";
import { MIGRATIONS } from "../../../src/engines/postgres/schema/migrations.ts";
import { connect, ground, untilOneWaits } from "./kit.ts";

const SALT = 7;
/** Queues, by their numbers, each with something in one state. */
const QUEUES = ["work", "grouped", "joined", "later", "dead", "ended", "noted", "limited"];
const HAND = 5;
const JOINED = 6;
const LIMITED = 7;
const LAST_EVENT = 41;

/** Tasks, by their numbers. */
const TASKS = {
  ready: 1,
  head: 2,
  behind: 3,
  held: 4,
  due: 5,
  far: 6,
  dead: 7,
  done: 8,
  noted: 9,
  counted: 10,
  next: 11,
  kept: 12,
} as const;

function idOf(task: keyof typeof TASKS): string {
  return formatTaskId(1, TASKS[task], SALT);
}

/** A store as the dibs of that many steps left it, with tasks in every state that it knew. */
async function formerStore(url: string, schema: string, steps: number): Promise<void> {
  const link = await connect({ url, schema });
  await link.exec(`CREATE SCHEMA IF NOT EXISTS ${schema}`);
  await link.exec(
    `CREATE TABLE dibs.migration (number int4 PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`,
  );
  for (const [index, step] of MIGRATIONS.slice(0, steps).entries()) {
    await link.exec(step);
    await link.exec(`INSERT INTO dibs.migration (number) VALUES (${index + 1})`);
  }
  const queueOf = (name: string): number => QUEUES.indexOf(name) + 1;
  const tasks = (Object.keys(TASKS) as (keyof typeof TASKS)[]).map((name) => {
    const queue = {
      ...{ ready: "work", kept: "work", head: "grouped", behind: "grouped", held: "joined", due: "later" },
      ...{ far: "later", dead: "dead", done: "ended", noted: "noted", counted: "limited", next: "limited" },
    }[name];
    const group = name === "head" || name === "behind" ? `'g'` : "NULL";
    const key = name === "done" ? `'key'` : "NULL";
    return `(nextval('dibs.seq'), 1, ${queueOf(queue)}, 0, ${group}, ${key}, '"${name}"')`;
  });
  const now = `floor(extract(epoch FROM clock_timestamp()) * 1000)::int8`;
  const claim = (task: number, fence: number, queue: string, session: string, special = false): string => `
    INSERT INTO dibs.claim (task, fence, started_at, lease, deadline, session, queue, failures, special, cancelled, worker)
    VALUES (${task}, ${fence}, ${now}, 600000, ${now} + 600000, ${session}, ${queueOf(queue)}, 0, ${special}, false, 'w');`;
  const info = JSON.stringify({ id: "w", name: "w", queues: ["joined"], host: "h", pid: 1, concurrency: 1 });
  await link.exec(`
    INSERT INTO dibs.store (one, salt, revision, epoch, event) VALUES (1, ${SALT}, 1, 0, ${LAST_EVENT});
    INSERT INTO dibs.queue (name, named, paused, created_at, revision) VALUES
      ${QUEUES.map((name) => `('${name}', '${name === "limited" ? '{"maxConcurrency":1}' : '{"maxAttempts":3}'}', false, 1, 1)`).join(", ")};
    INSERT INTO dibs.task (seq, created_at, queue, priority, group_key, idempotency_key, data) VALUES ${tasks.join(", ")};
    INSERT INTO dibs.ready (pos, task, queue, rank, failures, special) VALUES
      (${TASKS.ready}, ${TASKS.ready}, ${queueOf("work")}, 0, 0, false),
      (${TASKS.next}, ${TASKS.next}, ${queueOf("limited")}, 0, 0, false);
    INSERT INTO dibs.kept (pos, task, until, queue, rank, failures, special, avoid) VALUES
      (${TASKS.kept}, ${TASKS.kept}, 1, ${queueOf("work")}, 0, 1, false, '["w"]');
    INSERT INTO dibs.lane (queue, group_key) VALUES (${queueOf("grouped")}, 'g');
    INSERT INTO dibs.waiting (pos, task, queue, rank, group_key) VALUES (${TASKS.behind}, ${TASKS.behind}, ${queueOf("grouped")}, 0, 'g');
    INSERT INTO dibs.scheduled (pos, task, due, queue, failures, holds_group) VALUES
      (${TASKS.due}, ${TASKS.due}, 1, ${queueOf("later")}, 0, false),
      (${TASKS.far}, ${TASKS.far}, ${now} + 600000, ${queueOf("later")}, 0, false);
    ${claim(TASKS.head, HAND, "grouped", "NULL", true)}
    INSERT INTO dibs.session (id, worker, info, lease, joined_at, beat_at, mixed, overdue_at)
    VALUES (nextval('dibs.session_id'), 'w', '${info}', 600000, 1, ${now}, false, ${now} + 600000);
    INSERT INTO dibs.serving (queue, session) VALUES ('joined', 1);
    ${claim(TASKS.held, JOINED, "joined", "1")}
    ${claim(TASKS.counted, LIMITED, "limited", "NULL")}
    INSERT INTO dibs.dead (task, died_at, fence, queue, worker, fingerprint) VALUES (${TASKS.dead}, 1, 1, ${queueOf("dead")}, 'w', 'f');
    INSERT INTO dibs.attempt (task, fence, started_at, ended_at, attempt, worker, outcome, name, message, fingerprint)
    VALUES (${TASKS.dead}, 1, 1, 1, 3, 'w', 'failed', 'Error', 'no', 'f');
    INSERT INTO dibs.ended (task, ended_at, started_at, fence, queue, attempt, state, worker, result)
    VALUES (${TASKS.done}, ${now}, 1, 2, ${queueOf("ended")}, 1, 'done', 'w', '"result"');
    INSERT INTO dibs.idempotency (queue, key, task, created_at, forget_at, state)
    VALUES (${queueOf("ended")}, 'key', ${TASKS.done}, 1, ${now} + 600000, 'done');
    INSERT INTO dibs.inbox (task, queue) VALUES (${TASKS.noted}, ${queueOf("noted")});
    INSERT INTO dibs.listener (name, until) VALUES ('board', ${now} + 600000);
    INSERT INTO dibs.event (n, body) VALUES (${LAST_EVENT}, '{"type":"queue.created","at":1,"queue":"work"}');
    INSERT INTO dibs.depth (queue, ready, waiting, scheduled, claimed, done, dead, cancelled, expired) VALUES
      (1, 2, 0, 0, 0, 0, 0, 0, 0), (2, 0, 1, 0, 1, 0, 0, 0, 0), (3, 0, 0, 0, 1, 0, 0, 0, 0), (4, 0, 0, 2, 0, 0, 0, 0, 0),
      (5, 0, 0, 0, 0, 0, 1, 0, 0), (6, 0, 0, 0, 0, 1, 0, 0, 0), (8, 1, 0, 0, 1, 0, 0, 0, 0);
    SELECT setval('dibs.fence', ${LIMITED})`);
  // Limits are of step 7: until then nobody obeyed them.
  if (steps < 7) return;
  await link.exec(`
    INSERT INTO dibs.gate (queue) VALUES (${queueOf("limited")});
    UPDATE dibs.claim SET counted = true WHERE task = ${TASKS.counted}`);
}

const OLDER = MIGRATIONS.slice(1).map((_, index) => index + 1);

test.each(OLDER)("a store of schema %i is brought up to date, and what is new works on it", async (steps) => {
  const { url, schema, open } = await ground();
  await formerStore(url, schema, steps);
  const dibs = await open();
  const claims = await dibs.queue("work").claim({ max: 5 });
  expect(claims).toMatchObject([
    { data: "ready", maxAttempts: 3, attempt: 1 },
    { data: "kept", attempt: 2 },
  ]);
  await Promise.all(claims.map((claim) => claim.ack()));
  await dibs.port.subscribe("a.*", "g", {});
  expect(await dibs.port.publish({ topic: "a.b", data: "1" })).toHaveLength(1);
  await dibs.schedule("s", { every: "1h" }, { queue: "work" }).ready;
  expect(await dibs.schedules()).toHaveLength(1);
});

test.each(OLDER)("a store of schema %i is brought up to date with all that it held", async (steps) => {
  const { url, schema, open, engine: openEngine } = await ground();
  await formerStore(url, schema, steps);
  const [dibs, engine] = [await open(), await openEngine()];
  const ack = async (task: keyof typeof TASKS, fence: number): Promise<void> => {
    const settlement = { kind: "done", result: null } as const;
    const [settled] = await engine.execute([{ verb: "settle", id: idOf(task), fence, settlement }]);
    expect(settled).toEqual({ ok: { state: "done" } });
  };
  const claim = async (queue: string): Promise<unknown[]> =>
    (await dibs.queue(queue).claim({ max: 5 })).map(({ data }) => data);
  const depthOf = async (queue: string) => (await dibs.queue(queue).stats()).depth;

  // A note of a transaction of a caller's is taken up. Who listened is told of it, by the number that follows.
  const [heard] = await engine.execute([{ verb: "listen", listener: "board", after: LAST_EVENT, limit: 9 }]);
  const added = { type: "task.added", taskId: idOf("noted") };
  expect(heard).toMatchObject({ ok: { events: [added], cursor: LAST_EVENT + 1, missed: 0 } });
  expect(await claim("noted")).toEqual(["noted"]);
  // A group's next one waits for its head.
  expect(await claim("grouped")).toEqual([]);
  await ack("head", HAND);
  expect(await claim("grouped")).toEqual(["behind"]);
  expect(await depthOf("grouped")).toMatchObject({ done: 1, claimed: 1, waiting: 0, ready: 0 });
  // A session lives, with what it holds.
  const [beaten] = await engine.execute([{ verb: "heartbeat", sessions: [1] }]);
  expect(beaten).toEqual({ ok: { notices: [] } });
  expect(await dibs.workers()).toMatchObject([{ id: "w" }]);
  await ack("held", JOINED);
  expect(await depthOf("joined")).toMatchObject({ done: 1, claimed: 0 });
  // What is due comes, and what is not does not.
  expect(await claim("later")).toEqual(["due"]);
  expect(await dibs.task(idOf("far")).info()).toMatchObject({ state: "scheduled" });
  // A dead letter is tried again, with its ledger.
  expect(await dibs.task(idOf("dead")).history()).toMatchObject([{ attempt: 3, error: { message: "no" } }]);
  expect(await dibs.queue("dead").dead.redrive()).toEqual({ count: 1 });
  expect(await claim("dead")).toEqual(["dead"]);
  // What has ended is remembered, and its key.
  expect(await dibs.task(idOf("done")).result()).toBe("result");
  const again = await dibs.queue("ended").add("again", { idempotencyKey: "key" });
  expect(again).toMatchObject({ existing: true, id: idOf("done") });
  // A limit counts what is claimed.
  if (steps >= 7) expect(await claim("limited")).toEqual([]);
  await ack("counted", LIMITED);
  expect(await claim("limited")).toEqual(["next"]);
  const link = await connect({ url, schema });
  expect(await link.all(BELOW_FLOORS)).toEqual([]);
});

test("of ten that open an old store at once one brings it up to date, and all can use it", async () => {
  const { url, schema, open } = await ground();
  await formerStore(url, schema, 1);
  const all = await Promise.all(Array.from({ length: 10 }, () => open()));
  await Promise.all(all.map((dibs, n) => dibs.queue<number>("work").add(n)));
  expect(await all[0]!.queue("work").claim({ max: 20 })).toHaveLength(12);
});

test("while somebody's transaction has a table that an upgrade needs, all others can go on", async () => {
  const { url, schema, open, client } = await ground();
  await formerStore(url, schema, 1);
  const [dump, looking] = [await client(), await client()];
  await dump.query("BEGIN");
  await dump.query(`SELECT 1 FROM ${schema}.waiting`);
  const opening = open();
  await untilOneWaits(looking, schema);
  expect((await looking.query(`SELECT 1 FROM ${schema}.waiting`)).rowCount).toBe(1);
  await dump.query("COMMIT");
  const [claim] = await (await opening).queue("work").claim();
  expect(claim).toMatchObject({ data: "ready" });
});
