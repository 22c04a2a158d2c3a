import { describe, expect } from "vitest";
import type { AddedTaskHandle, AttemptInfo, QueuePolicyOptions } from "../../src/index.ts";
import { freshDatabase } from "../postgres/shared.ts";
import { actsOf, type Stage, test } from "./harness/stage.ts";

const POLICY = {
  lease: "500ms",
  elsewhere: 0,
  backoff: { type: "fixed", delay: 0, jitter: 0 },
  maxAttempts: 20,
} as const satisfies QueuePolicyOptions;
const KEYS = ["a", "b", "c", "d", "e"];

describe.each(["a file", "PostgreSQL"])("limits on %s with workers that are killed", (store) => {
  test("concurrency limits of a queue and of each group are never exceeded by several processes", async ({
    stage,
  }) => {
    if (store === "PostgreSQL") stage.file = await freshDatabase((undo) => stage.onEnd(undo));
    const policy = { ...POLICY, maxConcurrency: 4, groups: { concurrency: 2 } };
    const tasks = await workAndKill(stage, policy);
    const claims = (await Promise.all(tasks.map(claimsOf))).flat();
    expect(mostAtOnce(claims)).toBe(4);
    for (const key of KEYS)
      expect(mostAtOnce(claims.filter((claim) => claim.key === key))).toBeLessThanOrEqual(2);
    expect(claims.filter(({ outcome }) => outcome === "lost").length).toBeGreaterThan(0);
  });

  test("the rate limit is never exceeded by several processes", async ({ stage }) => {
    if (store === "PostgreSQL") stage.file = await freshDatabase((undo) => stage.onEnd(undo));
    const policy = {
      ...POLICY,
      rateLimit: { max: 12, per: "400ms" },
      groups: { concurrency: 9, rateLimit: { max: 3, per: "400ms" } },
    } as const;
    const tasks = await workAndKill(stage, policy);
    const claims = (await Promise.all(tasks.map(claimsOf))).flat();
    expect(mostOf(claims, ({ startedAt }) => `${Math.floor(startedAt / 400)}`)).toBeLessThanOrEqual(12);
    expect(
      mostOf(claims, ({ startedAt, key }) => `${key} ${Math.floor(startedAt / 400)}`),
    ).toBeLessThanOrEqual(3);
  });
});

/** Tasks by three processes, of which two are killed. A process may start late, so there are tasks until then. */
async function workAndKill(stage: Stage, policy: QueuePolicyOptions): Promise<AddedTaskHandle[]> {
  const dibs = await stage.open();
  const queue = actsOf(dibs, policy);
  const workers = await Promise.all(
    Array.from({ length: 3 }, (_, i) =>
      stage.startWorker({ policy, work: { name: `w${i}`, concurrency: 5 } }),
    ),
  );
  const victims = workers.slice(1);
  const alive = new Set(victims);
  const finishTasks = async (): Promise<AddedTaskHandle[]> => {
    const all: AddedTaskHandle[] = [];
    do {
      const tasks = await queue.addMany(
        Array.from({ length: 60 }, (_, i) => ({
          data: { do: "sleep" as const, ms: 30 },
          groupKey: KEYS[i % KEYS.length]!,
        })),
      );
      await Promise.all(tasks.map((task) => task.result({ timeout: "50s" })));
      all.push(...tasks);
    } while (alive.size > 0);
    return all;
  };
  const killVictims = async (): Promise<void> => {
    for (const victim of victims) {
      await victim.hearsTimes("start", 3);
      await victim.kill();
      alive.delete(victim);
    }
  };
  const [tasks] = await Promise.all([finishTasks(), killVictims()]);
  return tasks;
}

interface Held {
  key: string;
  startedAt: number;
  endedAt: number;
  outcome: AttemptInfo["outcome"];
}

async function claimsOf(task: AddedTaskHandle): Promise<Held[]> {
  const [{ groupKey }, ledger] = await Promise.all([task.info(), task.history()]);
  return ledger.map(({ startedAt, endedAt, outcome }) => ({
    key: groupKey!,
    startedAt: startedAt.getTime(),
    endedAt: endedAt.getTime(),
    outcome,
  }));
}

/** By the ledger, in which a lost claim lasts until it was noticed. */
function mostAtOnce(claims: readonly Held[]): number {
  return Math.max(
    ...claims.map(
      ({ startedAt: at }) => claims.filter((other) => other.startedAt <= at && at < other.endedAt).length,
    ),
  );
}

function mostOf(claims: readonly Held[], spanOf: (claim: Held) => string): number {
  return Math.max(...[...Map.groupBy(claims, spanOf).values()].map((span) => span.length));
}
