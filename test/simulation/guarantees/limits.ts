import type { QueuePolicy } from "../../../src/core/queue/policy.ts";
import type { ClaimedTask } from "../../../src/core/task/task.ts";
import type { Op, Outcome, Verbs } from "../../../src/engine/engine.ts";
import { answer } from "../known.ts";
import { check } from "./violation.ts";

type Ask = (ops: Op[]) => Outcome[];

/** What is known about a queue's limits. */
interface Limited {
  policy: QueuePolicy;
  /** How many were running when the limit was lowered. */
  running: number;
  /** The same for its groups. */
  groups: Map<string, number>;
  /** Starts since the limits were set: by limit, group and span. */
  starts: Map<string, number>;
  /** The span of each limit in which it was set: starts before that are not known. */
  since: number;
}

/** Never more tasks at once than allowed, and never more starts in a span than allowed. Computed independently. */
export class LimitJudge {
  readonly #queues = new Map<string, Limited>();

  judge(ops: readonly Op[], outcomes: readonly Outcome[], now: number, ask: Ask): void {
    for (const [index, op] of ops.entries()) this.#listen(op, outcomes[index]!, now, ask);
    for (const [queue, limited] of this.#queues) this.#look(queue, limited, ask);
  }

  #listen(op: Op, outcome: Outcome, now: number, ask: Ask): void {
    if ("refused" in outcome) return;
    if (op.verb === "drop") this.#queues.delete(op.queue);
    if (op.verb === "declare") this.#learn(op.queue, answer<"declare">(outcome), now, ask);
    if (op.verb !== "claim") return;
    for (const task of answer<"claim">(outcome).tasks) this.#count(task, now);
  }

  #learn(queue: string, { policy, outcome }: Verbs["declare"]["out"], now: number, ask: Ask): void {
    const known = this.#queues.get(queue);
    if (known && outcome === "unchanged") return;
    const claimed = claimedOf(queue, ask);
    this.#queues.set(queue, {
      policy,
      running: Math.max(claimed.length, known?.running ?? 0),
      groups: countByGroup(claimed),
      starts: new Map(),
      since: now,
    });
  }

  #count({ id, queue, groupKey }: ClaimedTask, now: number): void {
    const limited = this.#queues.get(queue);
    if (!limited) return;
    const { rateLimit, groups } = limited.policy;
    const limits = [
      ...rateLimit.map((limit, i) => ({ limit, name: `${i}` })),
      ...(groupKey === null
        ? []
        : groups.rateLimit.map((limit, i) => ({ limit, name: `${i} of ${groupKey}` }))),
    ];
    for (const { limit, name } of limits) {
      // For tasks whose real cost differs, only the engine knows the count.
      if (limit.unit !== null || limit.pace) continue;
      const span = Math.floor(now / limit.per);
      if (span === Math.floor(limited.since / limit.per)) continue;
      const key = `${name} ${span}`;
      const count = (limited.starts.get(key) ?? 0) + 1;
      limited.starts.set(key, count);
      check(
        count <= limit.max,
        `${id} is start ${count} of at most ${limit.max} in ${limit.per} ms (${key})`,
      );
    }
  }

  #look(queue: string, limited: Limited, ask: Ask): void {
    const { policy, running } = limited;
    const claimed = claimedOf(queue, ask);
    const most = policy.maxConcurrency === null ? Number.POSITIVE_INFINITY : policy.maxConcurrency;
    check(
      claimed.length <= Math.max(most, running),
      `${claimed.length} of ${queue} are claimed, and ${most} may be`,
    );
    const { concurrency } = policy.groups;
    const byGroup = countByGroup(claimed);
    for (const [key, count] of byGroup) {
      const before = limited.groups.get(key) ?? 0;
      check(
        count <= Math.max(concurrency, before),
        `${count} of the group ${key} are claimed, and ${concurrency} may be`,
      );
    }
    // While there are too many, the end of a task makes no room.
    limited.groups = byGroup;
  }
}

function countByGroup(claimed: Verbs["list"]["out"]["tasks"]): Map<string, number> {
  const groups = new Map<string, number>();
  for (const { groupKey } of claimed)
    if (groupKey !== null) groups.set(groupKey, (groups.get(groupKey) ?? 0) + 1);
  return groups;
}

function claimedOf(queue: string, ask: Ask): Verbs["list"]["out"]["tasks"] {
  const [claimed] = ask([{ verb: "list", queue, state: "claimed", limit: 100_000 }]);
  return answer<"list">(claimed!).tasks;
}
