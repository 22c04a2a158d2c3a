/** Checked by the compiler (`npm run types`), never run: types reach from a definition to handler and result. */
import { expectTypeOf } from "vitest";
import { z } from "zod";
import {
  type Claim,
  defineQueue,
  defineTopic,
  type Dibs,
  type Subscription,
  type Task,
} from "../../src/index.ts";

interface Email {
  to: string;
}
interface Receipt {
  sent: boolean;
}

declare const dibs: Dibs;

export async function explicitTypes(): Promise<void> {
  const emails = dibs.queue<Email, Receipt>("emails");
  const task = await emails.add({ to: "ada" }, { delay: "10s", runAt: new Date() });
  expectTypeOf(await task.result()).toEqualTypeOf<Receipt>();
  const [claim] = await emails.claim();
  expectTypeOf(claim).toEqualTypeOf<Claim<Email, Receipt> | undefined>();
  emails.work((held) => {
    expectTypeOf(held).toEqualTypeOf<Task<Email, Receipt>>();
    expectTypeOf(held.data).toEqualTypeOf<Email>();
    expectTypeOf(held.signal).toEqualTypeOf<AbortSignal>();
    return { sent: true };
  });
  emails.workBatch((held) => held.map(({ data }) => ({ sent: data.to !== "" })));
  // @ts-expect-error the payload has another shape
  await emails.add({ from: "ada" });
  // @ts-expect-error a duration has a unit
  await emails.add({ to: "ada" }, { delay: "10" });
  // @ts-expect-error no such option
  await emails.add({ to: "ada" }, { dealy: "10s" });
  // @ts-expect-error the result has another shape
  emails.work(() => ({ delivered: true }));
  // @ts-expect-error the result has another shape
  await claim?.ack({ delivered: true });
}

export async function inferredTypes(): Promise<void> {
  const definition = defineQueue("emails", {
    schema: z.object({ to: z.string(), copies: z.string().transform(Number) }),
    result: z.object({ sent: z.boolean() }),
    lease: "30s",
  });
  const emails = dibs.queue(definition);
  const task = await emails.add({ to: "ada", copies: "2" });
  expectTypeOf(await task.result()).toEqualTypeOf<Receipt>();
  emails.work(({ data }) => {
    expectTypeOf(data).toEqualTypeOf<{ to: string; copies: number }>();
    return { sent: true };
  });
  // @ts-expect-error what is added is the schema's input
  await emails.add({ to: "ada", copies: 2 });
  // @ts-expect-error no such policy
  defineQueue("emails", { leese: "30s" });
}

export async function namedTypes(): Promise<void> {
  const emails = dibs.queue(defineQueue<Email, Receipt>("emails", { maxAttempts: 3 }));
  expectTypeOf(await (await emails.add({ to: "ada" })).result()).toEqualTypeOf<Receipt>();
}

export async function handOver(task: Task<Email>): Promise<void> {
  const next = dibs.queue<{ n: number }>("next");
  await task.add(next, { n: 1 }, { priority: 1 });
  // @ts-expect-error the other queue takes something else
  await task.add(next, { m: 1 });
}

export function untyped(): void {
  dibs.queue("anything").work(({ data }) => expectTypeOf(data).toEqualTypeOf<unknown>());
  dibs.work(["a", dibs.queue<Email, Receipt>("b")], (task: Task<Email>) => task.data.to);
}

interface Order {
  id: number;
}

export async function topics(task: Task<Email>): Promise<void> {
  const placed = dibs.topic<Order>("order.placed");
  const { reached, tasks } = await placed.publish({ id: 1 }, { priority: 1, delay: "1s", groupKey: "g" });
  expectTypeOf(reached).toEqualTypeOf<number>();
  expectTypeOf(await tasks[0]!.result()).toEqualTypeOf<unknown>();
  const worker = placed.subscribe(
    "inventory",
    (held) => {
      expectTypeOf(held.data).toEqualTypeOf<Order>();
      expectTypeOf(held.topic).toEqualTypeOf<string | null>();
    },
    { concurrency: 3, maxDepth: 10, ttl: "1d", result: z.object({ sent: z.boolean() }) },
  );
  expectTypeOf(worker.ready).toEqualTypeOf<Promise<void>>();
  expectTypeOf(placed.subscription<Receipt>("inventory")).toEqualTypeOf<Subscription<Order, Receipt>>();
  await task.publish(placed, { id: 1 }, { priority: 1 });
  // @ts-expect-error the payload has another shape
  await placed.publish({ number: 1 });
  // @ts-expect-error no such option
  await placed.publish({ id: 1 }, { dealy: "1s" });
  // @ts-expect-error no such option
  placed.subscribe("inventory", () => {}, { concurency: 3 });
  // @ts-expect-error a topic takes something else
  await task.publish(placed, { number: 1 });
  // @ts-expect-error a queue is added to
  await task.publish(dibs.queue<Order>("orders"), { id: 1 });
}

export async function inferredTopics(): Promise<void> {
  const definition = defineTopic("order.placed", {
    schema: z.object({ id: z.string().transform(Number), item: z.string().default("tea") }),
  });
  const placed = dibs.topic(definition);
  await placed.publish({ id: "1" });
  placed.subscribe("inventory", ({ data }) => {
    expectTypeOf(data).toEqualTypeOf<{ id: number; item: string }>();
  });
  const [claim] = await placed.subscription("inventory").claim();
  expectTypeOf(claim!.data).toEqualTypeOf<{ id: number; item: string }>();
  // @ts-expect-error what is published is the schema's input
  await placed.publish({ id: 1 });
  // @ts-expect-error a topic has no policy: each of its groups has one
  defineTopic("order.placed", { lease: "30s" });
  const named = dibs.topic(defineTopic<Order>("order.placed"));
  named.subscribe("inventory", ({ data }) => expectTypeOf(data).toEqualTypeOf<Order>());
}

export function patterns(): void {
  dibs.subscribe("order.*", "audit", ({ data }) => expectTypeOf(data).toEqualTypeOf<unknown>());
  dibs.subscribe<Order>("order.*", "audit", ({ data }) => expectTypeOf(data).toEqualTypeOf<Order>());
  expectTypeOf(dibs.subscription<Order>("order.*", "audit")).toEqualTypeOf<Subscription<Order>>();
}
