/** Checked by the compiler (`npm run types`), never run: which types of payloads may be stored. */
import { expectTypeOf } from "vitest";
import type { Dibs, Json, Pipeline, Queue, Task, Topic } from "../../src/index.ts";

interface Email {
  to: string;
}

declare const dibs: Dibs;

class Money {
  cents = 1;
  add(): void {}
}

export async function refused(task: Task<Email>): Promise<void> {
  // @ts-expect-error its entries would be lost
  await dibs.queue<Map<string, number>>("q").add(new Map());
  // @ts-expect-error at any depth
  await dibs.queue<{ a: { b: Set<number>[] } }>("q").add({ a: { b: [] } });
  // @ts-expect-error also if the value at hand could be stored
  await dibs.queue<string | Map<string, number>>("q").add("text");
  // @ts-expect-error its methods would be lost
  await dibs.queue<Money>("q").add(new Money());
  // @ts-expect-error JSON has no bigint
  await dibs.queue<bigint>("q").add(1n);
  // @ts-expect-error JSON has no bigint
  await dibs.queue<{ n: bigint }>("q").addMany([{ data: { n: 1n } }]);
  // @ts-expect-error JSON has no functions
  await dibs.queue<() => void>("q").add(() => {});
  // @ts-expect-error JSON has no symbols
  await dibs.queue<symbol>("q").add(Symbol());
  // @ts-expect-error JSON has no bytes
  await dibs.queue<Uint8Array>("q").add(new Uint8Array());
  // @ts-expect-error JSON has no bytes, although a Buffer has toJSON
  await dibs.queue<Buffer>("q").add(Buffer.of());
  // @ts-expect-error its entries would be lost
  await dibs.topic<Map<string, number>>("t").publish(new Map());
  // @ts-expect-error its entries would be lost
  await dibs.pipeline<Map<string, number>>("p").add(new Map());
  // @ts-expect-error its entries would be lost
  await task.add(dibs.queue<Map<string, number>>("q"), new Map());
  // @ts-expect-error its entries would be lost
  await task.publish(dibs.topic<Map<string, number>>("t"), new Map());
  const maps = dibs.queue<Map<string, number>>("q");
  // @ts-expect-error its entries would be lost
  dibs.schedule("s", { every: "1h" }, { queue: maps, data: new Map() });
}

interface Tree {
  name: string;
  children: Tree[];
  at?: Date;
}
type JsonValue = string | number | boolean | null | JsonValue[] | { [key: string]: JsonValue };
/** As ORMs declare it. */
type OrmValue = string | number | boolean | null | OrmObject | OrmArray;
type OrmObject = { [Key in string]?: OrmValue };
interface OrmArray extends Array<OrmValue> {}
type Any = ReturnType<typeof JSON.parse>;
declare const brand: unique symbol;
type Id = string & { readonly [brand]: "Id" };
interface Order {
  readonly [brand]: unique symbol;
  id: Id;
}

export async function accepted(json: JsonValue, orm: OrmValue, order: Order, any: Any): Promise<void> {
  await dibs.queue<JsonValue>("q").add(json);
  await dibs.queue<OrmValue>("q").add(orm);
  await dibs.queue<{ value: JsonValue; at: Date }>("q").add({ value: json, at: new Date() });
  await dibs.queue<Tree>("q").add({ name: "", children: [], at: new Date() });
  await dibs.queue<Order>("q").add(order);
  await dibs.queue<Date>("q").add(new Date());
  await dibs.queue<URL>("q").add(new URL("a:b"));
  await dibs.queue<Record<string, unknown>>("q").add({ a: 1 });
  await dibs.queue<object>("q").add({ a: 1 });
  await dibs.queue<[first: number, ...rest: string[]]>("q").add([1]);
  await dibs.queue<readonly (string | null)[]>("q").add(["1"]);
  await dibs.queue<{ a?: string | undefined; b: Any; c: unknown }>("q").add({ b: 1, c: null });
  await dibs.queue<{ kind: "a"; n: number } | { kind: "b" }>("q").add({ kind: "b" });
  await dibs.queue<Any>("q").add(any);
  expectTypeOf<Json<JsonValue>>().toEqualTypeOf<JsonValue>();
  expectTypeOf<Json<{ a: OrmValue; at: Date }>>().toEqualTypeOf<{ a: OrmValue; at: string }>();
}

/** Functions that do not know the type of the payload. */
export const generic = {
  add: <T extends {} | null>(queue: Queue<T>, data: T) => queue.add(data),
  extends: <T extends Email>(queue: Queue<T>, data: T) => queue.add(data),
  many: <T extends object>(queue: Queue<T>, items: T[]) => queue.addMany(items.map((data) => ({ data }))),
  wrapped: <T>(queue: Queue<{ item: T }>, item: T) => queue.add({ item }),
  list: <T>(queue: Queue<T[]>, item: T) => queue.add([item]),
  record: <T>(queue: Queue<Record<string, T>>, item: T) => queue.add({ item }),
  nullable: <T extends {}>(queue: Queue<T | null>, data: T) => queue.add(data),
  readonly: <T extends {}>(queue: Queue<Readonly<T>>, items: T[]) => items.map((data) => queue.add(data)),
  others: <T extends {}>(topic: Topic<T>, pipeline: Pipeline<T>, data: T) => [
    topic.publish(data),
    pipeline.add(data),
  ],
  indexed: <K extends string, All extends Record<K, {}>>(
    queues: { [Key in K]: Queue<All[Key]> },
    name: K,
    data: All[K],
  ) => queues[name].add(data),
  named: <T extends {}>(data: T): [Queue<T>, unknown] => [dibs.queue<T>("q"), dibs.queue<T>("q").add(data)],
  handler: <T extends {}>(task: Task<Email>, queue: Queue<T>, data: T) => task.add(queue, data),
  any: (): Queue<Any> => dibs.queue<Email>("q"),
};

export class Outbox<T extends object> {
  readonly #queue: Queue<T>;

  constructor(queue: Queue<T>) {
    this.#queue = queue;
  }

  async send(data: T): Promise<string> {
    return (await this.#queue.add(data, { priority: 1 })).id;
  }
}
