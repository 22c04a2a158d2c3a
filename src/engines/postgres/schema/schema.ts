/**
 * The tables of a store on PostgreSQL, as a new store gets them (migrations.ts). Later changes are added there as steps;
 * this text never changes after a release. `dibs.` stands for the schema's name (connection/connection.ts).
 *
 * As on SQLite, a state is a table (docs/decisions/0004). A transition is one delete and one insert of a small row. The
 * payload is in `task`, which is not rewritten. What differs from SQLite: numbers come from sequences and counters are
 * deltas, because many processes write at once, and rows that are rewritten often have versions.
 *
 * Column names: `seq` and `task` are a task's number, `pos` is its position in a line (lower is earlier), `rank` is minus
 * its priority (core/task/task.ts), `failures` counts failed attempts. Times are milliseconds of the server's clock. Columns
 * are ordered by size, so that rows have no padding. `special` says that a task has a group, a key, steps or a run, so
 * that its success writes more than its own rows.
 *
 * Which index a statement uses is fixed by the statement (statements/look-up.ts), so each index has a known reader.
 */

/** Rows of these come and go by the thousand per second. They are vacuumed long before a fifth of the table is dead. */
const HOT = [
  "ready",
  "ready_elsewhere",
  "ready_sticky",
  "scheduled",
  "waiting",
  "claim",
  "ttl",
  "lane",
  "gate",
  "session",
  "notice",
  "delta",
  "inbox",
  "floor",
  "event",
];

const vacuumSoon = (table: string): string => `
  ALTER TABLE dibs.${table} SET (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_threshold = -1, autovacuum_vacuum_cost_delay = 0);`;

/**
 * Version of the first schema. Schemas with a lower version were made before the first release, and are refused: their
 * numbers counted steps that no longer exist.
 */
export const FIRST_VERSION = 105;

export const SCHEMA = `
  -- One row, which every batch reads first. It is written rarely, since all batches would wait for each other.
  CREATE TABLE dibs.store (
    one          int2 PRIMARY KEY CHECK (one = 1),
    salt         int4 NOT NULL,            -- part of every task id: ids of another store are not found here
    needs        int4 NOT NULL DEFAULT ${FIRST_VERSION},  -- the schema version that a process must know to use the store
    closed       bool NOT NULL DEFAULT false,  -- a move or an import has closed the store: every batch is refused
    revision     int8 NOT NULL,            -- grows with every change of queue: connections keep a copy of that table
    epoch        int8 NOT NULL,            -- changes when a queue is dropped: the copy is then read again as a whole
    subscribed   int8 NOT NULL DEFAULT 0,  -- the last id in subscription: connections keep a copy of that table too
    unsubscribed int8 NOT NULL DEFAULT 0,  -- grows when subscriptions are removed
    transfer     text                      -- JSON: what an export, an import or a move has left (engine/transfer.ts)
  );
  CREATE SEQUENCE dibs.seq;
  CREATE SEQUENCE dibs.fence;
  CREATE SEQUENCE dibs.session_id;

  -- The incarnation of the server. It ends with a crash and with a failover to a standby: an unlogged table is empty then.
  -- Transaction numbers and fences that were given out last may then be given out again (connection/incarnation.ts).
  CREATE UNLOGGED TABLE dibs.incarnation (
    one   int2 PRIMARY KEY CHECK (one = 1),
    token text NOT NULL,
    -- The transaction that wrote the row. A restored dump brings the row too, but another transaction wrote it.
    born  xid8 NOT NULL DEFAULT pg_current_xact_id()
  );
  INSERT INTO dibs.incarnation (one, token) VALUES (1, gen_random_uuid()::text);

  -- Each connection has a copy, which follows store.revision (transaction/queue-cache.ts).
  CREATE TABLE dibs.queue (
    id          int4 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text COLLATE "C" NOT NULL UNIQUE,
    named       text NOT NULL,  -- JSON: the policy fields that a declaration named
    declared    text,           -- JSON: the last declaration applied, so that a restart does not repeat it
    paused      bool NOT NULL,
    created_at  int8 NOT NULL,
    revision    int8 NOT NULL,
    -- Its successes wait for a verdict, or are verdicts. Generated, so that it is true whichever statement writes the rest.
    in_verification bool NOT NULL GENERATED ALWAYS AS (name LIKE '%/verify' OR named LIKE '%"verified":true%') STORED
  );
  CREATE INDEX queue_revision ON dibs.queue (revision);
  CREATE INDEX queue_in_verification ON dibs.queue (id) WHERE in_verification;

  -- What was added.
  CREATE TABLE dibs.task (
    seq             int8 PRIMARY KEY,
    created_at      int8 NOT NULL,
    pos             int8,  -- null: it is seq
    expires_at      int8,
    cost            int8,  -- units it takes from rate limits; null: one
    queue           int4 NOT NULL,
    max_attempts    int4,
    priority        int2 NOT NULL,
    urgent          bool,  -- null: it is not
    group_key       text COLLATE "C",
    idempotency_key text COLLATE "C",
    content_type    text,
    headers         text,  -- JSON
    data            text,  -- one of these two
    bytes           bytea
  );

  -- ── The states of pending tasks ────────────────────────────────────────────────────────────────────────

  -- Ready, for every worker. A claim reads it in the order of its key.
  CREATE TABLE dibs.ready (
    pos       int8 NOT NULL,
    task      int8 NOT NULL,
    queue     int4 NOT NULL,
    rank      int2 NOT NULL,
    failures  int2 NOT NULL,
    special   bool NOT NULL,
    group_key text COLLATE "C",  -- only in a queue with limits
    PRIMARY KEY (queue, rank, pos)
  );
  -- For the age of the oldest. The first of each rank is the oldest, except for tasks whose position is not their number.
  CREATE INDEX ready_moved ON dibs.ready (queue, task) WHERE pos <> task;
  -- In a queue with limits a group may have several tasks in the line, at positions that differ from those in task.
  CREATE INDEX ready_group ON dibs.ready (queue, group_key, task) WHERE group_key IS NOT NULL;

  -- Ready, but until then not for the workers that failed it (retry elsewhere). Claims read it next to ready.
  CREATE TABLE dibs.ready_elsewhere (
    pos       int8 NOT NULL,
    task      int8 NOT NULL,
    until     int8 NOT NULL,
    queue     int4 NOT NULL,
    rank      int2 NOT NULL,
    failures  int2 NOT NULL,
    special   bool NOT NULL,
    avoid     text NOT NULL,     -- JSON: ids of those workers
    group_key text COLLATE "C",  -- only in a queue with limits
    PRIMARY KEY (queue, rank, pos)
  );
  -- For the sweep, which moves them to ready when the time has passed.
  CREATE INDEX ready_elsewhere_until ON dibs.ready_elsewhere (until, task);
  CREATE INDEX ready_elsewhere_group ON dibs.ready_elsewhere (queue, group_key, task) WHERE group_key IS NOT NULL;

  -- Ready, but only for the worker of this session, to which their group sticks.
  CREATE TABLE dibs.ready_sticky (
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
  CREATE INDEX ready_sticky_session ON dibs.ready_sticky (session, queue, rank, pos);
  CREATE INDEX ready_sticky_group ON dibs.ready_sticky (queue, group_key, task);

  -- Not due yet: delayed, backing off, or parked.
  CREATE TABLE dibs.scheduled (
    pos         int8 NOT NULL,
    task        int8 NOT NULL,
    due         int8 NOT NULL,  -- of a parked task, when its wait times out, which may be never
    queue       int4 NOT NULL,
    failures    int2 NOT NULL,
    blocks_group bool NOT NULL,  -- it is the head of its group: the others wait
    signal      text,           -- of a parked task: the signal that ends its wait
    PRIMARY KEY (queue, pos)
  );
  CREATE INDEX scheduled_due ON dibs.scheduled (due, task);
  -- For lists.
  CREATE INDEX scheduled_of_queue ON dibs.scheduled (queue, due, task);

  -- Behind the head of its group, in the order in which they become ready.
  CREATE TABLE dibs.waiting (
    pos       int8 NOT NULL,
    task      int8 NOT NULL,
    queue     int4 NOT NULL,
    rank      int2 NOT NULL,
    failures  int2 NOT NULL DEFAULT 0,  -- above 0 where its group went on while it backed off
    group_key text COLLATE "C" NOT NULL,
    PRIMARY KEY (queue, group_key, pos)
  );
  -- Urgent tasks come first, where the tasks of a group need not run strictly in order.
  CREATE INDEX waiting_urgent ON dibs.waiting (queue, group_key, pos) WHERE rank < -5000;

  -- Claimed. Has everything that the success of a plain task needs, so that its settlement does not read task.
  CREATE TABLE dibs.claim (
    task          int8 PRIMARY KEY,
    fence         int8 NOT NULL,
    started_at    int8 NOT NULL,
    lease         int8 NOT NULL,
    deadline      int8 NOT NULL,  -- end of the lease of a manual claim, of the timeout of a session's claim
    session       int8,           -- null: a manual claim
    queue         int4 NOT NULL,
    failures      int2 NOT NULL,
    special       bool NOT NULL,
    cancelled     bool NOT NULL,  -- a cancel was requested: it ends cancelled, whatever its worker says
    counted       bool NOT NULL DEFAULT false,  -- its queue limits how many are claimed at once
    worker        text NOT NULL,
    progress      float8,
    note          text            -- of the progress
  );
  -- Leases of sessions are found by the session; only manual claims have their own.
  CREATE INDEX claim_by_hand ON dibs.claim (deadline, task) WHERE session IS NULL;
  CREATE INDEX claim_counted ON dibs.claim (queue) WHERE counted;

  -- Successes that wait for a verdict: the attempt, its result, and what the verdict will add.
  CREATE TABLE dibs.verifying (
    task         int8 PRIMARY KEY,
    asked        int8 NOT NULL,  -- the task in NAME/verify that asks for the verdict
    fence        int8 NOT NULL,
    started_at   int8 NOT NULL,
    queue        int4 NOT NULL,
    failures     int2 NOT NULL,
    "each"       bool NOT NULL DEFAULT false,  -- the result is a list, and each item becomes a part of the run
    worker       text NOT NULL,
    adds         text,           -- JSON: core/handler/verification.ts
    next         text,           -- JSON: what the tasks that follow in its run cost
    result       text,           -- at most one of these two
    result_bytes bytea
  );
  CREATE INDEX verifying_queue ON dibs.verifying (queue, task);
  -- A verdict settles the row that asked for it, never the one that a payload names.
  CREATE INDEX verifying_asked ON dibs.verifying (asked);
  -- Tasks in verifying that stepped aside: their group goes on meanwhile.
  CREATE TABLE dibs.stepped_aside (
    task int8 PRIMARY KEY
  );

  -- Pending tasks that have a time to live, except claimed ones. For the sweep.
  CREATE TABLE dibs.ttl (
    expires_at int8 NOT NULL,
    task       int8 NOT NULL,
    PRIMARY KEY (expires_at, task)
  );

  -- ── Groups and limits ──────────────────────────────────────────────────────────────────────────────────

  -- Groups that have a head. A transaction that puts a task behind the head locks the row shared; one that looks for the
  -- next task locks it exclusively. In a queue with limits the gate's lock does that, and the row also has what is
  -- remembered of the group, and outlives its last task while there is something to remember.
  CREATE TABLE dibs.lane (
    session    int8,  -- of a sticky group: the session that had its last task
    held_until int8,
    wake_at    int8,  -- when to check whether more tasks may start
    queue      int4 NOT NULL,
    holders    int4 NOT NULL DEFAULT 1,  -- tasks that are ready, claimed, or scheduled as a head
    group_key  text COLLATE "C" NOT NULL,
    meter      text,  -- JSON: core/queue/rate.ts
    PRIMARY KEY (queue, group_key)
  );
  CREATE INDEX lane_wake ON dibs.lane (wake_at) WHERE wake_at IS NOT NULL;
  CREATE INDEX lane_session ON dibs.lane (session) WHERE session IS NOT NULL;

  -- Queues that have limits, had some, or have a hold. A transaction that changes the groups of such a queue, or claims
  -- from it, holds its gate lock until the commit (limits/limits.ts). The row is rewritten by each of them: every version
  -- has a higher n, and the newest is read (statements/newest.ts). A key without n would walk over all dead versions.
  CREATE TABLE dibs.gate (
    n          int8 NOT NULL DEFAULT 0,
    held_until int8,
    wake_at    int8,
    queue      int4 NOT NULL,
    meter      text,              -- JSON: core/queue/rate.ts
    reviewed   text COLLATE "C",  -- groups up to this key follow the changed policy; null: all (limits/review.ts)
    PRIMARY KEY (queue, n)
  ) WITH (fillfactor = 50);
  CREATE INDEX gate_wake ON dibs.gate (wake_at) WHERE wake_at IS NOT NULL;

  -- Floors: no row of a line is below them, so that claims do not walk over dead index entries (line/floors.ts). Of the
  -- rows of a line with the highest n, the lowest counts.
  CREATE TABLE dibs.floor (
    pos  int8 NOT NULL,
    n    int8 NOT NULL,
    line int4 NOT NULL,  -- a queue's id, or one of the negative numbers of what is ordered by time
    rank int2 NOT NULL
  );
  CREATE INDEX floor_line ON dibs.floor (line, n DESC, rank, pos);

  -- ── What ended ─────────────────────────────────────────────────────────────────────────────────────────

  -- Done, cancelled or expired. The attempt of a success is in its row; other attempts are in attempt.
  CREATE TABLE dibs.ended (
    task          int8 PRIMARY KEY,
    ended_at      int8 NOT NULL,
    started_at    int8,
    fence         int8,
    queue         int4 NOT NULL,
    attempt       int2,
    state         text NOT NULL,
    worker        text,
    result        text,  -- at most one of these two
    result_bytes  bytea
  );
  -- For lists and retention.
  CREATE INDEX ended_order ON dibs.ended (queue, ended_at, task);
  -- A page of the few cancelled or expired tasks does not walk over the many that are done.
  CREATE INDEX ended_undone ON dibs.ended (queue, ended_at, task) WHERE state <> 'done';

  -- Dead letters. The error is in the attempt with this fence.
  CREATE TABLE dibs.dead (
    task        int8 PRIMARY KEY,
    died_at     int8 NOT NULL,
    fence       int8 NOT NULL,
    queue       int4 NOT NULL,
    worker      text NOT NULL,
    fingerprint text COLLATE "C" NOT NULL
  );
  CREATE INDEX dead_order ON dibs.dead (queue, died_at, task);
  -- For patterns, and for redrives of one kind of error.
  CREATE INDEX dead_kind ON dibs.dead (queue, fingerprint, died_at, task);

  -- The ledger: attempts that were no success.
  CREATE TABLE dibs.attempt (
    task        int8 NOT NULL,
    fence       int8 NOT NULL,
    started_at  int8 NOT NULL,
    ended_at    int8 NOT NULL,
    attempt     int2 NOT NULL,
    worker      text NOT NULL,
    outcome     text NOT NULL,
    name        text,  -- these four: of the error
    message     text,
    stack       text,
    fingerprint text,
    PRIMARY KEY (task, fence)
  );

  -- What handlers logged: the last lines of each task (core/handler/attempt-log.ts).
  CREATE TABLE dibs.log (
    task  int8 NOT NULL,
    n     int8 NOT NULL,  -- counts the lines of the task
    fence int8 NOT NULL,  -- of the attempt
    at    int8 NOT NULL,
    text  text NOT NULL,
    PRIMARY KEY (task, n)
  );

  -- Outlives its task by KEY_AFTER_END (core/task/idempotency.ts).
  CREATE TABLE dibs.idempotency (
    queue      int4 NOT NULL,
    key        text COLLATE "C" NOT NULL,
    task       int8 NOT NULL,
    created_at int8 NOT NULL,
    forget_at  int8,  -- set when its task has ended
    state      text,  -- how its task ended, for when that row is gone
    PRIMARY KEY (queue, key)
  );
  CREATE INDEX idempotency_forget ON dibs.idempotency (forget_at) WHERE forget_at IS NOT NULL;

  -- ── Flows ──────────────────────────────────────────────────────────────────────────────────────────────

  -- What a handler left for its next attempt (step, timeout), and what others sent to the task (signal, feedback).
  CREATE TABLE dibs.step (
    task  int8 NOT NULL,
    kind  text COLLATE "C" NOT NULL,
    name  text COLLATE "C" NOT NULL,
    value text,  -- at most one of these two
    bytes bytea,
    PRIMARY KEY (task, kind, name)
  );

  -- One input on its way through the stages of a pipeline (core/run/run.ts). Its id is the number of its first task. A
  -- transaction that continues or ends it has its row locked (flows/run-locks.ts).
  CREATE TABLE dibs.run (
    id           int8 PRIMARY KEY,
    created_at   int8 NOT NULL,
    queue        text COLLATE "C" NOT NULL,  -- name of its first task's queue, whose retention it shares
    pipeline     text NOT NULL,
    stages       text NOT NULL,  -- JSON: the stages with which it began
    under_way    int4 NOT NULL,  -- its tasks that are not done
    dead         int4 NOT NULL,  -- how many of these are dead
    counts       text,           -- JSON: under_way by stage, if the stages are a graph
    state        text,           -- done, cancelled, expired; null: in progress
    ended_at     int8,
    result       text,           -- at most one of these two
    result_bytes bytea
  ) WITH (fillfactor = 70);
  CREATE INDEX run_ended ON dibs.run (queue, ended_at, id) WHERE ended_at IS NOT NULL;

  -- A task of a run. Its state is in the tables above; it is copied here when the task's row is removed.
  CREATE TABLE dibs.run_part (
    task         int8 PRIMARY KEY,
    run          int8 NOT NULL,
    created_at   int8 NOT NULL,
    started_at   int8,
    ended_at     int8,
    awaits_join  bool NOT NULL DEFAULT false,  -- its result waits for others that a stage joins or merges
    stage        text NOT NULL,
    part         text COLLATE "C" NOT NULL,
    state        text,
    result       text,  -- at most one of these two
    result_bytes bytea
  );
  CREATE INDEX run_part_run ON dibs.run_part (run, task);
  -- For stages that merge results of the same part.
  CREATE INDEX run_part_stored ON dibs.run_part (run, part) WHERE awaits_join;

  -- Signals for all tasks of a run, until it ends. A task gets a copy (a row of step) when it waits for one.
  CREATE TABLE dibs.run_signal (
    run   int8 NOT NULL,
    name  text COLLATE "C" NOT NULL,
    value text,  -- at most one of these two
    bytes bytea,
    PRIMARY KEY (run, name)
  );

  -- A task that a handler of another one spawned (core/handler/children.ts). Removed with the parent; it outlives the child.
  CREATE TABLE dibs.child (
    task         int8 PRIMARY KEY,
    parent       int8 NOT NULL,
    created_at   int8 NOT NULL,
    ended_at     int8,
    n            int4 NOT NULL,  -- counts the children of the parent
    name         text COLLATE "C" NOT NULL,
    queue        text COLLATE "C" NOT NULL,  -- a name: the queue may have been removed
    state        text,   -- how it ended; null: it has not
    error        text,   -- JSON; this and the result: once its task is removed
    result       text,   -- at most one of these two
    result_bytes bytea
  );
  CREATE INDEX child_of ON dibs.child (parent, n);
  -- Whether a parent can continue: without it, each end of a child would walk over those that have ended.
  CREATE INDEX child_pending ON dibs.child (parent, n) WHERE state IS NULL;
  -- A task that has children. A transaction that ends one of them, or changes what the parent waits for, has the row
  -- locked (flows/run-locks.ts): so one of several children that end at once is the last.
  CREATE TABLE dibs.family (
    parent int8 PRIMARY KEY
  );

  -- Small named values that processes share: schedules, pipelines.
  CREATE TABLE dibs.document (
    kind   text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    value  text NOT NULL,  -- JSON
    due_at int8,           -- when housekeeping hands it out: the next firing time of a schedule
    PRIMARY KEY (kind, name)
  );
  CREATE INDEX document_due ON dibs.document (due_at, kind, name) WHERE due_at IS NOT NULL;

  -- Consumer groups. A publish uses the connection's copy (transaction/topics.ts). A transaction that changes this table
  -- has store's row locked, so that ids are committed in their order.
  CREATE TABLE dibs.subscription (
    id         int8 PRIMARY KEY,  -- in the order in which they were made
    created_at int8 NOT NULL,
    queue      int4 NOT NULL,
    pattern    text COLLATE "C" NOT NULL,
    group_name text COLLATE "C" NOT NULL,
    UNIQUE (pattern, group_name)
  );
  CREATE INDEX subscription_queue ON dibs.subscription (queue);

  -- ── Workers ────────────────────────────────────────────────────────────────────────────────────────────

  -- A running worker. Rewritten by every heartbeat; as in gate, the newest version is read. It has no key: n changes
  -- while claims lock the row's key against the session's end.
  CREATE TABLE dibs.session (
    id         int8 NOT NULL,
    n          int8 NOT NULL DEFAULT 0,
    lease      int8 NOT NULL,
    joined_at  int8 NOT NULL,
    heartbeat_at    int8 NOT NULL,  -- the last heartbeat
    overdue_at int8,           -- no claim of it times out before then; null: it has no claims
    mixed      bool NOT NULL,  -- it may have claims whose lease is longer than its own
    worker     text NOT NULL,  -- id of the worker instance
    info       text NOT NULL   -- JSON: WorkerInfo
  ) WITH (fillfactor = 50);
  CREATE INDEX session_newest ON dibs.session (id, n);
  -- When they will have missed their heartbeats. For the sweep, above a floor.
  CREATE INDEX session_silent ON dibs.session ((heartbeat_at + lease));

  -- Which live workers serve a queue: whether a failed task can be retried elsewhere.
  CREATE TABLE dibs.serving (
    queue    text COLLATE "C" NOT NULL,  -- a name: the queue need not exist yet
    session  int8 NOT NULL,
    PRIMARY KEY (queue, session)
  );
  -- What happened to claims, for the heartbeat of their session to fetch.
  CREATE TABLE dibs.notice (
    n          int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    session    int8 NOT NULL,
    task       int8 NOT NULL,
    created_at int8 NOT NULL,
    fence      int8 NOT NULL,
    kind       text NOT NULL  -- lost, timeout, cancel
  );
  CREATE INDEX notice_session ON dibs.notice (session, n);

  -- ── Callers' transactions ──────────────────────────────────────────────────────────────────────────────

  -- What callers' transactions have committed and no batch has processed yet (caller/inbox.ts): a task for the line, a
  -- group whose head has ended, or a cost. Such a transaction may stay open for long, so it locks nothing that others need.
  CREATE TABLE dibs.inbox (
    n          int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task       int8,
    due        int8,  -- of a delayed task
    cost       int8,  -- these three: of an attempt whose real cost is known, with the start that was counted
    spent      int8,
    started_at int8,
    xid        xid8 NOT NULL DEFAULT pg_current_xact_id(),  -- the caller's transaction
    queue      int4 NOT NULL,
    group_key  text
  );
  CREATE INDEX inbox_xid ON dibs.inbox (xid, n);
  -- Which entries of the inbox can still appear: line/inbox-floor.ts.
  CREATE TABLE dibs.inbox_floor (
    n     int8   PRIMARY KEY,
    since xid8   NOT NULL,
    open  xid8[] NOT NULL
  );

  -- ── Counters and events ────────────────────────────────────────────────────────────────────────────────

  -- A transaction writes one row for each queue that it touches, and never another's row. Housekeeping folds the rows
  -- into depth and flow (transaction/counters.ts).
  CREATE TABLE dibs.delta (
    slot       int8 NOT NULL,
    wait_ms    int8 NOT NULL,
    service_ms int8 NOT NULL,
    queue      int4 NOT NULL,
    ready      int4 NOT NULL,
    waiting    int4 NOT NULL,
    scheduled  int4 NOT NULL,
    claimed    int4 NOT NULL,
    parked     int4 NOT NULL,
    verifying  int4 NOT NULL,
    done       int4 NOT NULL,
    dead       int4 NOT NULL,
    cancelled  int4 NOT NULL,
    expired    int4 NOT NULL,
    added      int4 NOT NULL,
    started    int4 NOT NULL,
    succeeded  int4 NOT NULL,
    failed     int4 NOT NULL
  );
  CREATE INDEX delta_queue ON dibs.delta (queue);
  -- Tasks by state, up to the last fold.
  CREATE TABLE dibs.depth (
    queue     int4 PRIMARY KEY,
    ready     int8 NOT NULL,
    waiting   int8 NOT NULL,
    scheduled int8 NOT NULL,
    claimed   int8 NOT NULL,
    parked    int8 NOT NULL DEFAULT 0,
    verifying int8 NOT NULL DEFAULT 0,
    done      int8 NOT NULL,
    dead      int8 NOT NULL,
    cancelled int8 NOT NULL,
    expired   int8 NOT NULL
  ) WITH (fillfactor = 50);
  -- What happened in each slot of BOUNDS.rateSlot milliseconds, for rates and mean times.
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

  -- Processes that follow events.
  CREATE TABLE dibs.listener (
    name  text PRIMARY KEY,
    until int8 NOT NULL
  );
  -- A row has many events of one commit; n is the number of the last of them (transaction/events.ts).
  CREATE TABLE dibs.event (
    n    int8 PRIMARY KEY,
    body text NOT NULL  -- JSON: DibsEvent[]
  );

  -- In a publication for all tables, rows can be deleted only from tables that have a key or this.
  ALTER TABLE dibs.delta REPLICA IDENTITY FULL;
  ALTER TABLE dibs.session REPLICA IDENTITY FULL;
  ALTER TABLE dibs.floor REPLICA IDENTITY FULL;
  ${HOT.map(vacuumSoon).join("")}
`;
