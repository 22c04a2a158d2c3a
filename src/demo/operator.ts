import { setTimeout as sleep } from "node:timers/promises";
import type { Dibs } from "../api/dibs.ts";
import { commandOf, type Role } from "./role.ts";
import { chance, pick } from "./random.ts";
import { definePipeline } from "./report.ts";
import { APPROVAL, chores, completions, emails, exports, research, webhooks } from "./shop.ts";

/** The process that operates the shop: schedules, pools, alerts, approvals, and a look at the dead letters. */
export const operate: Role = (dibs, { signal }) => {
  const schedules = defineSchedules(dibs);
  const pools = startPools(dibs);
  watch(dibs);
  const looping = approveAndRedrive(dibs, signal);
  return {
    ready: Promise.all([...schedules, ...pools].map(({ ready }) => ready)),
    async stop() {
      await looping;
      // They would add work for ever, and no worker is left for it.
      await Promise.all(schedules.map((schedule) => schedule.delete()));
      await Promise.all(pools.map((pool) => pool.stop()));
    },
  };
};

function defineSchedules(dibs: Dibs) {
  const chore = (name: string, seconds: number) =>
    dibs.schedule(name, { every: seconds * 1_000 }, { queue: chores, data: { chore: name } });
  return [
    chore("refresh-prices", 10),
    chore("rotate-logs", 25),
    chore("check-stock", 40),
    dibs.schedule(
      "nightly-accounts",
      { cron: "0 3 * * *", tz: "Europe/London" },
      { queue: chores, data: { chore: "nightly-accounts" } },
    ),
  ];
}

function startPools(dibs: Dibs) {
  const common = { output: "ignore", stopTimeout: "3s", interval: "2s" } as const;
  return [
    dibs.pool({
      ...{ ...common, name: "researchers", queues: [research.name], command: commandOf("researcher") },
      ...{ min: 0, max: 4, targetWait: "5s", upCooldown: "4s", downCooldown: "20s" },
    }),
    dibs.pool({
      ...{ ...common, name: "exporters", queues: [exports.name], command: commandOf("exporter") },
      ...{ mode: "cost", min: 0, max: 1, batch: 6, maxAge: "1m" },
    }),
  ];
}

function watch(dibs: Dibs): void {
  dibs.alerts({
    every: "5s",
    rules: [
      { queue: emails.name, when: "oldestAge", above: "15s" },
      { queue: emails.name, when: "depth", above: 2_000 },
      { queue: research.name, when: "depth", above: 8 },
      { queue: completions.name, when: "depth", above: 30 },
      { queue: webhooks.name, when: "failureRate", above: 0.2, for: "5s" },
      { queue: webhooks.name, when: "deadLetters", above: 5 },
      { queue: webhooks.name, when: "newFailure" },
      { queue: exports.name, when: "noWorkers", for: "20s" },
    ],
  });
}

const LOOK_MS = 4_000;
/** Above this, the dead letters of a queue are redriven or discarded. */
const MOST_DEAD = 30;

async function approveAndRedrive(dibs: Dibs, signal: AbortSignal): Promise<void> {
  const approvals = definePipeline(dibs).queue("approve");
  while (!signal.aborted) {
    await sleep(LOOK_MS, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    try {
      const { tasks } = await approvals.tasks({ state: "parked", limit: 20 });
      for (const { id } of tasks)
        if (chance(0.3)) await dibs.task(id).signal(APPROVAL, { by: pick(["mara", "jonas"]) });
      await emptyDeadLetters(dibs);
    } catch {
      // The server is away for a moment. The next round tries again.
    }
  }
}

async function emptyDeadLetters(dibs: Dibs): Promise<void> {
  for (const queue of [webhooks.name, emails.name, completions.name]) {
    const { dead } = dibs.queue(queue);
    const { tasks } = await dead.list({ limit: MOST_DEAD + 1 });
    if (tasks.length <= MOST_DEAD) continue;
    const [pattern] = await dead.patterns();
    // Partners come back, so deliveries are worth another attempt. The other failures are final.
    if (queue !== webhooks.name) await dead.discard({ ids: tasks.slice(0, 10).map(({ id }) => id) });
    else if (pattern) await dead.redrive({ pattern: pattern.pattern, rate: { max: 2, per: "1s" } });
  }
}
