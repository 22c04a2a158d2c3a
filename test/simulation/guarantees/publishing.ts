import { isDeepStrictEqual } from "node:util";
import type { Addition, NewMessage, NewTask } from "../../../src/core/task/task.ts";
import type { Op, Outcome } from "../../../src/engine/engine.ts";
import { answer } from "../known.ts";
import { checkAdded, refusalOfAdds } from "./adding.ts";
import type { Books, SubscriptionBook } from "./books.ts";
import { expectedPage } from "./paging.ts";
import type { Turn } from "./turn.ts";
import { check } from "./violation.ts";

/** To all groups or to none: every group that the topic reaches gets one copy, and no other queue gets one. */
export function checkPublish(turn: Turn, op: Op<"publish">, outcome: Outcome<"publish">): void {
  const tasks = copies(turn.books, op.message);
  const expected = refusalOfAdds(turn, tasks);
  const refusal = "refused" in outcome ? outcome.refused.code : undefined;
  check(refusal === expected, `publish was refused with ${refusal}; it should be with ${expected}`);
  if ("refused" in outcome) return;
  const queues = outcome.ok.map(({ queue }) => queue);
  check(new Set(queues).size === queues.length, () => `publish gave a queue two: ${queues.join()}`);
  check(
    outcome.ok.length === tasks.length,
    () => `publish reached ${outcome.ok.length}, not ${tasks.length}`,
  );
  checkAdded(turn, tasks, outcome.ok);
}

/** The tasks that messages must become, computed independently. */
export function expectedAdds(books: Books, additions: readonly Addition[]): NewTask[] {
  return additions.flatMap((addition) => ("topic" in addition ? copies(books, addition) : [addition]));
}

function copies(books: Books, { topic, ...content }: NewMessage): NewTask[] {
  const queues = new Set(reachedBy(books, topic).map(({ queue }) => queue));
  const headers = { ...content.headers, "dibs-topic": topic };
  return [...queues].map((queue) => ({ ...content, queue, headers }));
}

function reachedBy(books: Books, topic: string): SubscriptionBook[] {
  return books.subscriptions.filter(({ pattern }) => expression(pattern).test(`.${topic}`));
}

/** Defines patterns in another way than the stores do. */
function expression(pattern: string): RegExp {
  const parts = pattern.split(".").map((word) => {
    if (word === "#") return "(\\.[^.]+)*";
    return word === "*" ? "\\.[^.]+" : `\\.${word}`;
  });
  return new RegExp(`^${parts.join("")}$`);
}

export function checkSubscribe(turn: Turn, op: Op<"subscribe">, outcome: Outcome<"subscribe">): void {
  const { books } = turn;
  const { pattern, group, queue } = op;
  const known = books.subscriptions.some((one) => one.pattern === pattern && one.group === group);
  check(answer<"subscribe">(outcome).created === !known, `subscribe answered ${JSON.stringify(outcome)}`);
  if (known) return;
  books.queue(queue);
  books.subscriptions.push({ id: ++books.subscribed, pattern, group, queue, createdAt: books.now });
}

export function checkUnsubscribe(turn: Turn, op: Op<"unsubscribe">, outcome: Outcome<"unsubscribe">): void {
  const { books } = turn;
  const left = books.subscriptions.filter((one) => one.pattern !== op.pattern || one.group !== op.group);
  const removed = left.length < books.subscriptions.length;
  check(
    answer<"unsubscribe">(outcome).removed === removed,
    `unsubscribe answered ${JSON.stringify(outcome)}`,
  );
  books.subscriptions = left;
}

export function checkSubscriptions(
  books: Books,
  op: Op<"subscriptions">,
  outcome: Outcome<"subscriptions">,
): void {
  const found = op.topic === undefined ? books.subscriptions : reachedBy(books, op.topic);
  const rows = found.map(({ id, ...item }) => ({ key: id, item }));
  const expected = expectedPage(rows, op);
  check(
    isDeepStrictEqual(answer<"subscriptions">(outcome), expected),
    () => `subscriptions are ${JSON.stringify(outcome)}; they should be ${JSON.stringify(expected)}`,
  );
}
