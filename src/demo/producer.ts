import { setTimeout as sleep } from "node:timers/promises";
import type { Dibs } from "../api/dibs.ts";
import { DibsError } from "../core/errors/errors.ts";
import type { Role, Settings } from "./role.ts";
import { makeDelivery, makeEmail, makeInvoice, makeOrder, makePrompt, makeQuestion } from "./payloads.ts";
import { arrivals, between, chance, pick } from "./random.ts";
import { definePipeline } from "./report.ts";
import { completions, emails, exports, invoices, ORDER_TOPICS, research, webhooks } from "./shop.ts";

/** The process that adds work: emails at the rate that was asked for, the rest of the shop at its own pace. */
const EMAIL_TICK_MS = 100;
const SHOP_TICK_MS = 500;
/** From one wave of emails to the next. */
const TIDE_MS = 24_000;
/** After a pause (a full queue, a server that restarts), this much is made up for. */
const MOST_DEBT_MS = 1_000;
/** One call must stay below the size of a frame. */
const MOST_PER_CALL = 1_000;

export const produce: Role = (dibs, { settings, signal }) => {
  const loops = [
    repeat(EMAIL_TICK_MS, signal, (elapsed) => addEmails(dibs, settings(), elapsed)),
    repeat(SHOP_TICK_MS, signal, (elapsed) => addOther(dibs, elapsed)),
  ];
  return { stop: async () => void (await Promise.all(loops)) };
};

/** Calls `tick` with the seconds since its last call. A tick that takes long delays the next one. */
async function repeat(
  everyMs: number,
  signal: AbortSignal,
  tick: (elapsed: number) => Promise<void>,
): Promise<void> {
  let last = performance.now();
  while (!signal.aborted) {
    await sleep(everyMs, undefined, { signal }).catch(() => {});
    const now = performance.now();
    const elapsed = Math.min(now - last, MOST_DEBT_MS) / 1_000;
    last = now;
    if (!signal.aborted) await tick(elapsed).catch(ignorePassing);
  }
}

/** A full queue, or a server that is away for a moment: the next tick tries again. */
function ignorePassing(error: unknown): void {
  if (error instanceof DibsError && (error.retryable || error.code === "QUEUE_FULL")) return;
  throw error;
}

async function addEmails(dibs: Dibs, { rate }: Settings, elapsed: number): Promise<void> {
  for (let left = arrivals(rate * tide() * elapsed); left > 0; left -= MOST_PER_CALL) {
    await dibs.queue(emails).addMany(
      Array.from({ length: Math.min(left, MOST_PER_CALL) }, () => ({
        data: makeEmail(rate),
        ...(chance(0.1) && { priority: 5 }),
        ...(chance(0.05) && { delay: between(2_000, 20_000) }),
      })),
    );
  }
}

async function addOther(dibs: Dibs, elapsed: number): Promise<void> {
  const adds: Promise<unknown>[] = [];
  const many = (perSecond: number, add: () => Promise<unknown>): void => {
    for (let count = arrivals(perSecond * elapsed); count > 0; count--) adds.push(add());
  };
  many(0.6, () => {
    const data = makeInvoice();
    return dibs.queue(invoices).add(data, { groupKey: data.customer, idempotencyKey: data.number });
  });
  many(wave(60, 20) ? 6 : 1.5, () => {
    const data = makePrompt();
    return dibs.queue(completions).add(data, { groupKey: data.tenant, cost: data.tokens });
  });
  many(wave(100, 35) ? 1.2 : 0.05, () => dibs.queue(research).add(makeQuestion()));
  many(1, () => dibs.queue(webhooks).add(makeDelivery()));
  many(1, () => dibs.topic(pick(ORDER_TOPICS)).publish(makeOrder()));
  many(0.12, () => dibs.queue(exports).add({ table: pick(["orders", "customers", "stock"]) }));
  many(0.12, () => definePipeline(dibs).add({ title: `Week ${between(1, 52)}`, sections: between(2, 5) }));
  const outcomes = await Promise.allSettled(adds);
  for (const outcome of outcomes) if (outcome.status === "rejected") ignorePassing(outcome.reason);
}

/** Emails come in waves, 0.6 to 1.4 times the rate, so that the line grows and is worked off again. */
function tide(): number {
  return 1 + 0.4 * Math.sin((2 * Math.PI * Date.now()) / TIDE_MS);
}

/** True for `busy` of every `period` seconds: a square wave. */
function wave(period: number, busy: number): boolean {
  return (Date.now() / 1_000) % period < busy;
}
