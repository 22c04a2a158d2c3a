import type { Database } from "better-sqlite3";

/**
 * The schema, by number. A state is a table: a task moves by one delete and one insert, and its payload, in
 * `task`, is never rewritten. (Two rare moves do rewrite it: a redrive, and a delayed task joining its group.)
 *
 * Names of columns: `pos` is a place in line, `rank` the negative of a priority, times are the engine's.
 */
export const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE store (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    salt        INTEGER NOT NULL,  -- part of every task's id
    now         INTEGER NOT NULL,  -- the clock: core/engine-time.ts
    awake       INTEGER NOT NULL,
    boot        TEXT    NOT NULL,
    elapsed_at  INTEGER NOT NULL,
    awake_at    INTEGER NOT NULL,
    seq         INTEGER NOT NULL,  -- the last number given out, of each kind
    fence       INTEGER NOT NULL,
    session     INTEGER NOT NULL,
    event       INTEGER NOT NULL,
    revision    INTEGER NOT NULL,  -- of the table queue, for those who keep a copy
    listeners   INTEGER NOT NULL
  );

  CREATE TABLE queue (
    id          INTEGER PRIMARY KEY,
    name        TEXT    NOT NULL UNIQUE,
    named       TEXT    NOT NULL,  -- JSON: the fields of the policy that somebody named
    declared    TEXT,              -- JSON: the last declaration applied
    paused      INTEGER NOT NULL,
    created_at  INTEGER NOT NULL
  );

  -- The payload comes last, so that reading the rest does not touch its overflow pages.
  CREATE TABLE task (
    seq             INTEGER PRIMARY KEY,
    queue           INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    priority        INTEGER NOT NULL,
    pos             INTEGER,       -- where it differs from seq
    group_key       TEXT,
    expires_at      INTEGER,
    max_attempts    INTEGER,
    idempotency_key TEXT,
    content_type    TEXT,
    headers         TEXT,
    data            NOT NULL
  );

  CREATE TABLE ready (
    queue     INTEGER NOT NULL,
    rank      INTEGER NOT NULL,
    pos       INTEGER NOT NULL,
    task      INTEGER NOT NULL,
    failures  INTEGER NOT NULL,
    special   INTEGER NOT NULL,    -- what its task has that most have not: see special.ts
    PRIMARY KEY (queue, rank, pos)
  ) WITHOUT ROWID;
  -- For the age of the oldest: in each rank the first is the oldest, but for those whose place is not their number.
  CREATE INDEX ready_moved ON ready (queue, task) WHERE pos <> task;

  -- Ready, but until then not for the workers that failed it.
  CREATE TABLE kept (
    queue     INTEGER NOT NULL,
    rank      INTEGER NOT NULL,
    pos       INTEGER NOT NULL,
    task      INTEGER NOT NULL,
    failures  INTEGER NOT NULL,
    special   INTEGER NOT NULL,
    until     INTEGER NOT NULL,
    avoid     TEXT    NOT NULL,    -- JSON: worker ids
    PRIMARY KEY (queue, rank, pos)
  ) WITHOUT ROWID;
  CREATE INDEX kept_until ON kept (until, task);

  CREATE TABLE scheduled (
    queue       INTEGER NOT NULL,
    pos         INTEGER NOT NULL,
    task        INTEGER NOT NULL,
    due         INTEGER NOT NULL,
    failures    INTEGER NOT NULL,
    holds_group INTEGER NOT NULL,
    PRIMARY KEY (queue, pos)
  ) WITHOUT ROWID;
  CREATE INDEX scheduled_due ON scheduled (due, task);

  -- Behind the head of its group.
  CREATE TABLE waiting (
    queue     INTEGER NOT NULL,
    group_key TEXT    NOT NULL,
    pos       INTEGER NOT NULL,
    task      INTEGER NOT NULL,
    rank      INTEGER NOT NULL,
    PRIMARY KEY (queue, group_key, pos)
  ) WITHOUT ROWID;

  -- Groups that have a head: a task that is ready, claimed, or scheduled and holding.
  CREATE TABLE lane (
    queue     INTEGER NOT NULL,
    group_key TEXT    NOT NULL,
    PRIMARY KEY (queue, group_key)
  ) WITHOUT ROWID;

  -- Holds all that the success of a plain task needs, so that it need not touch the task.
  CREATE TABLE claim (
    task          INTEGER PRIMARY KEY,
    queue         INTEGER NOT NULL,
    failures      INTEGER NOT NULL,
    special       INTEGER NOT NULL,
    fence         INTEGER NOT NULL,
    started_at    INTEGER NOT NULL,
    lease         INTEGER NOT NULL,
    deadline      INTEGER NOT NULL,  -- awake: by hand, of the lease; by a session, of the timeout
    cancelled     INTEGER NOT NULL,
    session       INTEGER,
    progress      REAL,
    note          TEXT,
    worker        TEXT    NOT NULL
  );
  CREATE INDEX claim_by_hand ON claim (deadline) WHERE session IS NULL;

  -- Pending tasks that have a time to live.
  CREATE TABLE ttl (
    expires_at INTEGER NOT NULL,
    task       INTEGER NOT NULL,
    PRIMARY KEY (expires_at, task)
  ) WITHOUT ROWID;

  -- The attempt of a success is folded in here; other attempts have a row in the ledger.
  CREATE TABLE ended (
    task        INTEGER PRIMARY KEY,
    queue       INTEGER NOT NULL,
    state       TEXT    NOT NULL,  -- done, cancelled, expired
    ended_at    INTEGER NOT NULL,
    started_at  INTEGER,
    attempt     INTEGER,
    fence       INTEGER,
    worker      TEXT,
    result
  );
  -- By task within a moment, as every index of a table ends with its key.
  CREATE INDEX ended_order ON ended (queue, ended_at);
  -- So that a page of the few is not looked for among the many.
  CREATE INDEX ended_undone ON ended (queue, ended_at) WHERE state <> 'done';

  -- The error is that of the attempt with this fence.
  CREATE TABLE dead (
    task        INTEGER PRIMARY KEY,
    queue       INTEGER NOT NULL,
    died_at     INTEGER NOT NULL,
    fence       INTEGER NOT NULL,
    worker      TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL
  );
  CREATE INDEX dead_order ON dead (queue, died_at, task);
  CREATE INDEX dead_kind ON dead (queue, fingerprint, died_at, task);

  -- The ledger, of everything that was not a success.
  CREATE TABLE attempt (
    task        INTEGER NOT NULL,
    fence       INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    worker      TEXT    NOT NULL,
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER NOT NULL,
    outcome     TEXT    NOT NULL,
    name        TEXT,              -- of the error
    message     TEXT,
    stack       TEXT,
    fingerprint TEXT,
    PRIMARY KEY (task, fence)
  ) WITHOUT ROWID;

  CREATE TABLE idempotency (
    queue      INTEGER NOT NULL,
    key        TEXT    NOT NULL,
    task       INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    forget_at  INTEGER,            -- set when its task has ended
    state      TEXT,               -- how it ended, for when its row is gone
    PRIMARY KEY (queue, key)
  ) WITHOUT ROWID;
  CREATE INDEX idempotency_forget ON idempotency (forget_at) WHERE forget_at IS NOT NULL;

  CREATE TABLE session (
    id         INTEGER PRIMARY KEY,
    worker     TEXT    NOT NULL,   -- the instance's id
    info       TEXT    NOT NULL,   -- JSON: WorkerInfo
    lease      INTEGER NOT NULL,
    joined_at  INTEGER NOT NULL,
    beat_at    INTEGER NOT NULL,
    mixed      INTEGER NOT NULL,   -- it may hold claims of a lease longer than its own
    overdue_at INTEGER             -- no claim it holds passes its timeout before; null: it holds none
  );
  CREATE TABLE serving (
    queue    TEXT    NOT NULL,     -- by name: it need not exist yet
    session  INTEGER NOT NULL,
    PRIMARY KEY (queue, session)
  ) WITHOUT ROWID;
  CREATE TABLE notice (
    n          INTEGER PRIMARY KEY,
    session    INTEGER NOT NULL,
    kind       TEXT    NOT NULL,
    task       INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    fence      INTEGER NOT NULL
  );
  CREATE INDEX notice_session ON notice (session);

  -- Counters, written once a transaction for each queue that it touches.
  CREATE TABLE depth (
    queue     INTEGER PRIMARY KEY,
    ready     INTEGER NOT NULL DEFAULT 0,
    waiting   INTEGER NOT NULL DEFAULT 0,
    scheduled INTEGER NOT NULL DEFAULT 0,
    claimed   INTEGER NOT NULL DEFAULT 0,
    done      INTEGER NOT NULL DEFAULT 0,
    dead      INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    expired   INTEGER NOT NULL DEFAULT 0
  );
  CREATE TABLE flow (
    queue      INTEGER NOT NULL,
    slot       INTEGER NOT NULL,
    added      INTEGER NOT NULL,
    claimed    INTEGER NOT NULL,
    done       INTEGER NOT NULL,
    failed     INTEGER NOT NULL,
    wait_ms    INTEGER NOT NULL,
    service_ms INTEGER NOT NULL,
    PRIMARY KEY (queue, slot)
  ) WITHOUT ROWID;

  CREATE TABLE listener (
    name  TEXT PRIMARY KEY,
    until INTEGER NOT NULL         -- awake
  ) WITHOUT ROWID;
  CREATE TABLE event (
    n    INTEGER PRIMARY KEY,
    body TEXT NOT NULL             -- JSON: DibsEvent
  );
  `,
  `
  -- A consumer group. What is published is compared with copies of this table (topics.ts), which follow the two numbers.
  CREATE TABLE subscription (
    id         INTEGER PRIMARY KEY,  -- in the order they were made
    pattern    TEXT    NOT NULL,
    group_name TEXT    NOT NULL,
    queue      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (pattern, group_name)
  );
  CREATE INDEX subscription_queue ON subscription (queue);
  ALTER TABLE store ADD COLUMN subscribed   INTEGER NOT NULL DEFAULT 0;  -- the last id given out
  ALTER TABLE store ADD COLUMN unsubscribed INTEGER NOT NULL DEFAULT 0;  -- grows when some are removed
  `,
  `
  -- A failed task waits behind the head where its group went on without it meanwhile.
  ALTER TABLE waiting ADD COLUMN failures INTEGER NOT NULL DEFAULT 0;
  `,
  `
  -- What a handler leaves for its next run, and what others had to say to it.
  CREATE TABLE step (
    task  INTEGER NOT NULL,
    kind  TEXT    NOT NULL,        -- step, signal, lapsed, feedback
    name  TEXT    NOT NULL,
    value,
    PRIMARY KEY (task, kind, name)
  ) WITHOUT ROWID;

  -- A parked task is one that is due when it has waited long enough, which may be never, or when this signal comes.
  ALTER TABLE scheduled ADD COLUMN signal TEXT;
  ALTER TABLE depth ADD COLUMN parked INTEGER NOT NULL DEFAULT 0;

  -- Successes that wait for a verdict: the attempt, its result, and what would be added.
  CREATE TABLE verifying (
    task       INTEGER PRIMARY KEY,
    queue      INTEGER NOT NULL,
    failures   INTEGER NOT NULL,
    special    INTEGER NOT NULL,
    fence      INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    worker     TEXT    NOT NULL,
    adds       TEXT,               -- JSON: core/verification.ts
    result
  );
  ALTER TABLE depth ADD COLUMN verifying INTEGER NOT NULL DEFAULT 0;
  `,
  `
  -- A journey through the stages of a pipeline: core/run.ts. Its number is that of its first task.
  CREATE TABLE run (
    id         INTEGER PRIMARY KEY,
    created_at INTEGER NOT NULL,
    queue      TEXT    NOT NULL,   -- of its first task, by name: whose retention it shares
    pipeline   TEXT    NOT NULL,
    stages     TEXT    NOT NULL,   -- JSON: those it began with
    under_way  INTEGER NOT NULL,   -- tasks of it that are not done
    dead       INTEGER NOT NULL,   -- of them
    state      TEXT,               -- done, cancelled, expired
    ended_at   INTEGER,
    result
  );
  CREATE INDEX run_ended ON run (queue, ended_at) WHERE ended_at IS NOT NULL;

  -- A task of a run. How it stands is in the tables of states, and written here when its row is removed.
  CREATE TABLE run_part (
    task       INTEGER PRIMARY KEY,
    run        INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    stage      TEXT    NOT NULL,
    part       TEXT    NOT NULL,
    state      TEXT,
    started_at INTEGER,
    ended_at   INTEGER,
    brought    INTEGER NOT NULL DEFAULT 0,  -- its result waits for the other parts
    result
  );
  CREATE INDEX run_part_run ON run_part (run, task);

  -- The result is a list, of whose items each becomes a part.
  ALTER TABLE verifying ADD COLUMN each INTEGER NOT NULL DEFAULT 0;

  -- What many processes share and few change.
  CREATE TABLE document (
    kind  TEXT NOT NULL,
    name  TEXT NOT NULL,
    value TEXT NOT NULL,           -- JSON
    PRIMARY KEY (kind, name)
  ) WITHOUT ROWID;
  `,
  `
  -- When somebody has to look at it again: the next firing of a schedule.
  ALTER TABLE document ADD COLUMN due_at INTEGER;
  CREATE INDEX document_due ON document (due_at, kind, name) WHERE due_at IS NOT NULL;
  `,
  `
  -- What it takes of limits that have a unit, where that was named. The priority of an urgent task lies above all others:
  -- rankOf in core/task.ts.
  ALTER TABLE task ADD COLUMN cost INTEGER;

  ALTER TABLE queue ADD COLUMN lanes INTEGER NOT NULL DEFAULT 0;  -- how much its lanes say: lanes.ts
  ALTER TABLE queue ADD COLUMN gate  INTEGER NOT NULL DEFAULT 0;  -- it has a row in gate

  -- A group may have several heads, or none though some wait, and be known for something when all are gone. Where queue.lanes
  -- is 0, a row means one head and no more.
  ALTER TABLE lane ADD COLUMN state TEXT;  -- JSON: LaneState in lanes.ts

  -- When somebody has to look whether more of a group may start.
  CREATE TABLE wake (
    at        INTEGER NOT NULL,
    queue     INTEGER NOT NULL,
    group_key TEXT    NOT NULL,
    PRIMARY KEY (at, queue, group_key)
  ) WITHOUT ROWID;

  -- What is counted of a whole queue.
  CREATE TABLE gate (
    queue      INTEGER PRIMARY KEY,
    meter      TEXT,
    held_until INTEGER,
    wake_at    INTEGER
  );

  -- Ready, but only for the worker of this session, which has their groups.
  CREATE TABLE own (
    queue     INTEGER NOT NULL,
    session   INTEGER NOT NULL,
    rank      INTEGER NOT NULL,
    pos       INTEGER NOT NULL,
    task      INTEGER NOT NULL,
    failures  INTEGER NOT NULL,
    special   INTEGER NOT NULL,
    PRIMARY KEY (queue, session, rank, pos)
  ) WITHOUT ROWID;
  -- Where groups take turns, a place in line is not that of the task.
  CREATE INDEX own_task ON own (task);
  CREATE INDEX kept_moved ON kept (queue, task) WHERE pos <> task;

  ALTER TABLE verifying ADD COLUMN holds_group INTEGER NOT NULL DEFAULT 1;
  `,
  `
  -- The groups up to this one have been looked at since the policy of groups was changed; null: all of them. See review.ts.
  ALTER TABLE gate ADD COLUMN reviewed TEXT;

  -- The urgent ones: where groups do not run strictly in order they come first.
  CREATE INDEX waiting_urgent ON waiting (queue, group_key, pos) WHERE rank < -5000;
  `,
  `
  -- JSON: what the tasks cost that follow in its run.
  ALTER TABLE verifying ADD COLUMN next TEXT;
  `,
  `
  -- The task that asks for the verdict.
  ALTER TABLE verifying ADD COLUMN asked INTEGER;
  CREATE INDEX verifying_asked ON verifying (asked);
  -- Fences are unique, so that a fence alone names the attempt. Of several such tasks the first is the store's own.
  UPDATE verifying SET asked = (
    SELECT min(task.seq) FROM queue AS judged
    JOIN queue AS asks ON asks.name = judged.name || '/verify' JOIN task ON task.queue = asks.id
    WHERE judged.id = verifying.queue AND typeof(task.data) = 'text' AND json_valid(task.data)
      AND json_extract(task.data, '$.fence') = verifying.fence);
  `,
  `
  -- What an export, an import or a move has left: engine/transfer.ts. A closed store is for nobody else.
  ALTER TABLE store ADD COLUMN transfer TEXT;  -- JSON: TransferState
  ALTER TABLE store ADD COLUMN closed   INTEGER NOT NULL DEFAULT 0;
  `,
];

/** Brings the schema up to date. To be called inside a transaction: of ten processes one does it. */
export function migrate(db: Database): void {
  const from = db.pragma("user_version", { simple: true }) as number;
  for (const step of MIGRATIONS.slice(from)) db.exec(step);
  if (from < MIGRATIONS.length) db.pragma(`user_version = ${MIGRATIONS.length}`);
}
