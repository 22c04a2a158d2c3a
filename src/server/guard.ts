import { DibsError } from "../core/errors.ts";
import { EventPage } from "../core/event-page.ts";
import type { DibsEvent } from "../core/events.ts";
import type { DeclareOutcome, NamedPolicy } from "../core/policy.ts";
import type { ClaimCall, ListQuery, Port, SettleCall } from "../core/port.ts";
import type { ScheduleRecord } from "../core/schedule.ts";
import { show } from "../core/show.ts";
import type { ClaimRef, NewMessage, NewTask, WorkerInfo } from "../core/task.ts";
import { type Stage, stageQueue } from "../core/run.ts";
import { taskNotFound } from "../core/task-not-found.ts";
import { checkTopic, subscriptionQueue } from "../core/topic.ts";
import { verificationQueue } from "../core/verification.ts";
import type { Grant, Kind } from "./scopes.ts";
import { firstQueue, isMissing, queuesOf, Sight } from "./sight.ts";

/** What the audit trail tells: actions that take an administrator, and declarations that made or changed something. */
export interface AdminAction {
  by: string;
  verb: string;
  /** A star: all queues. Absent of what is named by an id, and of tokens. */
  queue?: string;
  /** An id. */
  task?: string;
  /** An id. */
  run?: string;
  schedule?: string;
  pipeline?: string;
  /** The name of a token that was made or revoked. */
  token?: string;
  /** A declaration that differs from what is stored, by who may not change it: nothing was done. */
  refused?: true;
}

/**
 * The port as far as a grant goes: every door lets its callers reach no other.
 *
 * FORBIDDEN is said of queues that the request itself names, and of what the token sees; so it tells nothing about the
 * store. Of tasks, claims, runs and schedules in other queues the answer is the one for those that do not exist (sight.ts).
 * Without `admin` a declaration makes what is new, and leaves what exists as it is.
 */
export function guardPort(port: Port, grant: Grant, audit: (action: AdminAction) => void): Port {
  const sight = new Sight(port, grant);

  /** A star: every queue there is. */
  const admin = (verb: string, queue: string): void => {
    grant.need(["admin"], [queue]);
    audit({ by: grant.name, verb, queue });
  };

  /** Who made or changed what; and who would have, and may not. */
  const auditOutcome =
    (action: Omit<AdminAction, "by">) =>
    (outcome: DeclareOutcome): void => {
      // Where nobody has a token, a program that makes its own queues is no news.
      if (outcome === "unchanged" || (outcome === "created" && !grant.isToken)) return;
      audit({ by: grant.name, ...action, ...(outcome === "refused" && { refused: true }) });
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

  /** Who may name a pipeline's stages at all. */
  const needForStages = (name: string, stages: Stage[]): void => {
    const queues = queuesOf(name, stages);
    if (!queues.some((queue) => grant.allows("work", queue))) grant.need(["add"], queues.slice(0, 1));
  };

  /** To make a pipeline takes a scope on each stage: its input goes to them. To change one takes `admin` on all, old and new. */
  const mayDefine = (name: string, before: Stage[] | null, stages: Stage[]): boolean => {
    const queues = queuesOf(name, [...(before ?? []), ...stages]);
    const kinds: Kind[] = before ? ["admin"] : ["add", "work"];
    return queues.every((queue) => kinds.some((kind) => grant.allows(kind, queue)));
  };

  const needToDefine = (name: string, before: Stage[] | null, stages: Stage[]): boolean => {
    if (mayDefine(name, before, stages)) return true;
    audit({ by: grant.name, verb: "define", queue: firstQueue(name, stages), pipeline: name, refused: true });
    throw new DibsError(
      "FORBIDDEN",
      `The token ${show(grant.name)} may not define pipeline ${show(name)} so: to make one takes add or work on each of its stages, ` +
        `to change one takes admin. Nothing was changed. Ask whoever runs the server.`,
    );
  };

  /** A schedule belongs to the queue that it adds to. Of one in a queue that the token does not see it learns nothing. */
  const adminsSchedule = ({ task }: ScheduleRecord): boolean => {
    if (!grant.sees(task.queue)) return false;
    grant.need(["admin"], [task.queue]);
    return true;
  };

  /** Names of schedules are shared by all: one that has the name cannot be hidden, only where it adds. */
  const maySchedule = (name: string, before: ScheduleRecord, force: boolean): boolean => {
    const { queue } = before.task;
    if (!grant.sees(queue))
      throw new DibsError(
        "FORBIDDEN",
        `The token ${show(grant.name)} may not define schedule ${show(name)}: another one has that name. Take another name.`,
      );
    if (force) grant.need(["admin"], [queue]);
    return grant.allows("admin", queue);
  };

  /** What is of no shape at all is the port's to refuse. */
  const needForAdds = (adds: unknown, placeOf: (add: Added) => unknown): void => {
    if (Array.isArray(adds))
      grant.need(
        ["add"],
        adds.map((add: Added | null) => placeOf(add ?? {})),
      );
  };

  /** A verdict is given under a claim in one queue, on what another holds. On what the token does not see, nothing comes of it. */
  const withinSight = async (word: SettleCall & { kind: "accept" | "refuse" }): Promise<SettleCall> => {
    if (grant.allowsAll("work")) return word;
    const judged = await port.task(word.of.id).catch((error: unknown) => {
      if (isMissing(error)) return undefined;
      throw error;
    });
    if (!judged) return word;
    if (!grant.allows("work", verificationQueue(judged.queue))) return { kind: "ack", result: null };
    if (word.kind === "accept") return word;
    return { ...word, of: { ...word.of, queue: judged.queue } };
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
    const said = word.kind === "accept" || word.kind === "refuse" ? await withinSight(word) : word;
    return sight.onClaim(claim, (queue) => {
      // Its backoff is that of the queue it is in, whichever the caller names.
      const held = queue === undefined ? claim : { ...claim, queue };
      return port.settle(held, said, options);
    });
  };

  /** Those that may be seen. */
  const visible = <T>(items: T[], queuesOf: (item: T) => string[]): T[] =>
    grant.allowsAll("read")
      ? items
      : items.filter((item) => queuesOf(item).some((queue) => grant.allows("read", queue)));

  return {
    clock: port.clock,
    declare: async (queue, policy, options) => {
      const wantsForce = options?.force === true;
      if (!isVerifier(grant, queue, policy)) grant.need(wantsForce ? ["admin"] : ["add", "work"], [queue]);
      const isAdmin = grant.allows("admin", queue);
      if (wantsForce && isAdmin) {
        admin("declare", queue);
        return port.declare(queue, policy, { force: true });
      }
      const told = isEmpty(policy) ? () => {} : auditOutcome({ verb: "declare", queue });
      return port.declare(queue, policy, { create: !isAdmin || options?.create === true, onOutcome: told });
    },
    pause: async (queue, paused) => {
      admin(paused ? "pause" : "resume", queue);
      return port.pause(queue, paused);
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
    subscribe: async (pattern, group, policy, options) => {
      const queue = subscriptionQueue(pattern, group);
      grant.need(["work"], [queue]);
      const create = !grant.allows("admin", queue) || options?.create === true;
      return port.subscribe(pattern, group, policy, {
        create,
        onOutcome: auditOutcome({ verb: "subscribe", queue }),
      });
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
      // What names no queue is the port's to refuse.
      if (typeof queue !== "string") return port.schedule(name, definition);
      const force = options?.force === true;
      grant.need([force ? "admin" : "add"], [queue]);
      return port.schedule(name, definition, {
        force,
        mayChange: (before) => maySchedule(name, before, force) && grant.allows("admin", queue),
        onOutcome: auditOutcome({ verb: "schedule", queue, schedule: name }),
      });
    },
    pauseSchedule: async (name, paused) => {
      let queue = "";
      const judge = (before: ScheduleRecord): boolean => {
        queue = before.task.queue;
        return adminsSchedule(before);
      };
      await port.pauseSchedule(name, paused, { mayChange: judge });
      audit({ by: grant.name, verb: paused ? "pause" : "resume", queue, schedule: name });
    },
    unschedule: async (name) => {
      let queue = "";
      const judge = (before: ScheduleRecord): boolean => {
        queue = before.task.queue;
        return adminsSchedule(before);
      };
      const removed = await port.unschedule(name, { mayChange: judge });
      if (removed) audit({ by: grant.name, verb: "unschedule", queue, schedule: name });
      return removed;
    },
    schedules: async (name) => visible(await port.schedules(name), ({ task }) => [task.queue]),
    claim: async (wish: ClaimCall) => {
      grant.need(["work"], wish.queues);
      const result = await port.claim(wish);
      if (!grant.allowsAll("work")) result.tasks.forEach((task) => sight.remember(task));
      return result;
    },
    settle:
      grant.allowsAll("add") && grant.allowsAll("work")
        ? (claim, word, options) => port.settle(claim, word, options)
        : settleWithin,
    extend: async (claim: ClaimRef, lease) => sight.onClaim(claim, () => port.extend(claim, lease)),
    progress: async (claim: ClaimRef, value, note) =>
      sight.onClaim(claim, () => port.progress(claim, value, note)),
    step: async (claim: ClaimRef, name, value) => sight.onClaim(claim, () => port.step(claim, name, value)),
    steps: async (id) => sight.onTask(["work", "read"], id, () => port.steps(id)),
    // Whoever adds tasks to a queue, or does its work, may talk to them.
    signal: async (id, name, value) => sight.onTask(["add", "work"], id, () => port.signal(id, name, value)),
    verifying: async (of) => {
      const found = await port.verifying(of);
      const places = [found.task.queue, verificationQueue(found.task.queue)];
      // Its own worker, too, may ask what became of a result.
      if (places.some((place) => grant.allows("work", place))) return found;
      if (!places.some((place) => grant.sees(place))) throw taskNotFound(found.task.id);
      grant.need(["work"], [places[1]]);
      return found;
    },
    // Its worker is handed it anyway, and has to look where it stands: to reckon a backoff, to learn what became of a word.
    task: async (id) => sight.onTask(["read", "work"], id, () => port.task(id)),
    history: async (id) => sight.onTask(["read", "work"], id, () => port.history(id)),
    cancel: async (id) =>
      sight.onTask(["admin"], id, () => {
        audit({ by: grant.name, verb: "cancel", task: id });
        return port.cancel(id);
      }),
    // Whoever added a task may learn what became of it.
    end: async (id, options) =>
      options?.of === "runs"
        ? sight.onRun(["read", "add"], id, () => port.end(id, options))
        : sight.onTask(["read", "add"], id, () => port.end(id, options)),
    // Whoever may add to its first queue, or work on a stage, may say which stages there are.
    definePipeline: async (name, stages) => {
      if (Array.isArray(stages)) needForStages(name, stages);
      return port.definePipeline(name, stages, {
        mayChange: (before) => needToDefine(name, before, stages),
        onOutcome: (outcome) =>
          auditOutcome({ verb: "define", queue: firstQueue(name, stages), pipeline: name })(outcome),
      });
    },
    pipelines: async (name) =>
      (await port.pipelines(name)).filter((pipeline) =>
        grant.sees(firstQueue(pipeline.name, pipeline.stages)),
      ),
    run: async (id, page) => sight.onRun(["read", "add"], id, () => port.run(id, page)),
    cancelRun: async (id) =>
      sight.onRun(["admin"], id, () => {
        audit({ by: grant.name, verb: "cancel", run: id });
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
      const workers = visible(await port.workers(queue), (worker) => worker.queues);
      if (grant.allowsAll("read")) return workers;
      // One that is shared serves other queues, too, which are nobody's business here.
      return workers.map((worker) => ({
        ...worker,
        queues: worker.queues.filter((each) => grant.allows("read", each)),
      }));
    },
    events: (signal) => visibleEvents(port.events(signal), grant),
    close: () => port.close(),
  };
}

/** Whoever may give verdicts on a queue's results may say that they need one, and set nothing else. */
function isVerifier(grant: Grant, queue: string, policy: NamedPolicy): boolean {
  const { verified, ...others } = policy ?? {};
  return (
    typeof queue === "string" &&
    verified === true &&
    Object.keys(others).length === 0 &&
    grant.allows("work", verificationQueue(queue))
  );
}

const isEmpty = (policy: unknown): boolean => Object.keys(policy ?? {}).length === 0;

type Added = Partial<NewTask & NewMessage>;

const queueOf = ({ queue }: Added): unknown => queue;
/** A topic stands where the queues of its subscriptions do. */
const topicOf = ({ topic }: Added): unknown =>
  `topic/${typeof topic === "string" ? topic : checkTopic(topic)}`;
/** Told apart as the engines do. */
const eitherOf = (add: Added): unknown => ("topic" in add ? topicOf(add) : queueOf(add));

function visibleEvents(
  pages: AsyncIterableIterator<EventPage>,
  grant: Grant,
): AsyncIterableIterator<EventPage> {
  return grant.allowsAll("read") ? pages : visiblePages(pages, grant);
}

/** Made once for all whose tokens have the same scopes. */
async function* visiblePages(
  pages: AsyncIterableIterator<EventPage>,
  grant: Grant,
): AsyncGenerator<EventPage, void, void> {
  for await (const page of pages) {
    const visible = page.derive(grant.scopes, () => new EventPage(page.events.filter(isVisible)));
    if (visible.events.length > 0) yield visible;
  }

  /** Workers serve several queues, so that their coming and going is told to those who may see all. */
  function isVisible(event: DibsEvent): boolean {
    return event.type === "gap" || ("queue" in event && grant.allows("read", event.queue));
  }
}
