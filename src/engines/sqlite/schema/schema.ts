/**
 * The tables of a store on a file, as a new store gets them (migrations.ts). Later changes are added there as steps; this
 * text never changes after a release.
 *
 * A state is a table (docs/decisions/0004). A transition is one delete and one insert of a small row. The payload is in
 * `task`, which is not rewritten; the two exceptions are a redrive and a delayed task that joins its group.
 *
 * Column names: `seq` and `task` are a task's number, `pos` is its position in a line (lower is earlier), `rank` is minus
 * its priority (core/task/task.ts), `failures` counts failed attempts. Times are milliseconds of the store's own clock, which
 * stops while the machine sleeps where a comment says "awake" (core/time/engine-time.ts). `special` is a set of bits that says
 * what a task has beyond a payload (statements/special.ts), so that plain tasks are settled without reading `task`.
 */
/**
 * Version of the first schema. Stores with a lower version were made before the first release, and are refused: their
 * numbers counted steps that no longer exist.
 */
export const FIRST_VERSION = 105;

export const SCHEMA = `
  -- One row: the clock, and the last number given out of each kind. Every transaction reads it, and writes it at its end.
  CREATE TABLE store (
    one          INTEGER PRIMARY KEY CHECK (one = 1),
    salt         INTEGER NOT NULL,  -- part of every task id: ids of another store are not found here
    now          INTEGER NOT NULL,  -- the clock at the last write: core/time/engine-time.ts
    awake        INTEGER NOT NULL,
    boot         TEXT    NOT NULL,
    elapsed_at   INTEGER NOT NULL,
    awake_at     INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    fence        INTEGER NOT NULL,
    session      INTEGER NOT NULL,
    event        INTEGER NOT NULL,
    revision     INTEGER NOT NULL,            -- grows with every change of queue: connections keep a copy of that table
    listeners    INTEGER NOT NULL,            -- rows in listener: events are written only while there are some
    subscribed   INTEGER NOT NULL DEFAULT 0,  -- the last id in subscription: connections keep a copy of that table too
    unsubscribed INTEGER NOT NULL DEFAULT 0,  -- grows when subscriptions are removed
    transfer     TEXT,                        -- JSON: what an export, an import or a move has left (engine/transfer.ts)
    closed       INTEGER NOT NULL DEFAULT 0   -- a move or an import has closed the store: every batch is refused
  );

  -- Each connection has a copy, which it reads again when store.revision has grown.
  CREATE TABLE queue (
    id          INTEGER PRIMARY KEY,
    name        TEXT    NOT NULL UNIQUE,
    named       TEXT    NOT NULL,            -- JSON: the policy fields that a declaration named
    declared    TEXT,                        -- JSON: the last declaration applied, so that a restart does not repeat it
    paused      INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    lanes       INTEGER NOT NULL DEFAULT 0,  -- what its rows in lane mean: limits/lanes.ts
    gate        INTEGER NOT NULL DEFAULT 0   -- it has a row in gate
  );

  -- What was added. The payload comes last, so that reading the other columns does not touch its overflow pages.
  CREATE TABLE task (
    seq             INTEGER PRIMARY KEY,
    queue           INTEGER NOT NULL,
    created_at      INTEGER NOT NULL,
    priority        INTEGER NOT NULL,  -- of an urgent task above all others: rankOf in core/task/task.ts
    pos             INTEGER,           -- null: it is seq
    group_key       TEXT,
    expires_at      INTEGER,
    max_attempts    INTEGER,
    cost            INTEGER,           -- units it takes from rate limits; null: one
    idempotency_key TEXT,
    content_type    TEXT,
    headers         TEXT,              -- JSON
    data            NOT NULL           -- text or blob
  );

  -- ── The states of pending tasks ────────────────────────────────────────────────────────────────────────

  -- Ready, for every worker. A claim reads it in the order of its key.
  CREATE TABLE ready (
    queue     INTEGER NOT NULL,
    rank      INTEGER NOT NULL,
    pos       INTEGER NOT NULL,
    task      INTEGER NOT NULL,
    failures  INTEGER NOT NULL,
    special   INTEGER NOT NULL,
    PRIMARY KEY (queue, rank, pos)
  ) WITHOUT ROWID;
  -- For the age of the oldest. The first of each rank is the oldest, except for tasks whose position is not their number.
  CREATE INDEX ready_moved ON ready (queue, task) WHERE pos <> task;

  -- Ready, but until then not for the workers that failed it (retry elsewhere). Claims read it next to ready.
  CREATE TABLE ready_elsewhere (
    queue     INTEGER NOT NULL,
    rank      INTEGER NOT NULL,
    pos       INTEGER NOT NULL,
    task      INTEGER NOT NULL,
    failures  INTEGER NOT NULL,
    special   INTEGER NOT NULL,
    until     INTEGER NOT NULL,
    avoid     TEXT    NOT NULL,  -- JSON: ids of those workers
    PRIMARY KEY (queue, rank, pos)
  ) WITHOUT ROWID;
  -- For the sweep, which moves them to ready when the time has passed.
  CREATE INDEX ready_elsewhere_until ON ready_elsewhere (until, task);
  CREATE INDEX ready_elsewhere_moved ON ready_elsewhere (queue, task) WHERE pos <> task;

  -- Ready, but only for the worker of this session, to which their group sticks.
  CREATE TABLE ready_sticky (
    queue     INTEGER NOT NULL,
    session   INTEGER NOT NULL,
    rank      INTEGER NOT NULL,
    pos       INTEGER NOT NULL,
    task      INTEGER NOT NULL,
    failures  INTEGER NOT NULL,
    special   INTEGER NOT NULL,
    PRIMARY KEY (queue, session, rank, pos)
  ) WITHOUT ROWID;
  -- In a fair queue a task's position in the line is not the one in task: it is found by its number.
  CREATE INDEX ready_sticky_task ON ready_sticky (task);

  -- Not due yet: delayed, backing off, or parked.
  CREATE TABLE scheduled (
    queue       INTEGER NOT NULL,
    pos         INTEGER NOT NULL,
    task        INTEGER NOT NULL,
    due         INTEGER NOT NULL,  -- of a parked task, when its wait times out, which may be never
    failures    INTEGER NOT NULL,
    blocks_group INTEGER NOT NULL,  -- it is the head of its group: the others wait
    signal      TEXT,              -- of a parked task: the signal that ends its wait
    PRIMARY KEY (queue, pos)
  ) WITHOUT ROWID;
  CREATE INDEX scheduled_due ON scheduled (due, task);

  -- Behind the head of its group, in the order in which they become ready.
  CREATE TABLE waiting (
    queue     INTEGER NOT NULL,
    group_key TEXT    NOT NULL,
    pos       INTEGER NOT NULL,
    task      INTEGER NOT NULL,
    rank      INTEGER NOT NULL,
    failures  INTEGER NOT NULL DEFAULT 0,  -- above 0 where its group went on while it backed off
    PRIMARY KEY (queue, group_key, pos)
  ) WITHOUT ROWID;
  -- Urgent tasks come first, where the tasks of a group need not run strictly in order.
  CREATE INDEX waiting_urgent ON waiting (queue, group_key, pos) WHERE rank < -5000;

  -- Claimed. Has everything that the success of a plain task needs, so that its settlement does not read task.
  CREATE TABLE claim (
    task          INTEGER PRIMARY KEY,
    queue         INTEGER NOT NULL,
    failures      INTEGER NOT NULL,
    special       INTEGER NOT NULL,
    fence         INTEGER NOT NULL,
    started_at    INTEGER NOT NULL,
    lease         INTEGER NOT NULL,
    deadline      INTEGER NOT NULL,  -- awake: end of the lease of a manual claim, of the timeout of a session's claim
    cancelled     INTEGER NOT NULL,  -- a cancel was requested: it ends cancelled, whatever its worker says
    session       INTEGER,           -- null: a manual claim
    progress      REAL,
    note          TEXT,              -- of the progress
    worker        TEXT    NOT NULL
  );
  -- Leases of sessions are found by the session; only manual claims have their own.
  CREATE INDEX claim_by_hand ON claim (deadline) WHERE session IS NULL;

  -- Successes that wait for a verdict: the attempt, its result, and what the verdict will add.
  CREATE TABLE verifying (
    task        INTEGER PRIMARY KEY,
    queue       INTEGER NOT NULL,
    failures    INTEGER NOT NULL,
    special     INTEGER NOT NULL,
    fence       INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    asked       INTEGER,                     -- the task in NAME/verify that asks for the verdict
    blocks_group INTEGER NOT NULL DEFAULT 1,
    each        INTEGER NOT NULL DEFAULT 0,  -- the result is a list, and each item becomes a part of the run
    worker      TEXT    NOT NULL,
    adds        TEXT,                        -- JSON: core/handler/verification.ts
    next        TEXT,                        -- JSON: what the tasks that follow in its run cost
    result
  );
  -- A verdict settles the row that asked for it, never the one that a payload names.
  CREATE INDEX verifying_asked ON verifying (asked);

  -- Pending tasks that have a time to live, except claimed ones. For the sweep.
  CREATE TABLE ttl (
    expires_at INTEGER NOT NULL,
    task       INTEGER NOT NULL,
    PRIMARY KEY (expires_at, task)
  ) WITHOUT ROWID;

  -- ── Groups and limits ──────────────────────────────────────────────────────────────────────────────────

  -- Groups. Where queue.lanes is 0, a row says that the group has a head and no more. Elsewhere a group may have several
  -- heads, or none although tasks wait, and is remembered after its last task.
  CREATE TABLE lane (
    queue     INTEGER NOT NULL,
    group_key TEXT    NOT NULL,
    state     TEXT,              -- JSON: LaneState in limits/lanes.ts
    PRIMARY KEY (queue, group_key)
  ) WITHOUT ROWID;

  -- When to check whether more tasks of a group may start. For the sweep.
  CREATE TABLE wake (
    at        INTEGER NOT NULL,
    queue     INTEGER NOT NULL,
    group_key TEXT    NOT NULL,
    PRIMARY KEY (at, queue, group_key)
  ) WITHOUT ROWID;

  -- Queues that have limits, had some, or have a hold.
  CREATE TABLE gate (
    queue      INTEGER PRIMARY KEY,
    meter      TEXT,     -- JSON: core/queue/rate.ts
    held_until INTEGER,
    wake_at    INTEGER,  -- when to check whether more may start
    reviewed   TEXT      -- groups up to this key follow the changed policy; null: all of them (limits/review.ts)
  );

  -- ── What ended ─────────────────────────────────────────────────────────────────────────────────────────

  -- Done, cancelled or expired. The attempt of a success is in its row; other attempts are in attempt.
  CREATE TABLE ended (
    task        INTEGER PRIMARY KEY,
    queue       INTEGER NOT NULL,
    state       TEXT    NOT NULL,
    ended_at    INTEGER NOT NULL,
    started_at  INTEGER,
    attempt     INTEGER,
    fence       INTEGER,
    worker      TEXT,
    result
  );
  -- For lists and retention. Entries of one millisecond are in the order of task, the key with which every index ends.
  CREATE INDEX ended_order ON ended (queue, ended_at);
  -- A page of the few cancelled or expired tasks does not walk over the many that are done.
  CREATE INDEX ended_undone ON ended (queue, ended_at) WHERE state <> 'done';

  -- Dead letters. The error is in the attempt with this fence.
  CREATE TABLE dead (
    task        INTEGER PRIMARY KEY,
    queue       INTEGER NOT NULL,
    died_at     INTEGER NOT NULL,
    fence       INTEGER NOT NULL,
    worker      TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL
  );
  CREATE INDEX dead_order ON dead (queue, died_at, task);
  -- For patterns, and for redrives of one kind of error.
  CREATE INDEX dead_kind ON dead (queue, fingerprint, died_at, task);

  -- The ledger: attempts that were no success.
  CREATE TABLE attempt (
    task        INTEGER NOT NULL,
    fence       INTEGER NOT NULL,
    attempt     INTEGER NOT NULL,
    worker      TEXT    NOT NULL,
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER NOT NULL,
    outcome     TEXT    NOT NULL,
    name        TEXT,              -- these four: of the error
    message     TEXT,
    stack       TEXT,
    fingerprint TEXT,
    PRIMARY KEY (task, fence)
  ) WITHOUT ROWID;

  -- What handlers logged: the last lines of each task (core/handler/attempt-log.ts).
  CREATE TABLE log (
    task  INTEGER NOT NULL,
    n     INTEGER NOT NULL,  -- counts the lines of the task
    fence INTEGER NOT NULL,  -- of the attempt
    at    INTEGER NOT NULL,
    text  TEXT    NOT NULL,
    PRIMARY KEY (task, n)
  ) WITHOUT ROWID;

  -- Outlives its task by KEY_AFTER_END (core/task/idempotency.ts).
  CREATE TABLE idempotency (
    queue      INTEGER NOT NULL,
    key        TEXT    NOT NULL,
    task       INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    forget_at  INTEGER,            -- set when its task has ended
    state      TEXT,               -- how its task ended, for when that row is gone
    PRIMARY KEY (queue, key)
  ) WITHOUT ROWID;
  CREATE INDEX idempotency_forget ON idempotency (forget_at) WHERE forget_at IS NOT NULL;

  -- ── Flows ──────────────────────────────────────────────────────────────────────────────────────────────

  -- What a handler left for its next attempt (step, timeout), and what others sent to the task (signal, feedback).
  CREATE TABLE step (
    task  INTEGER NOT NULL,
    kind  TEXT    NOT NULL,
    name  TEXT    NOT NULL,
    value,
    PRIMARY KEY (task, kind, name)
  ) WITHOUT ROWID;

  -- One input on its way through the stages of a pipeline (core/run/run.ts). Its id is the number of its first task.
  CREATE TABLE run (
    id         INTEGER PRIMARY KEY,
    created_at INTEGER NOT NULL,
    queue      TEXT    NOT NULL,  -- name of its first task's queue, whose retention it shares
    pipeline   TEXT    NOT NULL,
    stages     TEXT    NOT NULL,  -- JSON: the stages with which it began
    under_way  INTEGER NOT NULL,  -- its tasks that are not done
    dead       INTEGER NOT NULL,  -- how many of these are dead
    counts     TEXT,              -- JSON: under_way by stage, if the stages are a graph
    state      TEXT,              -- done, cancelled, expired; null: in progress
    ended_at   INTEGER,
    result
  );
  CREATE INDEX run_ended ON run (queue, ended_at) WHERE ended_at IS NOT NULL;

  -- A task of a run. Its state is in the tables above; it is copied here when the task's row is removed.
  CREATE TABLE run_part (
    task        INTEGER PRIMARY KEY,
    run         INTEGER NOT NULL,
    created_at  INTEGER NOT NULL,
    stage       TEXT    NOT NULL,
    part        TEXT    NOT NULL,
    state       TEXT,
    started_at  INTEGER,
    ended_at    INTEGER,
    awaits_join INTEGER NOT NULL DEFAULT 0,  -- its result waits for others that a stage joins or merges
    result
  );
  CREATE INDEX run_part_run ON run_part (run, task);
  -- For stages that merge results of the same part.
  CREATE INDEX run_part_stored ON run_part (run, part) WHERE awaits_join = 1;

  -- Signals for all tasks of a run, until it ends. A task gets a copy (a row of step) when it waits for one.
  CREATE TABLE run_signal (
    run  INTEGER NOT NULL,
    name TEXT    NOT NULL,
    value,
    PRIMARY KEY (run, name)
  ) WITHOUT ROWID;

  -- A task that a handler of another one spawned (core/handler/children.ts). Removed with the parent; it outlives the child.
  CREATE TABLE child (
    task       INTEGER PRIMARY KEY,
    parent     INTEGER NOT NULL,
    n          INTEGER NOT NULL,  -- counts the children of the parent
    created_at INTEGER NOT NULL,
    name       TEXT    NOT NULL,
    queue      TEXT    NOT NULL,  -- a name: the queue may have been removed
    state      TEXT,              -- how it ended; null: it has not
    ended_at   INTEGER,
    error      TEXT,              -- JSON; this and result: once its task is removed
    result
  );
  CREATE INDEX child_of ON child (parent, n);
  -- Whether a parent can continue: without it, each end of a child would walk over those that have ended.
  CREATE INDEX child_pending ON child (parent, n) WHERE state IS NULL;

  -- Small named values that processes share: schedules, pipelines.
  CREATE TABLE document (
    kind   TEXT NOT NULL,
    name   TEXT NOT NULL,
    value  TEXT NOT NULL,  -- JSON
    due_at INTEGER,        -- when housekeeping hands it out: the next firing time of a schedule
    PRIMARY KEY (kind, name)
  ) WITHOUT ROWID;
  CREATE INDEX document_due ON document (due_at, kind, name) WHERE due_at IS NOT NULL;

  -- Consumer groups. A publish uses the connection's copy (transaction/topics.ts).
  CREATE TABLE subscription (
    id         INTEGER PRIMARY KEY,  -- in the order in which they were made
    pattern    TEXT    NOT NULL,
    group_name TEXT    NOT NULL,
    queue      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (pattern, group_name)
  );
  CREATE INDEX subscription_queue ON subscription (queue);

  -- ── Workers ────────────────────────────────────────────────────────────────────────────────────────────

  -- A running worker. Few rows, rewritten by every heartbeat, so no index on its times.
  CREATE TABLE session (
    id         INTEGER PRIMARY KEY,
    worker     TEXT    NOT NULL,  -- id of the worker instance
    info       TEXT    NOT NULL,  -- JSON: WorkerInfo
    lease      INTEGER NOT NULL,
    joined_at  INTEGER NOT NULL,
    heartbeat_at    INTEGER NOT NULL,  -- awake: the last heartbeat
    mixed      INTEGER NOT NULL,  -- it may have claims whose lease is longer than its own
    overdue_at INTEGER            -- no claim of it times out before then; null: it has no claims
  );
  -- Which live workers serve a queue: whether a failed task can be retried elsewhere.
  CREATE TABLE serving (
    queue    TEXT    NOT NULL,  -- a name: the queue need not exist yet
    session  INTEGER NOT NULL,
    PRIMARY KEY (queue, session)
  ) WITHOUT ROWID;
  -- What happened to claims, for the heartbeat of their session to fetch.
  CREATE TABLE notice (
    n          INTEGER PRIMARY KEY,
    session    INTEGER NOT NULL,
    kind       TEXT    NOT NULL,  -- lost, timeout, cancel
    task       INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    fence      INTEGER NOT NULL
  );
  CREATE INDEX notice_session ON notice (session);

  -- ── Counters and events ────────────────────────────────────────────────────────────────────────────────

  -- Tasks by state. Written once per transaction for each queue that it touches.
  CREATE TABLE depth (
    queue     INTEGER PRIMARY KEY,
    ready     INTEGER NOT NULL DEFAULT 0,
    waiting   INTEGER NOT NULL DEFAULT 0,
    scheduled INTEGER NOT NULL DEFAULT 0,
    claimed   INTEGER NOT NULL DEFAULT 0,
    parked    INTEGER NOT NULL DEFAULT 0,
    verifying INTEGER NOT NULL DEFAULT 0,
    done      INTEGER NOT NULL DEFAULT 0,
    dead      INTEGER NOT NULL DEFAULT 0,
    cancelled INTEGER NOT NULL DEFAULT 0,
    expired   INTEGER NOT NULL DEFAULT 0
  );
  -- What happened in each slot of BOUNDS.rateSlot milliseconds, for rates and mean times.
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

  -- Processes that follow events.
  CREATE TABLE listener (
    name  TEXT PRIMARY KEY,
    until INTEGER NOT NULL  -- awake
  ) WITHOUT ROWID;
  -- A row has many events of one commit; n is the number of the last of them (transaction/events.ts).
  CREATE TABLE event (
    n    INTEGER PRIMARY KEY,
    body TEXT NOT NULL      -- JSON: DibsEvent[]
  );
`;
