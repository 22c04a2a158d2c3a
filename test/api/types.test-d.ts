/** Checked by the compiler (`npm run types`), never run: types propagate from a definition to handler and result. */
import { expectTypeOf } from "vitest";
import { z } from "zod";
import {
  type ChildFailedError,
  type Claim,
  defineQueue,
  defineTopic,
  type Dibs,
  type Duration,
  each,
  type Json,
  type Queue,
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
  emails.work(async (task) => {
    const counts = dibs.queue<string, number>("counts");
    const receipt = await task.spawn(emails, { to: "ada" }, { name: "mail", priority: 1 });
    expectTypeOf(await receipt.result()).toEqualTypeOf<Receipt>();
    const count = await task.spawn(counts, "words");
    const results = await task.waitForChildren([receipt, count], { timeout: "1h" });
    expectTypeOf(results).toEqualTypeOf<[Receipt, number]>();
    const many = await Promise.all(["a", "b"].map((word) => task.spawn(counts, word)));
    expectTypeOf(await task.waitForChildren(many)).toEqualTypeOf<number[]>();
    expectTypeOf(await task.waitForChildren()).toEqualTypeOf<unknown[]>();
    const [outcome] = await task.waitForChildOutcomes([count]);
    if (outcome.state === "done") expectTypeOf(outcome.result).toEqualTypeOf<number>();
    else expectTypeOf(outcome.error).toEqualTypeOf<ChildFailedError>();
    // @ts-expect-error the payload has the wrong shape
    await task.spawn(counts, 5);
    // @ts-expect-error a child is always a new task
    await task.spawn(counts, "a", { unique: { key: "k" } });
    return { sent: true };
  });
  // @ts-expect-error the payload has the wrong shape
  await emails.add({ from: "ada" });
  // @ts-expect-error a duration has a unit
  await emails.add({ to: "ada" }, { delay: "10" });
  // @ts-expect-error no such option
  await emails.add({ to: "ada" }, { dealy: "10s" });
  // @ts-expect-error the result has the wrong shape
  emails.work(() => ({ delivered: true }));
  // @ts-expect-error the result has the wrong shape
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
  // @ts-expect-error the payload is the schema's input
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
  // @ts-expect-error the other queue has another payload type
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
  // @ts-expect-error the payload has the wrong shape
  await placed.publish({ number: 1 });
  // @ts-expect-error no such option
  await placed.publish({ id: 1 }, { dealy: "1s" });
  // @ts-expect-error no such option
  placed.subscribe("inventory", () => {}, { concurency: 3 });
  // @ts-expect-error the topic has another payload type
  await task.publish(placed, { number: 1 });
  // @ts-expect-error add takes a queue, not a topic
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
  // @ts-expect-error the message is the schema's input
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

class Money {
  cents = 1;
  add(): void {}
}

export async function comesBackAsJson(task: Task<Email>): Promise<void> {
  interface Visit {
    at: Date;
    tags: readonly string[];
    place: [number, number];
    note?: string;
  }
  interface StoredVisit {
    at: string;
    tags: readonly string[];
    place: [number, number];
    note?: string;
  }
  const visits = dibs.queue<Visit, { seen: Date }>("visits");
  const added = await visits.add({ at: new Date(), tags: [], place: [1, 2] });
  expectTypeOf(await added.result()).toEqualTypeOf<{ seen: string }>();
  visits.work(({ data }) => {
    expectTypeOf(data).toEqualTypeOf<StoredVisit>();
    return { seen: new Date() };
  });
  visits.verify((_, result) => result.seen === "");
  const [claim] = await visits.claim();
  expectTypeOf(claim!.data.at).toEqualTypeOf<string>();
  expectTypeOf(await task.step("when", () => new Date())).toEqualTypeOf<string>();
  expectTypeOf(await task.step("map", () => ({ a: new Map<string, string>() }))).toEqualTypeOf<{
    a: never;
  }>();
  expectTypeOf(await task.step("class", () => new Money())).toEqualTypeOf<{ cents: number; add: never }>();
  expectTypeOf(await task.step("nothing", () => {})).toEqualTypeOf<void>();
  expectTypeOf(await dibs.task<{ at: Date }>("id").result()).toEqualTypeOf<{ at: string }>();
  dibs.topic<Visit>("seen").subscribe("g", ({ data }) => expectTypeOf(data).toEqualTypeOf<StoredVisit>());
  dibs.queue(defineQueue("d", { schema: z.object({ at: z.date() }) })).work(({ data }) => {
    expectTypeOf(data).toEqualTypeOf<{ at: string }>();
  });
  // A type that JSON preserves stays the same type.
  expectTypeOf<Json<Email>>().toEqualTypeOf<Email>();
  expectTypeOf<Json<unknown>>().toEqualTypeOf<unknown>();
  expectTypeOf<Json<"a" | 1 | null>>().toEqualTypeOf<"a" | 1 | null>();
  interface Tree {
    name: string;
    children: Tree[];
  }
  expectTypeOf<Json<Tree>>().toEqualTypeOf<Tree>();
}

export async function payloads(task: Task<Email>, anything: unknown): Promise<void> {
  await dibs.queue<null>("ticks").add(null);
  await dibs.queue("anything").add(anything);
  // @ts-expect-error JSON has no undefined
  await dibs.queue<void>("ticks").add();
  // @ts-expect-error JSON has no undefined
  await dibs.topic<void>("ticks").publish();
  // @ts-expect-error JSON has no undefined
  await dibs.pipeline<void>("ticks").add();
  // @ts-expect-error JSON has no undefined
  await task.add(dibs.queue<void>("ticks"));
  // @ts-expect-error JSON has no undefined
  await dibs.queue<string | undefined>("ticks").addMany([{ data: undefined }]);
  // @ts-expect-error a batch has one transaction
  await dibs.queue<number>("n").addMany([{ data: 1, tx: {} }]);
  await dibs.queue<number>("n").addMany([{ data: 1 }], { tx: {} });
  // @ts-expect-error a task that a handler adds commits with its ack
  await task.add(dibs.queue<number>("n"), 1, { tx: {} });
}

export function generic<T extends {} | null>(queue: Queue<T>, data: T): unknown {
  return queue.add(data);
}

export function scheduled(): void {
  const when = { every: "1h" } as const;
  const emails = dibs.queue<Email>("emails");
  dibs.schedule("nightly", when, { queue: emails, data: { to: "ada" } });
  dibs.schedule("nightly", when, { queue: "emails" });
  dibs.schedule("nightly", when, { queue: dibs.queue<null>("ticks") });
  dibs.schedule("nightly", when, { queue: defineQueue<Email>("emails"), data: { to: "ada" } });
  // @ts-expect-error its handler would get null
  dibs.schedule("nightly", when, { queue: emails });
  // @ts-expect-error its handler would get null
  dibs.schedule("nightly", when, { queue: defineQueue<Email>("emails") });
  // @ts-expect-error the payload has the wrong shape
  dibs.schedule("nightly", when, { queue: emails, data: { from: "ada" } });
}

export function durations(): void {
  const good: Duration[] = [250, "250ms", "30s", "1.5h", "0s"];
  // @ts-expect-error a blank
  const blank: Duration = "5 m";
  // @ts-expect-error an exponent
  const exponent: Duration = "1e3s";
  // @ts-expect-error not a number
  const empty: Duration = "s";
  void [good, blank, exponent, empty];
}

export async function stages(): Promise<void> {
  const report = dibs
    .pipeline<{ pages: string[]; at: Date }>("report")
    .stage("extract", (task) => {
      expectTypeOf(task.data.at).toEqualTypeOf<string>();
      return each(task.data.pages.map((page) => ({ page, read: new Date() })));
    })
    .stage("count", (task) => task.data.page.length, {
      cost: (input) => {
        expectTypeOf(input).toEqualTypeOf<{ page: string; read: string }>();
        return input.page.length;
      },
    })
    .join("sum", (task) => task.data.reduce((a, b) => a + b, 0), { cost: 3 });
  report.work({ stages: ["extract", "sum"] });
  // @ts-expect-error no such stage
  report.work({ stages: ["typo"] });
  const [claim] = await report.queue("count").claim();
  expectTypeOf(claim!.data).toEqualTypeOf<{ page: string; read: string }>();
  await claim!.ack(3);
  // @ts-expect-error the stage returns a number
  await claim!.ack("three");
  expectTypeOf((await report.queue("sum").claim())[0]!.data).toEqualTypeOf<number[]>();
  // @ts-expect-error no such stage
  report.queue("typo");
  // @ts-expect-error a stage that joins has a number
  report.join("again", () => 1, { cost: (input: number) => input });
  expectTypeOf(await (await report.add({ pages: [], at: new Date() })).result()).toEqualTypeOf<number>();
}

export async function graphs(): Promise<void> {
  const merged = dibs
    .pipeline<string>("graph")
    .stage("read", (task) => ({ text: task.data, at: new Date() }))
    .stage("count", (task) => task.data.text.length)
    .stage("words", (task) => task.data.text.split(" "), { after: "read" })
    .stage(
      "merge",
      (task) => {
        expectTypeOf(task.data).toEqualTypeOf<{ count: number; words: string[] }>();
        return task.data.count > 1;
      },
      { after: ["count", "words"] },
    );
  expectTypeOf(await (await merged.add("a")).result()).toEqualTypeOf<boolean>();
  const forked = merged.stage("mail", (task) => task.id, { after: "read" });
  expectTypeOf(await (await forked.add("a")).result()).toEqualTypeOf<{ merge: boolean; mail: string }>();
  // @ts-expect-error no such stage
  merged.stage("late", () => 1, { after: "typo" });
  // @ts-expect-error a list has at least two
  merged.stage("late", () => 1, { after: ["count"] });
  const parts = dibs
    .pipeline<string[]>("parts")
    .stage("split", (task) => each(task.data))
    .stage("one", (task) => task.data.length)
    .stage("two", (task) => task.data, { after: "split" })
    .join("all", (task) => task.data, { after: ["one", "two"] });
  expectTypeOf(await (await parts.add([])).result()).toEqualTypeOf<{ one: number[]; two: string[] }>();
  const left = dibs
    .pipeline<string[]>("left")
    .stage("split", (task) => each(task.data))
    .stage("one", (task) => task.data.length)
    .stage("two", (task) => task.data, { after: "split" });
  expectTypeOf(await (await left.add([])).result()).toEqualTypeOf<{ one: number[]; two: string[] }>();
  // Stages that are added in a loop.
  let chain = dibs.pipeline<number>("chain").stage("first", (task) => task.data);
  for (let n = 0; n < 3; n++) chain = chain.stage(`next-${n}`, (task) => task.data + 1);
  expectTypeOf(await (await chain.add(1)).result()).toEqualTypeOf<number>();
}
