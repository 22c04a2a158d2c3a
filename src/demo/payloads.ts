import { around, between, chance, pick } from "./random.ts";
import {
  type Delivery,
  type Email,
  type Invoice,
  MAIL_CONNECTIONS,
  type Order,
  type Prompt,
  type Question,
} from "./shop.ts";

/** What the demo's tasks contain. producer.ts adds them. */
const PEOPLE = [
  "ada",
  "grace",
  "linus",
  "margaret",
  "edsger",
  "barbara",
  "donald",
  "radia",
  "ken",
  "frances",
];
const DOMAINS = ["example.com", "mail.example.org", "shop.example.net"];
const ITEMS = ["oolong tea", "desk lamp", "notebook", "headphones", "coffee grinder", "bicycle bell"];
export const CUSTOMERS = ["acme", "globex", "initech", "umbrella", "hooli", "stark"];
export const PARTNERS = 4;

const MAILS: readonly (readonly [template: string, subject: string])[] = [
  ["order-confirmation", "Thank you for your order"],
  ["shipping-notice", "Your parcel is on its way"],
  ["password-reset", "Reset your password"],
  ["weekly-digest", "What happened this week"],
  ["review-request", "How do you like it?"],
];

/** Emails that fail, whatever the rate is: per second, and at most a share of all. */
const TROUBLES = [
  { trouble: "greylisted", perSecond: 1, atMost: 0.03 },
  { trouble: "no-mailbox", perSecond: 0.08, atMost: 0.004 },
  // Ends the process of its worker.
  { trouble: "huge", perSecond: 1 / 45, atMost: 0.002 },
] as const;

/** What one mailer can send, as a share of the rate: three of them keep up on average, and fall behind in a wave. */
const SHARE_OF_A_MAILER = 0.4;

/** @param rate emails per second: the more there are, the faster each is sent */
export function makeEmail(rate: number): Email {
  const [template, subject] = pick(MAILS);
  const to = `${pick(PEOPLE)}.${between(1, 999)}@${pick(DOMAINS)}`;
  const usual = (1_000 * MAIL_CONNECTIONS) / (SHARE_OF_A_MAILER * rate);
  const email = { to, subject, template, ms: around(Math.min(600, Math.max(2, usual))) };
  const found = TROUBLES.find(({ perSecond, atMost }) => chance(Math.min(atMost, perSecond / rate)));
  return found ? { ...email, trouble: found.trouble } : email;
}

export function makeInvoice(): Invoice {
  const lines = Array.from({ length: between(1, 4) }, () => ({
    item: pick(ITEMS),
    cents: between(300, 9_900),
  }));
  return { customer: pick(CUSTOMERS), number: `2026-${between(10_000, 99_999)}`, lines };
}

const PROMPTS = [
  "Summarise this complaint in two sentences",
  "Translate the product page into French",
  "Is this review genuine?",
  "Draft an answer to the customer",
];

export function makePrompt(): Prompt {
  // One tenant asks for more than all others together. Fair groups keep it from delaying them.
  const tenant = chance(0.6) ? "acme" : pick(CUSTOMERS);
  return { tenant, prompt: pick(PROMPTS), tokens: between(100, 900) };
}

const TOPICS = ["packaging law", "tea prices", "a competitor's lamp", "parcel carriers", "return rates"];

export function makeQuestion(): Question {
  const topic = pick(TOPICS);
  return { topic, question: `What changed about ${topic} this month?`, sources: between(2, 5) };
}

export function makeDelivery(): Delivery {
  return {
    partner: between(1, PARTNERS),
    event: pick(["stock.low", "price.changed", "order.paid"]),
    orderId: between(1_000, 9_999),
  };
}

export function makeOrder(): Order {
  return {
    id: between(1_000, 9_999),
    customer: pick(CUSTOMERS),
    item: pick(ITEMS),
    cents: between(500, 20_000),
  };
}
