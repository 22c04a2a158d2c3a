import type { Clock } from "../core/time/clock.ts";
import type { Measured } from "../core/commit.ts";
import { type ErrorData, errorFrom, noTx } from "../core/errors/errors.ts";
import { KeepAlive } from "../core/process/keep-alive.ts";
import { LIMITS } from "../core/input/limits.ts";
import { type Logger, SILENT } from "../core/process/logger.ts";
import { checkBoolean, checkNumber } from "../core/input/options.ts";
import type { Port } from "../core/port.ts";
import { checkQueueName } from "../core/queue/queue-name.ts";
import type { ClaimOutcome } from "../engine/claim-request.ts";
import type { Engine, Op, Verbs, TransactionVerb } from "../engine/engine.ts";
import { add } from "./add.ts";
import { EventWakeup, makesEvents } from "./event-wakeup.ts";
import { checkFilter, checkPatternKey, checkSpacing, checkClaim, checkTaskId } from "./check.ts";
import { change } from "./change.ts";
import { children, spawn } from "./children.ts";
import { claim } from "./claim.ts";
import type { Context } from "./context.ts";
import { doorDocuments } from "./documents.ts";
import { Feed } from "./events.ts";
import { Gatherer } from "./gather.ts";
import { extend, progress, step } from "./claim-calls.ts";
import { fireDue } from "./housekeeping/fire.ts";
import { Housekeeper } from "./housekeeping/housekeeper.ts";
import { declare, drop, pause, purge, queues, unhold } from "./queues.ts";
import { list } from "./list.ts";
import { endOrState, Results } from "./results.ts";
import { cancelRun, definePipeline, pipelines, run as inspectRun, runs } from "./runs.ts";
import { fireSchedule, pauseSchedule, schedule, schedules, unschedule } from "./schedules.ts";
import { Sessions } from "./sessions.ts";
import { settle } from "./settle.ts";
import { signal } from "./signal.ts";
import { entries, supervise, supervised } from "./supervise.ts";
import { freezeClockDuring } from "./freeze-clock.ts";
import { publish, subscribe, subscriptions, unsubscribe } from "./topics.ts";
import { WaitingLine } from "./waiting-line.ts";

const DEFAULT_POLL_MS = 2_000;

export interface BrokerOptions {
  clock: Clock;
  random?: () => number;
  /** How often to poll for what no hint reported, in milliseconds. */
  pollEvery?: number | undefined;
  /** Gets every committed batch, and what was added without a call. */
  measure?: ((measured: Measured) => void) | undefined;
  /** Gets errors that no caller gets. */
  logger?: Logger | undefined;
}

/** When something is due, usually a task, this many waiting claims are retried at once. Hints wake the others. */
const WAKE_WHEN_DUE = 4;

/**
 * The broker over one engine. It decides all policy; the engine only changes state. open() and the server create it.
 */
export function createBroker(given: Engine, options: BrokerOptions): Port {
  const { clock, pollEvery = DEFAULT_POLL_MS, logger = SILENT } = options;
  const engine = freezeClockDuring(given, clock);
  const wakeup = new EventWakeup();
  const gatherer = new Gatherer(engine, {
    // Waiting claims join the batch of the adds that they wait for, so that no hint has to wake them after it.
    onSend: (waiting) => {
      if (!line.isEmpty) line.wake(addedBy(waiting));
    },
    onCommit: (ops) => {
      if (ops.some(({ verb }) => makesEvents(verb))) wakeup.wake();
      results.check(settledBy(ops));
    },
    measure: options.measure,
  });
  const run: Context["run"] = (op) => gatherer.run(op);
  const results = new Results((ids) => run({ verb: "ends", ids }), clock);
  const runResults = new Results((ids) => run({ verb: "ends", ids, of: "runs" }), clock);
  const line = new WaitingLine(run, giveBack, clock);
  const housekeeper = new Housekeeper(
    run,
    clock,
    pollEvery,
    () => {
      line.wakeAny();
      results.checkAll();
      runResults.checkAll();
    },
    () => line.wakeAny({ maxSets: WAKE_WHEN_DUE }),
    (due, now) => fireDue(context, due, now),
    (error) => logger.error(`Housekeeping failed, and continues: ${(error as Error).message}`, { error }),
  );
  const context: Context = {
    clock,
    random: options.random ?? Math.random,
    pollEvery,
    run,
    executeInTransaction,
    housekeeper,
    keepAlive: new KeepAlive(),
    policies: new Map(),
  };
  const sessions = new Sessions(context);
  const feed = new Feed(context, wakeup);
  let closing: Promise<void> | undefined;

  engine.onHint((hint) => {
    if (hint.added) options.measure?.({ added: hint.added });
    if (hint.notices) sessions.deliver(hint.notices);
    if (hint.ready) line.wake(hint.ready);
    if (hint.due !== undefined) housekeeper.expect(hint.due);
    if (hint.ended || hint.foreign) {
      results.checkAll();
      runResults.checkAll();
    }
    if (hint.runs) runResults.check(hint.runs);
    if (hint.foreign) {
      line.wakeAny({ retriedClaim: hint.retriedClaim });
      housekeeper.checkNow();
      wakeup.wake();
    }
  });

  async function executeInTransaction<V extends TransactionVerb>(
    tx: unknown,
    op: Op<V>,
  ): Promise<Verbs[V]["out"]> {
    if (!engine.executeInTransaction) throw noTx();
    const outcome = (await engine.executeInTransaction(tx, op)) as
      | { ok: Verbs[V]["out"] }
      | { refused: ErrorData };
    if ("refused" in outcome) throw errorFrom(outcome.refused);
    return outcome.ok;
  }

  /** Releases tasks that no caller waits for, as if they had never been claimed. */
  function giveBack(outcome: ClaimOutcome): void {
    for (const task of outcome.tasks) {
      settle(context, task, { kind: "release", started: false }).catch(() => {});
    }
  }

  return {
    clock,
    declare: (queue, policy, how) => declare(context, queue, policy, how),
    pause: (queue, paused) => pause(context, queue, paused),
    unhold: (queue, groupKey) => unhold(context, queue, groupKey),
    queues: (query) => queues(context, query),
    stats: async (queue) => run({ verb: "stats", queue: checkQueueName(queue) }),
    purge: (queue) => purge(context, queue),
    drop: (queue) => drop(context, queue),
    subscribe: (pattern, group, policy, how) => subscribe(context, pattern, group, policy, how),
    unsubscribe: (pattern, group) => unsubscribe(context, pattern, group),
    subscriptions: (query) => subscriptions(context, query),
    publish: (message, within) => publish(context, message, within),
    schedule: (name, definition, how) => schedule(context, name, definition, how),
    pauseSchedule: (name, paused, how) => pauseSchedule(context, name, paused, how),
    unschedule: (name, how) => unschedule(context, name, how),
    schedules: (query) => schedules(context, query),
    supervise: (call, how) => supervise(context, call, how),
    supervised: (kind, query) => supervised(context, kind, query),
    decisions: (kind, name, limit) => entries(context, kind, name, limit),
    fireSchedule: (name, how) => fireSchedule(context, name, how),
    add: (tasks, within) => add(context, tasks, within),
    claim: (call) => claim(context, line, call),
    settle: (held, call, within) => settle(context, held, call, within),
    extend: (held, lease) => extend(context, held, lease),
    progress: (held, value, note, log) => progress(context, held, value, note, log),
    step: (held, name, value) => step(context, held, name, value),
    steps: async (id) => run({ verb: "steps", id: checkTaskId(id) }),
    spawn: (held, tasks) => spawn(context, held, tasks),
    children: (id, query) => children(context, id, query),
    signal: (id, name, value, options) => signal(context, id, name, value, options),
    verifying: async (of) => run({ verb: "verifying", ...checkClaim(of) }),
    task: async (id) => run({ verb: "get", id: checkTaskId(id) }),
    history: async (id) => run({ verb: "history", id: checkTaskId(id) }),
    cancel: async (id) => (await run({ verb: "cancel", id: checkTaskId(id) })).state,
    change: (id, wanted) => change(context, id, wanted),
    end: async (id, wait) =>
      context.keepAlive.during(
        wait?.of === "runs"
          ? endOrState(
              (options) => runResults.end(id, options),
              async () => (await inspectRun(context, id, { limit: 1 })).run.state,
              wait,
            )
          : endOrState(
              (options) => results.end(id, options),
              async () => (await run({ verb: "get", id })).state,
              wait,
            ),
      ),
    definePipeline: (name, stages, how) => definePipeline(context, name, stages, how),
    pipelines: (query) => pipelines(context, query),
    run: (id, page) => inspectRun(context, id, page),
    runs: (query) => runs(context, query),
    cancelRun: (id) => cancelRun(context, id),
    list: (query) => list(context, query),
    patterns: async (queue, by, limit) =>
      run({
        verb: "patterns",
        queue: checkQueueName(queue),
        by: checkPatternKey(by),
        limit: checkNumber(limit, "limit", 1, LIMITS.page),
      }),
    redrive: async (queue, filter, spacing, { fresh } = {}) => {
      const op = {
        verb: "redrive",
        queue: checkQueueName(queue),
        filter: checkFilter(filter),
        spacing: checkSpacing(spacing),
        ...(fresh !== undefined && { fresh: checkBoolean(fresh, "fresh") }),
      } as const;
      housekeeper.expect(spacing);
      return (await run(op)).count;
    },
    discard: async (queue, filter) =>
      (await run({ verb: "discard", queue: checkQueueName(queue), filter: checkFilter(filter) })).count,
    join: (worker, lease, listener) => sessions.join(worker, lease, listener),
    reconcile: (session, fences) => sessions.reconcile(session, fences),
    rejoin: (session, fences, listener) => sessions.rejoin(session, fences, listener),
    retire: (session) => sessions.retire(session),
    leave: (session, how) => sessions.leave(session, how),
    workers: (query) => sessions.list(query),
    documents: doorDocuments(context),
    events: (signal) => feed.open(signal),
    close: () => (closing ??= close()),
  };

  async function close(): Promise<void> {
    housekeeper.close();
    engine.stopRetrying?.();
    await line.close();
    results.close();
    runResults.close();
    wakeup.wake();
    await gatherer.close();
    await engine.close();
  }
}

/** How many tasks will probably be ready, by queue. */
function addedBy(waiting: readonly { op: Op }[]): Record<string, number> {
  const added: Record<string, number> = Object.create(null) as Record<string, number>;
  for (const { op } of waiting) {
    if (op.verb !== "add") continue;
    for (const { queue, delay } of op.tasks) if (!delay) added[queue] = (added[queue] ?? 0) + 1;
  }
  return added;
}

function* settledBy(ops: readonly Op[]): Iterable<string> {
  for (const op of ops) if (op.verb === "settle") yield op.id;
}
