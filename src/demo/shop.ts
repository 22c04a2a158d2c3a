import { defineQueue } from "../api/definition.ts";

/**
 * The shop of the demo: its queues with their policies, and what their tasks contain. Every process of the demo
 * declares the same, so none of them has to start first.
 */
export interface Email {
  to: string;
  subject: string;
  template: string;
  /** How long the mail server takes. */
  ms: number;
  /** What goes wrong with it; most have nothing. */
  trouble?: "greylisted" | "no-mailbox" | "huge";
}

export interface Invoice {
  customer: string;
  number: string;
  lines: { item: string; cents: number }[];
}

export interface Prompt {
  tenant: string;
  prompt: string;
  tokens: number;
}

export interface Question {
  topic: string;
  question: string;
  sources: number;
}

export interface Delivery {
  partner: number;
  event: string;
  orderId: number;
}

export interface Order {
  id: number;
  customer: string;
  item: string;
  cents: number;
}

/** The demo may run for days, so what has ended is removed soon. */
const retention = { age: "15m", count: 5_000 } as const;

export const emails = defineQueue<Email, { sent: true; ms: number }>("emails", {
  ...{ maxAttempts: 4, backoff: { type: "exponential", delay: "1s", max: "10s" }, retention },
  // At the highest rate and without workers, the store would grow by a gigabyte in half an hour.
  maxDepth: 100_000,
});

/** Emails that a mailer sends at once. */
export const MAIL_CONNECTIONS = 4;

/** Its pool grows and shrinks, because questions arrive in waves. */
export const research = defineQueue<Question, { answer: string; pages: number }>("research", {
  ...{ maxAttempts: 3, timeout: "2m", retention },
});

/** Verified: an invoice whose total is wrong is refused. The invoices of a customer are written in order. */
export const invoices = defineQueue<Invoice, { number: string; cents: number }>("invoices", {
  ...{ verified: true, maxAttempts: 5, backoff: { type: "fixed", delay: "1s" }, retention },
});

/** Limited as a provider of language models limits it, and fair between tenants. */
export const completions = defineQueue<Prompt, { text: string; tokens: number }>("completions", {
  maxConcurrency: 4,
  rateLimit: [
    { max: 4, per: "1s" },
    { max: 18_000, per: "10s", unit: "tokens" },
  ],
  groups: { concurrency: 2, fair: true },
  retention,
});

/** Fails while a partner is down, so that dead letters come in waves and can be redriven. */
export const webhooks = defineQueue<Delivery, { status: number }>("webhooks", {
  ...{ maxAttempts: 3, backoff: { type: "exponential", delay: "1s", max: "5s" }, retention },
});

/** Batches: a pool in cost mode starts its worker when enough tasks wait. */
export const exports = defineQueue<{ table: string }, { rows: number }>("exports", { retention });

/** Filled by schedules. */
export const chores = defineQueue<{ chore: string }, string>("chores", { retention });

export const ALL_QUEUES = [emails, research, invoices, completions, webhooks, exports, chores];

export const ORDER_TOPICS = ["order.placed", "order.shipped", "order.returned"] as const;
export const REPORT = "report";
export const APPROVAL = "approval";
