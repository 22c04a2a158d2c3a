import type { Dibs } from "../api/dibs.ts";
import { Reject, Retry } from "../core/handler/control.ts";
import type { Worker } from "../worker/worker.ts";
import type { Role } from "./role.ts";
import { nap } from "./nap.ts";
import { isDown } from "./outage.ts";
import { around, chance } from "./random.ts";
import { definePipeline } from "./report.ts";
import { chores, completions, invoices, type Order, webhooks } from "./shop.ts";

/** The process with the shop's other workers: invoices and their verifier, prompts, webhooks, orders, reports, chores. */
export const runAgents: Role = (dibs) => {
  const workers = [
    ...writeInvoices(dibs),
    answerPrompts(dibs),
    deliverWebhooks(dibs),
    ...followOrders(dibs),
    doChores(dibs),
    definePipeline(dibs).work({ name: "reporter" }),
  ];
  return {
    ready: Promise.all(workers.map(({ ready }) => ready)),
    stop: async () => void (await Promise.all(workers.map((worker) => worker.stop({ timeout: "2s" })))),
  };
};

function writeInvoices(dibs: Dibs): Pick<Worker, "ready" | "stop">[] {
  const queue = dibs.queue(invoices);
  const clerk = queue.work(
    async (task) => {
      await nap(task, around(500));
      const cents = task.data.lines.reduce((sum, line) => sum + line.cents, 0);
      // A careless clerk, who is careful once the verifier has complained.
      const isWrong = task.feedback === undefined && chance(0.15);
      return { number: task.data.number, cents: isWrong ? cents + 100 : cents };
    },
    { name: "clerk", concurrency: 3 },
  );
  const auditor = queue.verify(async (task, { cents }) => {
    const expected = task.data.lines.reduce((sum, line) => sum + line.cents, 0);
    return cents === expected || { refuse: `The lines add up to ${expected} cents, not to ${cents}.` };
  });
  return [clerk, auditor];
}

function answerPrompts(dibs: Dibs): Worker {
  return dibs.queue(completions).work(
    async (task) => {
      await nap(task, around(700));
      if (chance(0.01)) throw new Retry("429: too many requests", { delay: "3s", key: true });
      if (chance(0.01)) throw new Reject("The prompt violates the content policy");
      return { text: `${task.data.prompt}: done.`, tokens: task.data.tokens };
    },
    { name: "model-gateway", concurrency: 6 },
  );
}

function deliverWebhooks(dibs: Dibs): Worker {
  return dibs.queue(webhooks).work(
    async (task) => {
      const { partner, orderId } = task.data;
      await nap(task, around(200));
      if (isDown(partner)) throw new Error(OUTAGES[partner % OUTAGES.length]!(partner, orderId));
      return { status: 200 };
    },
    { name: "courier", concurrency: 4 },
  );
}

const OUTAGES: readonly ((partner: number, orderId: number) => string)[] = [
  (partner) => `connect ETIMEDOUT 203.0.113.${partner}:443`,
  (partner, orderId) => `HTTP 503 from partner-${partner}.example for order ${orderId}`,
  (partner) => `The certificate of partner-${partner}.example has expired`,
];

function followOrders(dibs: Dibs): Worker[] {
  const retention = { age: "15m", count: 5_000 } as const;
  const follow = (pattern: string, group: string, ms: number): Worker =>
    dibs.subscribe<Order>(
      pattern,
      group,
      async (task) => {
        await nap(task, around(ms));
      },
      { name: group, concurrency: 2, retention },
    );
  return [
    follow("order.placed", "inventory", 300),
    follow("order.*", "customer-news", 400),
    follow("#", "audit-log", 100),
  ];
}

function doChores(dibs: Dibs): Worker {
  return dibs.queue(chores).work(
    async (task) => {
      await nap(task, around(900));
      return `${task.data.chore} done`;
    },
    { name: "janitor" },
  );
}
