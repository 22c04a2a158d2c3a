import { isDibsError } from "../core/errors.ts";
import type { DibsEvent } from "../core/events.ts";
import type { NamedPolicy } from "../core/policy.ts";
import type { ClaimWish, ListQuery, Port } from "../core/port.ts";
import type { ClaimedTask, ClaimRef, NewMessage, NewTask, WorkerInfo } from "../core/task.ts";
import { type Stage, stageQueue } from "../core/run.ts";
import { subscriptionQueue } from "../core/topic.ts";
import { type Verified, verificationQueue } from "../core/verification.ts";
import type { Grant, Kind } from "./scopes.ts";

/** An action that only an administrator may take, as the audit trail tells it. */
export interface AdminAction {
  by: string;
  verb: string;
  queue: string;
}

/** Queues of tasks that were claimed through here, so that a settlement need not look its task up. */
const REMEMBERED = 10_000;

/**
 * The port as far as a grant goes: every door lets its callers reach no other. Verbs that name a task are judged by the
 * queue it is in; for who may do so on all queues nobody looks that up, and what each task needs is passed on as it is.
 */
export function guardPort(port: Port, grant: Grant, audit: (action: AdminAction) => void): Port {
  const queues = new Map<string, string>();

  /** A star: every queue there is. */
  const admin = (verb: string, queue: string): void => {
    if (queue !== "*" || !grant.allowsAll("admin")) grant.need(["admin"], [queue]);
    audit({ by: grant.name, verb, queue });
  };

  const remember = ({ id, queue }: ClaimedTask): void => {
    queues.set(id, queue);
    if (queues.size > REMEMBERED) queues.delete(queues.keys().next().value!);
  };

  /** Waits only where a task has to be looked up: otherwise calls take effect in the order they are made. */
  const needForTask = (kinds: Kind[], id: string): Promise<void> | undefined => {
    if (kinds.some((kind) => grant.allowsAll(kind))) return undefined;
    const queue = queues.get(id);
    if (queue === undefined) return port.task(id).then((task) => grant.need(kinds, [task.queue]));
    grant.need(kinds, [queue]);
    return undefined;
  };

  const onTask = async <T>(kinds: Kind[], id: string, run: () => Promise<T>): Promise<T> => {
    const lookUp = needForTask(kinds, id);
    if (lookUp) await lookUp;
    return run();
  };

  /** A run stands where its first queue does. */
  const onRun = async <T>(kinds: Kind[], id: string, run: () => Promise<T>): Promise<T> => {
    if (kinds.some((kind) => grant.allowsAll(kind))) return run();
    const { pipeline, stages } = (await port.run(id, { limit: 1 })).run;
    grant.need(kinds, [firstQueue(pipeline, stages)]);
    return run();
  };

  /** A run adds to the queues of all its stages, in time. */
  const needForRuns = (adds: unknown): void => {
    if (!Array.isArray(adds)) return;
    for (const add of adds as (Added | null)[]) {
      const run = add?.run;
      if (!Array.isArray(run?.stages)) continue;
      grant.need(
        ["add"],
        run.stages.map((stage) => stageQueue(run.pipeline, stage?.name)),
      );
    }
  };

  const needForStages = (name: string, stages: Stage[]): void => {
    const queues = stages.map((stage) => stageQueue(name, stage?.name));
    const isTheirs = (kind: Kind) => queues.some((queue) => grant.allows(kind, queue));
    if (!isTheirs("work")) grant.need(["add"], queues.slice(0, 1));
  };

  /** A schedule stands where the queue does that it adds to. One that is not there is nobody's. */
  const needForSchedule = async (kinds: Kind[], name: string, audited?: string): Promise<void> => {
    const [found] = await port.schedules(name);
    if (!found) return;
    if (!kinds.some((kind) => grant.allowsAll(kind))) grant.need(kinds, [found.task.queue]);
    if (audited !== undefined)
      audit({ by: grant.name, verb: audited, queue: `${found.task.queue} by schedule ${name}` });
  };

  /** What is of no shape at all is the port's to refuse. */
  const needForAdds = (adds: unknown, placeOf: (add: Added) => unknown): void => {
    if (Array.isArray(adds))
      grant.need(
        ["add"],
        adds.map((add: Added | null) => placeOf(add ?? {})),
      );
  };

  /** A verdict is given under a claim in one queue, on what another holds. */
  const needForVerdict = async ({ id }: Verified): Promise<void> => {
    if (grant.allowsAll("work")) return;
    const judged = await port.task(id).catch((error: unknown) => {
      // It is gone, and nothing comes of the verdict.
      if (isDibsError(error) && error.code === "TASK_NOT_FOUND") return undefined;
      throw error;
    });
    if (judged) needToVerify(judged.queue);
  };

  const addWithin: Port["add"] = async (tasks, options) => {
    needForAdds(tasks, queueOf);
    needForRuns(tasks);
    return port.add(tasks, options);
  };

  const settleWithin: Port["settle"] = async (claim, word, options) => {
    if (word.kind === "ack") {
      needForAdds(word.adds, eitherOf);
      needForRuns(word.adds);
    }
    if (word.kind === "accept" || word.kind === "refuse") await needForVerdict(word.of);
    return onTask(["work"], claim.id, () => port.settle(claim, word, options));
  };

  const needToVerify = (queue: string): void => grant.need(["work"], [verificationQueue(queue)]);

  /** Those that may be seen. */
  const visible = <T>(items: T[], queuesOf: (item: T) => string[]): T[] =>
    grant.allowsAll("read")
      ? items
      : items.filter((item) => queuesOf(item).some((queue) => grant.allows("read", queue)));

  return {
    clock: port.clock,
    declare: async (queue, policy, options) => {
      if (options?.force && !isVerifier(grant, queue, policy)) admin("declare", queue);
      else grant.need(["add", "work"], [queue]);
      return port.declare(queue, policy, options);
    },
    pause: async (queue, paused, why) => {
      admin(paused ? "pause" : "resume", queue);
      return port.pause(queue, paused, why);
    },
    unhold: async (queue, groupKey) => {
      admin("unhold", queue);
      return port.unhold(queue, groupKey);
    },
    queues: async (queue) => {
      if (queue !== undefined) grant.need(["read"], [queue]);
      return visible(await port.queues(queue), ({ name }) => [name]);
    },
    stats: async (queue) => {
      grant.need(["read"], [queue]);
      return port.stats(queue);
    },
    purge: async (queue) => {
      admin("purge", queue);
      return port.purge(queue);
    },
    drop: async (queue) => {
      admin("drop", queue);
      return port.drop(queue);
    },
    add: grant.allowsAll("add") ? (tasks, options) => port.add(tasks, options) : addWithin,
    subscribe: async (pattern, group, policy) => {
      grant.need(["work"], [subscriptionQueue(pattern, group)]);
      return port.subscribe(pattern, group, policy);
    },
    unsubscribe: async (pattern, group) => {
      admin("unsubscribe", subscriptionQueue(pattern, group));
      return port.unsubscribe(pattern, group);
    },
    subscriptions: async (topic) => visible(await port.subscriptions(topic), ({ queue }) => [queue]),
    publish: async (message, options) => {
      needForAdds([message], topicOf);
      return port.publish(message, options);
    },
    schedule: async (name, definition, options) => {
      const queue: unknown = (definition as Partial<typeof definition> | null)?.task?.queue;
      if (options?.force) admin("schedule", queue as string);
      else grant.need(["add"], [queue]);
      // One that adds to another queue is not theirs to replace.
      if (!grant.allowsAll("add")) await needForSchedule(["add"], name);
      return port.schedule(name, definition, options);
    },
    pauseSchedule: async (name, paused) => {
      await needForSchedule(["admin"], name, paused ? "pause" : "resume");
      return port.pauseSchedule(name, paused);
    },
    unschedule: async (name) => {
      await needForSchedule(["admin"], name, "unschedule");
      return port.unschedule(name);
    },
    schedules: async (name) => visible(await port.schedules(name), ({ task }) => [task.queue]),
    claim: async (wish: ClaimWish) => {
      grant.need(["work"], wish.queues);
      const result = await port.claim(wish);
      if (!grant.allowsAll("work")) result.tasks.forEach(remember);
      return result;
    },
    settle:
      grant.allowsAll("add") && grant.allowsAll("work")
        ? (claim, word, options) => port.settle(claim, word, options)
        : settleWithin,
    extend: async (claim: ClaimRef, lease) => onTask(["work"], claim.id, () => port.extend(claim, lease)),
    progress: async (claim: ClaimRef, value, note) =>
      onTask(["work"], claim.id, () => port.progress(claim, value, note)),
    step: async (claim: ClaimRef, name, value) =>
      onTask(["work"], claim.id, () => port.step(claim, name, value)),
    steps: async (id) => onTask(["work", "read"], id, () => port.steps(id)),
    // Whoever adds tasks to a queue, or does its work, may talk to them.
    signal: async (id, name, value) => onTask(["add", "work"], id, () => port.signal(id, name, value)),
    verifying: async (of) => {
      const found = await port.verifying(of);
      // Its own worker, too, may ask what became of a result.
      if (!grant.allows("work", found.task.queue)) needToVerify(found.task.queue);
      return found;
    },
    // Its worker is handed it anyway, and has to look where it stands: to reckon a backoff, to learn what became of a word.
    task: async (id) => onTask(["read", "work"], id, () => port.task(id)),
    history: async (id) => onTask(["read", "work"], id, () => port.history(id)),
    cancel: async (id) =>
      onTask(["admin"], id, () => {
        audit({ by: grant.name, verb: "cancel", queue: `of task ${id}` });
        return port.cancel(id);
      }),
    // Whoever added a task may learn what became of it.
    end: async (id, options) =>
      options?.of === "runs"
        ? onRun(["read", "add"], id, () => port.end(id, options))
        : onTask(["read", "add"], id, () => port.end(id, options)),
    // Whoever may add to its first queue, or work on a stage, may say which stages there are.
    definePipeline: async (name, stages) => {
      if (Array.isArray(stages)) needForStages(name, stages);
      return port.definePipeline(name, stages);
    },
    pipelines: async (name) =>
      (await port.pipelines(name)).filter((pipeline) =>
        SEES_PIPELINES.some((kind) => grant.allows(kind, firstQueue(pipeline.name, pipeline.stages))),
      ),
    run: async (id, page) => onRun(["read", "add"], id, () => port.run(id, page)),
    cancelRun: async (id) =>
      onRun(["admin"], id, () => {
        audit({ by: grant.name, verb: "cancel", queue: `of run ${id}` });
        return port.cancelRun(id);
      }),
    list: async (query: ListQuery) => {
      grant.need(["read"], [query.queue]);
      return port.list(query);
    },
    patterns: async (queue, by, limit) => {
      grant.need(["read"], [queue]);
      return port.patterns(queue, by, limit);
    },
    redrive: async (queue, filter, spacing, options) => {
      admin("redrive", queue);
      return port.redrive(queue, filter, spacing, options);
    },
    discard: async (queue, filter) => {
      admin("discard", queue);
      return port.discard(queue, filter);
    },
    // Tasks that move from store to store may come from and go to any queue.
    depart: async (queue, to, limit) => {
      admin("move", "*");
      return port.depart(queue, to, limit);
    },
    arrive: async (travelling) => {
      admin("move", "*");
      return port.arrive(travelling);
    },
    gone: async (travelling) => {
      admin("move", "*");
      return port.gone(travelling);
    },
    join: async (worker: WorkerInfo, lease, listener) => {
      grant.need(["work"], worker.queues);
      return port.join(worker, lease, listener);
    },
    reconcile: async (session, fences) => port.reconcile(session, fences),
    // Whose a session is, the door knows that gave it out.
    rejoin: async (session, fences, listener) => port.rejoin(session, fences, listener),
    retire: async (session) => port.retire(session),
    leave: async (session, options) => port.leave(session, options),
    workers: async (queue) => {
      if (queue !== undefined) grant.need(["read"], [queue]);
      return visible(await port.workers(queue), (worker) => worker.queues);
    },
    events: (signal) => visibleEvents(port.events(signal), grant),
    close: () => port.close(),
  };
}

/** Whoever may give verdicts on a queue's results may say that they need one, and set nothing else. */
function isVerifier(grant: Grant, queue: string, policy: NamedPolicy): boolean {
  const { verified, ...others } = policy;
  return (
    verified === true && Object.keys(others).length === 0 && grant.allows("work", verificationQueue(queue))
  );
}

const SEES_PIPELINES: Kind[] = ["read", "add", "work"];

function firstQueue(pipeline: string, stages: Stage[]): string {
  return stageQueue(pipeline, stages[0]!.name);
}

type Added = Partial<NewTask & NewMessage>;

const queueOf = ({ queue }: Added): unknown => queue;
/** A topic stands where the queues of its subscriptions do. */
const topicOf = ({ topic }: Added): unknown => (typeof topic === "string" ? `topic/${topic}` : topic);
/** Told apart as the engines do. */
const eitherOf = (add: Added): unknown => ("topic" in add ? topicOf(add) : queueOf(add));

function visibleEvents(
  events: AsyncIterableIterator<DibsEvent>,
  grant: Grant,
): AsyncIterableIterator<DibsEvent> {
  return grant.allowsAll("read") ? events : filterEvents(events, grant);
}

/** Workers serve several queues, so that their coming and going is told to those who may see all. */
async function* filterEvents(
  events: AsyncIterableIterator<DibsEvent>,
  grant: Grant,
): AsyncGenerator<DibsEvent, void, void> {
  for await (const event of events) {
    if (event.type === "gap" || ("queue" in event && grant.allows("read", event.queue))) yield event;
  }
}
