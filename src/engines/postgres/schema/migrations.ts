import { DibsError } from "../../../core/errors.ts";
import type { Connection } from "../connection/connection.ts";

/** Rows come and go here by the thousand a second: dead ones are cleared away long before a fifth of the table is. */
const HOT = [
  "ready",
  "kept",
  "scheduled",
  "waiting",
  "lane",
  "claim",
  "ttl",
  "session",
  "notice",
  "delta",
  "inbox",
];
const clearSoon = (table: string): string => `
  ALTER TABLE dibs.${table} SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);`;

/**
 * Part of a step that a process which does not know it cannot live with, with the step's number. Most can be lived with: a table
 * more, an index, a column that has a default. Processes at work read it with every batch, and end with words where they do not
 * know so many; what their headers and `asKnown` read is never removed.
 */
export const needed = (number: number): string => `
  ALTER TABLE dibs.store ALTER COLUMN needs SET DEFAULT ${number};
  UPDATE dibs.store SET needs = ${number};`;

/**
 * The schema, by number. As on SQLite a state is a table: a task moves by one delete and one insert of a small row,
 * and its payload, in `task`, is never rewritten. What differs: numbers come from sequences and counters are deltas,
 * since many write at once; `dibs.` stands for the schema's name (connection.ts).
 *
 * Names of columns: `pos` is a place in line, `rank` the negative of a priority (core/task.ts), times are the engine's.
 */
export const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE dibs.store (
    one         int2   PRIMARY KEY CHECK (one = 1),
    salt        int4   NOT NULL,   -- part of every task's id
    revision    int8   NOT NULL,   -- of the table queue, for those who keep a copy
    epoch       int8   NOT NULL,   -- changes when a queue is dropped: a copy is then read anew
    event       int8   NOT NULL    -- the last number given out
  );
  CREATE SEQUENCE dibs.seq;
  CREATE SEQUENCE dibs.fence;
  CREATE SEQUENCE dibs.session_id;

  CREATE TABLE dibs.queue (
    id          int4   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text   COLLATE "C" NOT NULL UNIQUE,
    named       text   NOT NULL,   -- JSON: the fields of the policy that somebody named
    declared    text,              -- JSON: the last declaration applied
    paused      bool   NOT NULL,
    created_at  int8   NOT NULL,
    revision    int8   NOT NULL
  );
  CREATE INDEX queue_revision ON dibs.queue (revision);

  CREATE TABLE dibs.task (
    seq             int8 PRIMARY KEY,
    created_at      int8 NOT NULL,
    pos             int8,          -- where it differs from seq
    expires_at      int8,
    queue           int4 NOT NULL,
    max_attempts    int4,
    priority        int2 NOT NULL,
    group_key       text COLLATE "C",
    idempotency_key text COLLATE "C",
    content_type    text,
    headers         text,
    data            text,          -- one of these two
    bytes           bytea
  );

  CREATE TABLE dibs.ready (
    pos       int8 NOT NULL,
    task      int8 NOT NULL,
    queue     int4 NOT NULL,
    rank      int2 NOT NULL,
    failures  int2 NOT NULL,
    special   bool NOT NULL,       -- it has a group, a key or steps: its success needs more than its own row
    PRIMARY KEY (queue, rank, pos)
  );
  -- For the age of the oldest: in each rank the first is the oldest, but for those whose place is not their number.
  CREATE INDEX ready_moved ON dibs.ready (queue, task) WHERE pos <> task;

  -- Ready, but until then not for the workers that failed it.
  CREATE TABLE dibs.kept (
    pos       int8 NOT NULL,
    task      int8 NOT NULL,
    until     int8 NOT NULL,
    queue     int4 NOT NULL,
    rank      int2 NOT NULL,
    failures  int2 NOT NULL,
    special   bool NOT NULL,
    avoid     text NOT NULL,       -- JSON: worker ids
    PRIMARY KEY (queue, rank, pos)
  );
  CREATE INDEX kept_until ON dibs.kept (until, task);

  CREATE TABLE dibs.scheduled (
    pos         int8 NOT NULL,
    task        int8 NOT NULL,
    due         int8 NOT NULL,
    queue       int4 NOT NULL,
    failures    int2 NOT NULL,
    holds_group bool NOT NULL,
    PRIMARY KEY (queue, pos)
  );
  CREATE INDEX scheduled_due ON dibs.scheduled (due, task);
  CREATE INDEX scheduled_of_queue ON dibs.scheduled (queue, due, task);

  -- Behind the head of its group.
  CREATE TABLE dibs.waiting (
    pos       int8 NOT NULL,
    task      int8 NOT NULL,
    queue     int4 NOT NULL,
    rank      int2 NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    PRIMARY KEY (queue, group_key, pos)
  );

  -- Groups that have a head: a task that is ready, claimed, or scheduled and holding. Whoever puts a task behind
  -- the head holds this row shared, whoever looks for the next one holds it alone.
  CREATE TABLE dibs.lane (
    queue     int4 NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    PRIMARY KEY (queue, group_key)
  );

  -- Holds all that the success of a plain task needs, so that it need not touch the task.
  CREATE TABLE dibs.claim (
    task          int8   PRIMARY KEY,
    fence         int8   NOT NULL,
    started_at    int8   NOT NULL,
    lease         int8   NOT NULL,
    deadline      int8   NOT NULL,  -- by hand, of the lease; by a session, of the timeout
    session       int8,
    queue         int4   NOT NULL,
    failures      int2   NOT NULL,
    special       bool   NOT NULL,
    cancelled     bool   NOT NULL,
    worker        text   NOT NULL,
    progress      float8,
    note          text
  );
  CREATE INDEX claim_by_hand ON dibs.claim (deadline, task) WHERE session IS NULL;

  -- Pending tasks that have a time to live.
  CREATE TABLE dibs.ttl (
    expires_at int8 NOT NULL,
    task       int8 NOT NULL,
    PRIMARY KEY (expires_at, task)
  );

  -- The attempt of a success is folded in here; other attempts have a row in the ledger.
  CREATE TABLE dibs.ended (
    task          int8 PRIMARY KEY,
    ended_at      int8 NOT NULL,
    started_at    int8,
    fence         int8,
    queue         int4 NOT NULL,
    attempt       int2,
    state         text NOT NULL,   -- done, cancelled, expired
    worker        text,
    result        text,            -- at most one of these two
    result_bytes  bytea
  );
  CREATE INDEX ended_order ON dibs.ended (queue, ended_at, task);
  -- So that a page of the few is not looked for among the many.
  CREATE INDEX ended_undone ON dibs.ended (queue, ended_at, task) WHERE state <> 'done';

  -- The error is that of the attempt with this fence.
  CREATE TABLE dibs.dead (
    task        int8 PRIMARY KEY,
    died_at     int8 NOT NULL,
    fence       int8 NOT NULL,
    queue       int4 NOT NULL,
    worker      text NOT NULL,
    fingerprint text COLLATE "C" NOT NULL
  );
  CREATE INDEX dead_order ON dibs.dead (queue, died_at, task);
  CREATE INDEX dead_kind ON dibs.dead (queue, fingerprint, died_at, task);

  -- The ledger, of everything that was not a success.
  CREATE TABLE dibs.attempt (
    task        int8 NOT NULL,
    fence       int8 NOT NULL,
    started_at  int8 NOT NULL,
    ended_at    int8 NOT NULL,
    attempt     int2 NOT NULL,
    worker      text NOT NULL,
    outcome     text NOT NULL,
    name        text,              -- of the error
    message     text,
    stack       text,
    fingerprint text,
    PRIMARY KEY (task, fence)
  );

  CREATE TABLE dibs.idempotency (
    queue      int4 NOT NULL,
    key        text COLLATE "C" NOT NULL,
    task       int8 NOT NULL,
    created_at int8 NOT NULL,
    forget_at  int8,               -- set when its task has ended
    state      text,               -- how it ended, for when its row is gone
    PRIMARY KEY (queue, key)
  );
  CREATE INDEX idempotency_forget ON dibs.idempotency (forget_at) WHERE forget_at IS NOT NULL;

  CREATE TABLE dibs.session (
    id         int8 PRIMARY KEY,
    worker     text NOT NULL,      -- the instance's id
    info       text NOT NULL,      -- JSON: WorkerInfo
    lease      int8 NOT NULL,
    joined_at  int8 NOT NULL,
    beat_at    int8 NOT NULL,
    mixed      bool NOT NULL,      -- it may hold claims of a lease longer than its own
    overdue_at int8                -- no claim it holds passes its timeout before; null: it holds none
  ) WITH (fillfactor = 50);
  CREATE TABLE dibs.serving (
    queue    text COLLATE "C" NOT NULL,  -- by name: it need not exist yet
    session  int8 NOT NULL,
    PRIMARY KEY (queue, session)
  );
  CREATE TABLE dibs.notice (
    n          int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session    int8 NOT NULL,
    task       int8 NOT NULL,
    created_at int8 NOT NULL,
    fence      int8 NOT NULL,
    kind       text NOT NULL
  );
  CREATE INDEX notice_session ON dibs.notice (session, n);

  -- Counters. A transaction writes one row for each queue it touches, and never the row of another; housekeeping
  -- folds them into depth and flow (counters.ts).
  CREATE TABLE dibs.delta (
    queue      int4 NOT NULL,
    slot       int8 NOT NULL,
    ready      int4 NOT NULL,
    waiting    int4 NOT NULL,
    scheduled  int4 NOT NULL,
    claimed    int4 NOT NULL,
    done       int4 NOT NULL,
    dead       int4 NOT NULL,
    cancelled  int4 NOT NULL,
    expired    int4 NOT NULL,
    added      int4 NOT NULL,
    started    int4 NOT NULL,
    succeeded  int4 NOT NULL,
    failed     int4 NOT NULL,
    wait_ms    int8 NOT NULL,
    service_ms int8 NOT NULL
  );
  CREATE INDEX delta_queue ON dibs.delta (queue);
  CREATE TABLE dibs.depth (
    queue     int4 PRIMARY KEY,
    ready     int8 NOT NULL,
    waiting   int8 NOT NULL,
    scheduled int8 NOT NULL,
    claimed   int8 NOT NULL,
    done      int8 NOT NULL,
    dead      int8 NOT NULL,
    cancelled int8 NOT NULL,
    expired   int8 NOT NULL
  ) WITH (fillfactor = 50);
  CREATE TABLE dibs.flow (
    queue      int4 NOT NULL,
    slot       int8 NOT NULL,
    added      int8 NOT NULL,
    started    int8 NOT NULL,
    succeeded  int8 NOT NULL,
    failed     int8 NOT NULL,
    wait_ms    int8 NOT NULL,
    service_ms int8 NOT NULL,
    PRIMARY KEY (queue, slot)
  ) WITH (fillfactor = 50);

  -- What transactions of others have committed and no batch of ours has taken up yet (inbox.ts): a task to be lined up,
  -- or a group whose head has ended. Such a transaction may stay open for long, so it locks nothing that others need.
  CREATE TABLE dibs.inbox (
    n         int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task      int8,
    due       int8,                -- of a delayed task
    queue     int4 NOT NULL,
    group_key text
  );

  CREATE TABLE dibs.listener (
    name  text PRIMARY KEY,
    until int8 NOT NULL
  );
  CREATE TABLE dibs.event (
    n    int8 PRIMARY KEY,
    body text NOT NULL             -- JSON: DibsEvent
  );
  ${HOT.map(clearSoon).join("")}
  `,
  `
  -- A consumer group. What is published is compared with copies of this table (topics.ts), which follow the two numbers.
  -- Whoever changes it holds the store's row, so that ids are committed in their order.
  CREATE TABLE dibs.subscription (
    id         int8 PRIMARY KEY,   -- in the order they were made
    created_at int8 NOT NULL,
    queue      int4 NOT NULL,
    pattern    text COLLATE "C" NOT NULL,
    group_name text COLLATE "C" NOT NULL,
    UNIQUE (pattern, group_name)
  );
  CREATE INDEX subscription_queue ON dibs.subscription (queue);
  ALTER TABLE dibs.store ADD COLUMN subscribed   int8 NOT NULL DEFAULT 0;  -- the last id given out
  ALTER TABLE dibs.store ADD COLUMN unsubscribed int8 NOT NULL DEFAULT 0;  -- grows when some are removed
  `,
  `
  -- A failed task waits behind the head where its group went on without it meanwhile.
  ALTER TABLE dibs.waiting ADD COLUMN failures int2 NOT NULL DEFAULT 0;
  `,
  `
  -- What a handler leaves for its next run, and what others had to say to it. Its task is special wherever it stands.
  CREATE TABLE dibs.step (
    task  int8 NOT NULL,
    kind  text COLLATE "C" NOT NULL,  -- step, signal, lapsed, feedback
    name  text COLLATE "C" NOT NULL,
    value text,                       -- at most one of these two
    bytes bytea,
    PRIMARY KEY (task, kind, name)
  );

  -- A parked task is one that is due when it has waited long enough, which may be never, or when this signal comes.
  ALTER TABLE dibs.scheduled ADD COLUMN signal text;

  -- Successes that wait for a verdict: the attempt, its result, what would be added, and the task that asks for it.
  CREATE TABLE dibs.verifying (
    task         int8 PRIMARY KEY,
    asked        int8 NOT NULL,
    fence        int8 NOT NULL,
    started_at   int8 NOT NULL,
    queue        int4 NOT NULL,
    failures     int2 NOT NULL,
    worker       text NOT NULL,
    adds         text,                -- JSON: core/verification.ts
    result       text,                -- at most one of these two
    result_bytes bytea
  );
  CREATE INDEX verifying_queue ON dibs.verifying (queue, task);
  CREATE INDEX verifying_asked ON dibs.verifying (asked);

  -- Its successes are no ends by themselves: they wait for a verdict, or are to be one. Generated, so that it is true
  -- whoever writes the rest.
  ALTER TABLE dibs.queue ADD COLUMN judged bool NOT NULL
    GENERATED ALWAYS AS (name LIKE '%/verify' OR named LIKE '%"verified":true%') STORED;
  CREATE INDEX queue_judged ON dibs.queue (id) WHERE judged;

  ALTER TABLE dibs.delta ADD COLUMN parked    int4 NOT NULL DEFAULT 0;
  ALTER TABLE dibs.delta ADD COLUMN verifying int4 NOT NULL DEFAULT 0;
  ALTER TABLE dibs.depth ADD COLUMN parked    int8 NOT NULL DEFAULT 0;
  ALTER TABLE dibs.depth ADD COLUMN verifying int8 NOT NULL DEFAULT 0;
  `,
  `
  -- A journey through the stages of a pipeline: core/run.ts. Its number is that of its first task. Whoever goes on with it
  -- has this row locked.
  CREATE TABLE dibs.run (
    id           int8 PRIMARY KEY,
    created_at   int8 NOT NULL,
    queue        text COLLATE "C" NOT NULL,  -- of its first task, by name: whose retention it shares
    pipeline     text NOT NULL,
    stages       text NOT NULL,              -- JSON: those it began with
    under_way    int4 NOT NULL,              -- tasks of it that are not done
    dead         int4 NOT NULL,              -- of them
    state        text,                       -- done, cancelled, expired
    ended_at     int8,
    result       text,                       -- at most one of these two
    result_bytes bytea
  ) WITH (fillfactor = 70);
  CREATE INDEX run_ended ON dibs.run (queue, ended_at, id) WHERE ended_at IS NOT NULL;

  -- A task of a run; it is special wherever it stands. How it stands is in the tables of states, and written here when its
  -- row is removed.
  CREATE TABLE dibs.run_part (
    task         int8 PRIMARY KEY,
    run          int8 NOT NULL,
    created_at   int8 NOT NULL,
    stage        text NOT NULL,
    part         text COLLATE "C" NOT NULL,
    state        text,
    started_at   int8,
    ended_at     int8,
    brought      bool NOT NULL DEFAULT false,  -- its result waits for the other parts
    result       text,                         -- at most one of these two
    result_bytes bytea
  );
  CREATE INDEX run_part_run ON dibs.run_part (run, task);

  -- The result is a list, of whose items each becomes a part.
  ALTER TABLE dibs.verifying ADD COLUMN "each" bool NOT NULL DEFAULT false;

  -- What many processes share and few change.
  CREATE TABLE dibs.document (
    kind  text COLLATE "C" NOT NULL,
    name  text COLLATE "C" NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (kind, name)
  );
  `,
  `
  -- When somebody has to look at it again: the next firing of a schedule.
  ALTER TABLE dibs.document ADD COLUMN due_at int8;
  CREATE INDEX document_due ON dibs.document (due_at, kind, name) WHERE due_at IS NOT NULL;
  `,
  `
  ALTER TABLE dibs.task ADD COLUMN cost   int8;  -- where it was named
  ALTER TABLE dibs.task ADD COLUMN urgent bool;  -- null: it is not

  -- Of a queue with limits: how many of a group hold it, and what is remembered of it. Such a row outlives the last of its
  -- tasks while it remembers something.
  ALTER TABLE dibs.lane ADD COLUMN holders    int4 NOT NULL DEFAULT 1;
  ALTER TABLE dibs.lane ADD COLUMN session    int8;  -- that had the last one, of a sticky group
  ALTER TABLE dibs.lane ADD COLUMN meter      text;  -- JSON: core/rate.ts
  ALTER TABLE dibs.lane ADD COLUMN held_until int8;
  ALTER TABLE dibs.lane ADD COLUMN wake_at    int8;  -- when somebody has to look whether more may start
  CREATE INDEX lane_wake ON dibs.lane (wake_at) WHERE wake_at IS NOT NULL;
  CREATE INDEX lane_session ON dibs.lane (session) WHERE session IS NOT NULL;

  -- Queues that have limits, had some, or were held back: whoever touches the groups of one, or claims from it, has its gate
  -- to himself until the commit (limits.ts). With what is remembered of the whole queue.
  CREATE TABLE dibs.gate (
    queue      int4 PRIMARY KEY,
    meter      text,
    held_until int8,
    wake_at    int8
  ) WITH (fillfactor = 50);
  CREATE INDEX gate_wake ON dibs.gate (wake_at) WHERE wake_at IS NOT NULL;

  -- Of a queue with limits: a group may have several in line, each at a place that need not be its task's.
  ALTER TABLE dibs.ready ADD COLUMN group_key text COLLATE "C";
  ALTER TABLE dibs.kept  ADD COLUMN group_key text COLLATE "C";
  CREATE INDEX ready_group ON dibs.ready (queue, group_key, task) WHERE group_key IS NOT NULL;
  CREATE INDEX kept_group ON dibs.kept (queue, group_key, task) WHERE group_key IS NOT NULL;

  -- Ready, but for the worker that has the group.
  CREATE TABLE dibs.own (
    pos       int8 NOT NULL,
    task      int8 NOT NULL,
    session   int8 NOT NULL,
    queue     int4 NOT NULL,
    rank      int2 NOT NULL,
    failures  int2 NOT NULL,
    special   bool NOT NULL,
    group_key text COLLATE "C" NOT NULL,
    PRIMARY KEY (queue, rank, pos)
  );
  CREATE INDEX own_session ON dibs.own (session, queue, rank, pos);
  CREATE INDEX own_group ON dibs.own (queue, group_key, task);

  -- Of a queue that has a limit to how many may be claimed at once.
  ALTER TABLE dibs.claim ADD COLUMN counted bool NOT NULL DEFAULT false;
  CREATE INDEX claim_counted ON dibs.claim (queue) WHERE counted;

  -- Those of dibs.verifying whose group goes on meanwhile.
  CREATE TABLE dibs.aside (
    task int8 PRIMARY KEY
  );

  -- Of an attempt whose real cost is known: what it was, and since when its start was counted.
  ALTER TABLE dibs.inbox ADD COLUMN cost       int8;
  ALTER TABLE dibs.inbox ADD COLUMN spent      int8;
  ALTER TABLE dibs.inbox ADD COLUMN started_at int8;

  ${clearSoon("own")}
  `,
  `
  -- The groups up to this one have been looked at since the policy of groups was changed; null: all of them. See review.ts.
  ALTER TABLE dibs.gate ADD COLUMN reviewed text COLLATE "C";

  -- The urgent ones: where groups do not run strictly in order they come first.
  CREATE INDEX waiting_urgent ON dibs.waiting (queue, group_key, pos) WHERE rank < -5000;
  `,
  `
  -- Below these places nothing stands: floors.ts. Of those of a line with the highest number the lowest counts.
  CREATE TABLE dibs.floor (
    pos   int8 NOT NULL,
    n     int8 NOT NULL,
    line  int4 NOT NULL,           -- a queue, or one of those in the order of time
    rank  int2 NOT NULL
  );
  CREATE INDEX floor_line ON dibs.floor (line, n DESC, rank, pos);
  ${clearSoon("floor")}
  `,
  `
  -- The server's life, which ends with a crash or where a standby takes over: a table that is not logged is empty then. The
  -- numbers of transactions and the fences that were given out last may not be in the log either, and be given out again.
  CREATE UNLOGGED TABLE dibs.life (
    one   int2 PRIMARY KEY CHECK (one = 1),
    token text NOT NULL
  );
  INSERT INTO dibs.life (one, token) VALUES (1, gen_random_uuid()::text);
  `,
  `
  -- Rows that are written again and again: each version has a number, and the newest is looked for first (newest.ts). That
  -- there is one of a session or a queue is no index's business: it would walk over all versions with each new one.
  ALTER TABLE dibs.session ADD COLUMN n int8 NOT NULL DEFAULT 0;
  -- Nor is that number part of a session's key: it changes while others have locked the key against the session's end.
  ALTER TABLE dibs.session DROP CONSTRAINT session_pkey;
  CREATE INDEX session_newest ON dibs.session (id, n);
  ALTER TABLE dibs.gate ADD COLUMN n int8 NOT NULL DEFAULT 0;
  ALTER TABLE dibs.gate DROP CONSTRAINT gate_pkey, ADD PRIMARY KEY (queue, n);

  -- When they will have been silent for too long: has a floor, as what else is ordered by time.
  CREATE INDEX session_silent ON dibs.session ((beat_at + lease));

  -- The transaction that left the note, and which notes need still be looked for: notes.ts.
  ALTER TABLE dibs.inbox ADD COLUMN xid xid8 NOT NULL DEFAULT pg_current_xact_id();
  CREATE INDEX inbox_xid ON dibs.inbox (xid, n);
  CREATE TABLE dibs.inbox_floor (
    n     int8   PRIMARY KEY,
    since xid8   NOT NULL,
    open  xid8[] NOT NULL
  );

  -- Where a publication is for all tables, nothing can be deleted from one that has neither a key nor this.
  ALTER TABLE dibs.delta REPLICA IDENTITY FULL;
  ALTER TABLE dibs.session REPLICA IDENTITY FULL;
  ALTER TABLE dibs.floor REPLICA IDENTITY FULL;
  `,
  `
  -- The transaction that wrote it. A dump brings the row too, and whoever restores it is another one: life.ts.
  ALTER TABLE dibs.life ADD COLUMN born xid8 NOT NULL DEFAULT pg_current_xact_id();
  UPDATE dibs.life SET born = pg_current_xact_id();

  -- How many of these steps a process must know.
  ALTER TABLE dibs.store ADD COLUMN needs int4 NOT NULL DEFAULT 0;
  ${needed(12)}

  ${["gate", "event"].map(clearSoon).join("")}
  `,
  `
  -- JSON: what the tasks cost that follow in its run.
  ALTER TABLE dibs.verifying ADD COLUMN next text;
  `,
  `
  -- What an export, an import or a move has left: engine/transfer.ts. A closed store is for nobody else.
  ALTER TABLE dibs.store ADD COLUMN transfer text;  -- JSON: TransferState
  ALTER TABLE dibs.store ADD COLUMN closed   bool NOT NULL DEFAULT false;
  ${needed(14)}
  `,
];

/** To be asked before anything is read or written by what this process knows of the schema. */
export function checkKnown(schema: string, needs: number): void {
  if (needs <= MIGRATIONS.length) return;
  throw new DibsError(
    "UNSUPPORTED",
    `The schema "${schema}" has been brought to version ${needs} by a newer dibs; this process knows ${MIGRATIONS.length}. ` +
      `Nothing was changed. Restart it with the newer one.`,
  );
}

/** As messages name a store of which only the connection is known. */
export function describeSchema(schema: string): string {
  return `in schema "${schema}"`;
}

/** Part of every header: why nobody may use the store, or null. */
export const CLOSED = `CASE WHEN closed THEN transfer END AS closed`;

const NEEDS = `SELECT needs FROM dibs.store WHERE one = 1`;

export async function readNeeds(link: Connection): Promise<number> {
  return (await link.all<{ needs: number }>(NEEDS))[0]?.needs ?? 0;
}

// By reading the catalogue: to_regclass answers from a memory that is not told of others' commits within a transaction.
const MADE = `SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = 'migration'`;
const SCHEMA = `SELECT 1 FROM pg_namespace WHERE nspname = $1`;
const APPLIED = `SELECT coalesce(max(number), 0)::int4 AS number FROM dibs.migration`;

/** How many steps the schema has behind it; undefined where there is none. */
export async function version(link: Connection): Promise<number | undefined> {
  const found = await link.all(MADE, link.schema);
  if (found.length === 0) return undefined;
  const [row] = await link.all<{ number: number }>(APPLIED);
  return row!.number;
}

/** Brings the schema up to date, in the open transaction. Of ten processes one does it: the lock is the caller's. */
export async function migrate(link: Connection, from: number): Promise<void> {
  // Asked first: to make a schema that is there takes a right which a careful administrator does not give.
  const there = await link.all(SCHEMA, link.schema);
  if (there.length === 0) await link.exec(`CREATE SCHEMA "${link.schema}"`);
  await link.exec(
    `CREATE TABLE IF NOT EXISTS dibs.migration (number int4 PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`,
  );
  // Every transaction of ours has read the store's row, and so has every one of a caller's that has used us: none is under way
  // from here on, and whoever waits has nothing yet that we could wait for.
  if (from > 0) await link.exec(`LOCK TABLE dibs.store IN ACCESS EXCLUSIVE MODE`);
  for (const [index, step] of MIGRATIONS.entries()) {
    if (index < from) continue;
    await link.exec(step);
    await link.exec(`INSERT INTO dibs.migration (number) VALUES (${index + 1})`);
  }
}
