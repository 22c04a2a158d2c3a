import { decodeSpawned, type NewChild } from "../core/handler/children.ts";
import { DibsError } from "../core/errors/errors.ts";
import type { DeclareOutcome, NamedPolicy } from "../core/queue/policy.ts";
import type { ClaimCall, SettleCall } from "../core/task/claim-call.ts";
import type { ListQuery, Paged, PageQuery } from "../core/answer/page.ts";
import type { Port } from "../core/port.ts";
import { show } from "../core/errors/show.ts";
import type { ClaimRef, NewMessage, NewTask, WorkerInfo } from "../core/task/task.ts";
import { type Stage, stageQueue } from "../core/run/run.ts";
import { taskNotFound } from "../core/errors/task-not-found.ts";
import { checkTopic, subscriptionQueue } from "../core/topic/topic.ts";
import { verificationQueue } from "../core/handler/verification.ts";
import type { AuditEntry } from "../dashboard/contract.ts";
import { guardSchedules } from "./guard-schedules.ts";
import { guardSupervision } from "./guard-supervision.ts";
import type { Grant, Kind } from "./scopes.ts";
import { firstQueue, isMissing, queuesOf, Visibility } from "./visibility.ts";
import { visibleEvents } from "./visible-events.ts";
import { visiblePage } from "./visible-page.ts";

/** An entry of the audit log, without its time. */
export type AdminAction = Omit<AuditEntry, "at">;

/**
 * The port restricted to what a grant allows. Doors give their callers only this port.
 *
 * The error FORBIDDEN is used for queues that the request itself names, and for what the token can see, so it reveals
 * nothing about the store. For tasks, claims, runs and schedules in other queues the answer is the same as if they did
 * not exist (visibility.ts). Without `admin`, a declaration creates new queues, and leaves existing ones unchanged.
 */
export function guardPort(port: Port, grant: Grant, audit: (action: AdminAction) => void): Port {
  const visibility = new Visibility(port, grant);

  /** Requires `admin` on a queue (`*`: on all queues), and logs the action. */
  const admin = (verb: string, queue: string): void => {
    grant.need(["admin"], [queue]);
    audit({ by: grant.name, verb, queue });
  };

  /** Logs declarations that created or changed something, and those that were refused. */
  const auditOutcome =
    (action: Omit<AdminAction, "by">) =>
    (outcome: DeclareOutcome): void => {
      // Without tokens, a program that creates its own queues is not worth an entry.
      if (outcome === "unchanged" || (outcome === "created" && !grant.isToken)) return;
      audit({ by: grant.name, ...action, ...(outcome === "refused" && { refused: true }) });
    };

  /** Requires `add` on all stages of added runs: in the end, a run adds to all of these queues. */
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

  /**
   * Refuses a definition early if the token has no scope for it: `work` on one of the stages, or `add` on the first one.
   * `needToDefine` decides once the stored definition is known.
   */
  const needForStages = (name: string, stages: Stage[]): void => {
    const queues = queuesOf(name, stages);
    if (!queues.some((queue) => grant.allows("work", queue))) grant.need(["add"], queues.slice(0, 1));
  };

  /**
   * Creating a pipeline needs a scope on each stage, because its input goes to them. Changing one needs `admin` on all
   * stages, old and new.
   */
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
      `The token ${show(grant.name)} may not define pipeline ${show(name)} like this: creating one needs add or work on each of its stages, ` +
        `changing one needs admin. Nothing was changed. Ask the operator of the server.`,
    );
  };

  /** Requires `add` on the target of each task. The port refuses values of the wrong shape. */
  const needForAdds = (adds: unknown, targetOf: (add: Added) => unknown): void => {
    if (Array.isArray(adds))
      grant.need(
        ["add"],
        adds.map((add: Added | null) => targetOf(add ?? {})),
      );
  };

  /**
   * A verdict is given with a claim in one queue, about a task in another. If the token may not judge that task, this
   * returns a plain ack, so the verdict has no effect.
   */
  const asVisible = async (call: SettleCall & { kind: "accept" | "refuse" }): Promise<SettleCall> => {
    if (grant.allowsAll("work")) return call;
    const verified = await port.task(call.of.id).catch((error: unknown) => {
      if (isMissing(error)) return undefined;
      throw error;
    });
    if (!verified) return call;
    if (!grant.allows("work", verificationQueue(verified.queue))) return { kind: "ack", result: null };
    if (call.kind === "accept") return call;
    return { ...call, of: { ...call.of, queue: verified.queue } };
  };

  const guardedAdd: Port["add"] = async (tasks, options) => {
    needForAdds(tasks, queueOf);
    needForRuns(tasks);
    return port.add(tasks, options);
  };

  const guardedSettle: Port["settle"] = async (claim, call, options) => {
    if (call.kind === "ack") {
      needForAdds(call.adds, queueOrTopicOf);
      needForRuns(call.adds);
    }
    const guarded = call.kind === "accept" || call.kind === "refuse" ? await asVisible(call) : call;
    return visibility.onClaim(claim, (queue) => {
      // The backoff is that of the task's own queue, not of the one that the caller names.
      const held = queue === undefined ? claim : { ...claim, queue };
      return port.settle(held, guarded, options);
    });
  };

  const reads = (queues: string[]): boolean => queues.some((queue) => grant.allows("read", queue));

  /** A page of the items that the token may see: those of queues that it may read. */
  const visible = <Item, Query extends PageQuery>(
    query: Query | undefined,
    read: (query: Query | undefined) => Promise<Paged<Item>>,
    queuesOf: (item: Item) => string[],
  ): Promise<Paged<Item>> =>
    grant.allowsAll("read") ? read(query) : visiblePage(query, read, (item) => reads(queuesOf(item)));

  return {
    clock: port.clock,
    declare: async (queue, policy, options) => {
      const wantsForce = options?.force === true;
      if (!isVerifier(grant, queue, policy)) grant.need(wantsForce ? ["admin"] : ["add", "work"], [queue]);
      needContinuation(grant, policy);
      const isAdmin = grant.allows("admin", queue);
      if (wantsForce && isAdmin) {
        admin("declare", queue);
        return port.declare(queue, policy, { force: true });
      }
      const onOutcome = isEmpty(policy) ? () => {} : auditOutcome({ verb: "declare", queue });
      return port.declare(queue, policy, { create: !isAdmin || options?.create === true, onOutcome });
    },
    pause: async (queue, paused) => {
      admin(paused ? "pause" : "resume", queue);
      return port.pause(queue, paused);
    },
    unhold: async (queue, groupKey) => {
      admin("unhold", queue);
      return port.unhold(queue, groupKey);
    },
    queues: async (query) => {
      if (query?.queue !== undefined) grant.need(["read"], [query.queue]);
      return visible(
        query,
        (page) => port.queues(page),
        ({ name }) => [name],
      );
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
    add: grant.allowsAll("add") ? (tasks, options) => port.add(tasks, options) : guardedAdd,
    subscribe: async (pattern, group, policy, options) => {
      const queue = subscriptionQueue(pattern, group);
      grant.need(["work"], [queue]);
      needContinuation(grant, policy);
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
    subscriptions: async (query) =>
      visible(
        query,
        (page) => port.subscriptions(page),
        ({ queue }) => [queue],
      ),
    publish: async (message, options) => {
      needForAdds([message], topicOf);
      return port.publish(message, options);
    },
    ...guardSchedules(port, grant, { audit, auditOutcome }),
    schedules: async (query) =>
      visible(
        query,
        (page) => port.schedules(page),
        ({ task }) => [task.queue],
      ),
    ...guardSupervision(port, grant),
    claim: async (call: ClaimCall) => {
      grant.need(["work"], call.queues);
      const result = await port.claim(call);
      if (!grant.allowsAll("work")) result.tasks.forEach((task) => visibility.remember(task));
      return result;
    },
    settle:
      grant.allowsAll("add") && grant.allowsAll("work")
        ? (claim, call, options) => port.settle(claim, call, options)
        : guardedSettle,
    extend: async (claim: ClaimRef, lease) => visibility.onClaim(claim, () => port.extend(claim, lease)),
    progress: async (claim: ClaimRef, ...report) =>
      visibility.onClaim(claim, () => port.progress(claim, ...report)),
    step: async (claim: ClaimRef, name, value) =>
      visibility.onClaim(claim, () => port.step(claim, name, value)),
    spawn: async (claim: ClaimRef, children) => {
      if (Array.isArray(children)) needForAdds(children.map(taskOf), queueOf);
      return visibility.onClaim(claim, () => port.spawn(claim, children));
    },
    // What a token may not see of a task's relatives is left out.
    children: async (id, query) =>
      visibility.onTask(["work", "read"], id, async () => {
        const page = await port.children(id, query);
        // A token that may add a task may learn its outcome.
        const shows = (queue: string): boolean =>
          query?.ends ? grant.allows("read", queue) || grant.allows("add", queue) : grant.sees(queue);
        return { ...page, children: page.children.filter(({ queue }) => shows(queue)) };
      }),
    steps: async (id) =>
      visibility.onTask(["work", "read"], id, async () => {
        const steps = await port.steps(id);
        return steps.filter(({ kind, value }) => kind !== "child" || grant.sees(decodeSpawned(value).queue));
      }),
    // A token that adds to a queue, or works on it, may send signals to its tasks.
    signal: async (id, name, value, options) =>
      options?.of === "runs"
        ? visibility.onRun(["add", "work"], id, () => port.signal(id, name, value, options))
        : visibility.onTask(["add", "work"], id, () => port.signal(id, name, value)),
    verifying: async (of) => {
      const found = await port.verifying(of);
      const queues = [found.task.queue, verificationQueue(found.task.queue)];
      // The worker of the task may read it too, to learn the outcome of its result.
      if (queues.some((queue) => grant.allows("work", queue))) return found;
      if (!queues.some((queue) => grant.sees(queue))) throw taskNotFound(found.task.id);
      grant.need(["work"], [queues[1]]);
      return found;
    },
    // `work` is enough: a worker reads the task to compute a backoff, or to learn the outcome of a settlement.
    task: async (id) =>
      visibility.onTask(["read", "work"], id, async () => {
        const { parent, ...task } = await port.task(id);
        return { ...task, ...(parent && grant.sees(parent.queue) && { parent }) };
      }),
    history: async (id) => visibility.onTask(["read", "work"], id, () => port.history(id)),
    cancel: async (id) =>
      visibility.onTask(["admin"], id, () => {
        audit({ by: grant.name, verb: "cancel", task: id });
        return port.cancel(id);
      }),
    change: async (id, change) =>
      visibility.onTask(["admin"], id, () => {
        audit({ by: grant.name, verb: "change", task: id });
        return port.change(id, change);
      }),
    // A token that may add a task may learn its outcome.
    end: async (id, options) =>
      options?.of === "runs"
        ? visibility.onRun(["read", "add"], id, () => port.end(id, options))
        : visibility.onTask(["read", "add"], id, () => port.end(id, options)),
    definePipeline: async (name, stages) => {
      if (Array.isArray(stages)) needForStages(name, stages);
      return port.definePipeline(name, stages, {
        mayChange: (before) => needToDefine(name, before, stages),
        onOutcome: (outcome) =>
          auditOutcome({ verb: "define", queue: firstQueue(name, stages), pipeline: name })(outcome),
      });
    },
    pipelines: async (query) =>
      visiblePage(
        query,
        (page) => port.pipelines(page),
        ({ name, stages }) => grant.sees(firstQueue(name, stages)),
      ),
    run: async (id, page) => visibility.onRun(["read", "add"], id, () => port.run(id, page)),
    runs: async (query) => {
      const { items, next } = await visiblePage(
        query,
        async (page) => {
          const { runs, next: cursor } = await port.runs(page!);
          return { items: runs, next: cursor };
        },
        ({ pipeline, stages }) => reads([firstQueue(pipeline, stages)]),
      );
      return { runs: items, next };
    },
    cancelRun: async (id) =>
      visibility.onRun(["admin"], id, () => {
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
    // The door that issued a session knows its owner.
    rejoin: async (session, fences, listener) => port.rejoin(session, fences, listener),
    retire: async (session) => port.retire(session),
    leave: async (session, options) => port.leave(session, options),
    workers: async (query) => {
      if (query?.queue !== undefined) grant.need(["read"], [query.queue]);
      const page = await visible(
        query,
        (page) => port.workers(page),
        ({ queues }) => queues,
      );
      if (grant.allowsAll("read")) return page;
      // A worker may serve other queues too, which this token may not see.
      const items = page.items.map((worker) => ({
        ...worker,
        queues: worker.queues.filter((each) => grant.allows("read", each)),
      }));
      return { items, next: page.next };
    },
    // Documents do not cross the wire. Only doors reach them, and check what their clients may do.
    documents: port.documents,
    events: (signal) => visibleEvents(port.events(signal), grant),
    close: () => port.close(),
  };
}

/** A token that may give verdicts on a queue's results may declare the queue verified, and nothing else. */
function isVerifier(grant: Grant, queue: string, policy: NamedPolicy): boolean {
  const { verified, ...others } = policy ?? {};
  return (
    typeof queue === "string" &&
    verified === true &&
    Object.keys(others).length === 0 &&
    grant.allows("work", verificationQueue(queue))
  );
}

/** With `expiredTo`, expired tasks are added to another queue: the token that sets it needs `add` there. */
function needContinuation(grant: Grant, policy: NamedPolicy | undefined): void {
  const to = policy?.expiredTo;
  if (to !== undefined && to !== null) grant.need(["add"], [to]);
}

const isEmpty = (policy: unknown): boolean => Object.keys(policy ?? {}).length === 0;

type Added = Partial<NewTask & NewMessage>;

const queueOf = ({ queue }: Added): unknown => queue;
const taskOf = (child: Partial<NewChild> | null | undefined): Added => child?.task ?? {};
/** The name by which scopes cover a topic. Their patterns also cover the queues of its subscriptions. */
const topicOf = ({ topic }: Added): unknown =>
  `topic/${typeof topic === "string" ? topic : checkTopic(topic)}`;
/** Tells tasks and messages apart in the same way as the engines do. */
const queueOrTopicOf = (add: Added): unknown => ("topic" in add ? topicOf(add) : queueOf(add));
