// A user's types, checked against those of the published package. Never run.

import { open } from "dibs";
import { dashboard, type DashboardHandler } from "dibs/dashboard";
import * as testing from "dibs/testing";

interface Email {
  to: string;
}
interface Receipt {
  sent: boolean;
}

await using dibs = await open("work.db");
const emails = dibs.queue<Email, Receipt>("emails", {
  lease: "30s",
  maxAttempts: 5,
  backoff: { type: "exponential", delay: "1s", max: "10m", jitter: 0.2 },
});

const task = await emails.add({ to: "ada@example.com" }, { priority: 5, delay: 10_000, groupKey: "ada" });
const receipt: Receipt = await task.result({ timeout: "1m" });

const worker = emails.work(
  async (held) => {
    const to: string = held.data.to;
    const attempt: number = held.attempt;
    const signal: AbortSignal = held.signal;
    return { sent: to !== "" && attempt > 0 && !signal.aborted };
  },
  { concurrency: 10, name: "mailer-1" },
);
await worker.ready;
await worker.stop({ timeout: "30s" });

const [claim] = await emails.claim({ max: 1, lease: "30s" });
await claim?.ack({ sent: receipt.sent });

const placed = dibs.topic<{ id: number }>("order.placed");
placed.subscribe("inventory", ({ data }) => data.id, { concurrency: 3, maxDepth: 100 });
const reached: number = (await placed.publish({ id: 1 })).reached;
dibs.subscribe("order.*", "audit", (held) => `${held.topic} ${reached}`);

emails.work(async (held) => {
  await held.add(emails, { to: "grace@example.com" }, { delay: "1m" });
  // @ts-expect-error: an email has no such field
  await held.add(emails, { too: "grace@example.com" });
  await held.publish(placed, { id: 2 });
  // @ts-expect-error: an order has no such field
  await held.publish(placed, { number: 2 });
  return { sent: true };
});

dibs.work([emails, "other"], () => 1);
// @ts-expect-error: a topic is not a queue
dibs.work([placed], () => 1);
// @ts-expect-error: not for users
void dibs.port;
// @ts-expect-error: an order has no such field
await placed.publish({ number: 1 });
// @ts-expect-error: an email has no such field
await emails.add({ too: "ada@example.com" });
// @ts-expect-error: not a duration
dibs.queue("other", { lease: "soon" });
// @ts-expect-error: a receipt says whether it was sent
emails.work(async () => ({ delivered: true }));

const handler: DashboardHandler = dashboard(dibs, { authorize: () => ({ name: "ada", readOnly: true }) });
// @ts-expect-error: who may see it must be said
dashboard(dibs, {});
await handler.close();

export { testing };
