import { createHash } from "node:crypto";
import type { Documents } from "../../core/port.ts";
import { type Binding, Bindings, type Exchange, type ExchangeType } from "./route.ts";
import { readTable, type Table, writeTable } from "./wire/table.ts";

/**
 * Exchanges, bindings, and what AMQP says about queues. They are documents of the store, which all its servers share.
 * This is a copy of them. A document with a version says whether the copy is current: every change writes a new one.
 */
const KINDS = {
  exchange: "amqp-exchange",
  queue: "amqp-queue",
  binding: "amqp-binding",
  version: "amqp-version",
} as const;
const VERSION_NAME = "topology";
/** How long a copy is used before it is compared with the store again, in milliseconds. */
const RECENT_MS = 1_000;

/** What a declaration over AMQP said about a queue, beyond its policy. */
export interface QueueRecord {
  vhost: string;
  name: string;
  durable: boolean;
  autoDelete: boolean;
  /** The connection that alone may use it, with its server; null: it is not exclusive. */
  owner: string | null;
  arguments: Table;
}

type Stored<Item extends { arguments: Table }> = Omit<Item, "arguments" | "bindings"> & { arguments: string };

export class Topology {
  readonly #documents: Documents;
  readonly #exchanges = new Map<string, Exchange>();
  readonly #queues = new Map<string, QueueRecord>();
  /** The exchanges that lead to a queue or an exchange, so that its end removes its bindings. */
  readonly #bindings = new Map<string, Binding>();
  #version: string | null | undefined;
  /** When the copy was last found to be current. */
  #comparedAt = -RECENT_MS;
  #reading: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  constructor(documents: Documents) {
    this.#documents = documents;
  }

  /**
   * Resolves when the copy has all changes that were made before the call, by any server. Calls during a read share the
   * next one, because the current one may have begun too early.
   */
  fresh(): Promise<void> {
    if (!this.#reading) return (this.#reading = this.#read().finally(() => (this.#reading = undefined)));
    return (this.#next ??= this.#reading.then(
      () => this.#readAgain(),
      () => this.#readAgain(),
    ));
  }

  #readAgain(): Promise<void> {
    this.#next = undefined;
    return this.fresh();
  }

  async #read(): Promise<void> {
    const began = performance.now();
    const version = await this.#readVersion();
    if (version !== this.#version) await this.#load();
    this.#version = version;
    this.#comparedAt = began;
  }

  async #readVersion(): Promise<string | null> {
    const { items } = await this.#documents.list(KINDS.version, { name: VERSION_NAME });
    return items[0]?.value ?? null;
  }

  /** The copy may be used, if `isCurrent` is asked as well. */
  get isRecent(): boolean {
    return this.#version !== undefined && performance.now() - this.#comparedAt < RECENT_MS;
  }

  /** Whether the copy, as it is now, has all changes that other servers have made. */
  async isCurrent(): Promise<boolean> {
    const [began, version] = [performance.now(), this.#version];
    if ((await this.#readVersion()) !== version) return false;
    this.#comparedAt = Math.max(this.#comparedAt, began);
    return true;
  }

  async #load(): Promise<void> {
    const [exchanges, queues, bindings] = await Promise.all([
      this.#all<Stored<Exchange>>(KINDS.exchange),
      this.#all<Stored<QueueRecord>>(KINDS.queue),
      this.#all<Stored<Binding>>(KINDS.binding),
    ]);
    this.#exchanges.clear();
    this.#queues.clear();
    this.#bindings.clear();
    for (const [id, stored] of exchanges) this.#exchanges.set(id, exchangeFrom(stored));
    for (const [id, stored] of queues) this.#queues.set(id, opened(stored));
    for (const [id, stored] of bindings) this.#bind(id, opened(stored));
  }

  async #all<T>(kind: (typeof KINDS)[keyof typeof KINDS]): Promise<[string, T][]> {
    const found: [string, T][] = [];
    let page = await this.#documents.list(kind);
    for (;;) {
      for (const { name, value } of page.items) found.push([name, JSON.parse(value) as T]);
      if (page.next === null) return found;
      page = await this.#documents.list(kind, { after: page.next });
    }
  }

  // ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────

  exchange(vhost: string, name: string): Exchange | undefined {
    return this.#exchanges.get(idOf(vhost, name)) ?? predeclared(vhost, name, this.#exchanges);
  }

  queue(vhost: string, name: string): QueueRecord | undefined {
    return this.#queues.get(idOf(vhost, name));
  }

  queues(): Iterable<QueueRecord> {
    return this.#queues.values();
  }

  bindingsTo(to: Binding["to"], vhost: string, name: string): Binding[] {
    return [...this.#bindings.values()].filter(
      (each) => each.to === to && each.destination === name && each.vhost === vhost,
    );
  }

  binding(binding: Binding): Binding | undefined {
    return this.#bindings.get(bindingId(binding));
  }

  // ── Changes: each resolves when it is in the store ──────────────────────────────────────────────────────

  async putExchange(exchange: Omit<Exchange, "bindings">): Promise<void> {
    const id = idOf(exchange.vhost, exchange.name);
    const { bindings: _, ...record } = exchange as Exchange;
    await this.#put(KINDS.exchange, id, closed(record));
    this.#exchanges.set(id, { ...exchange, bindings: new Bindings(exchange.type) });
  }

  async removeExchange(vhost: string, name: string): Promise<void> {
    const id = idOf(vhost, name);
    const exchange = this.#exchanges.get(id);
    const lost = [...(exchange?.bindings.all.values() ?? []), ...this.bindingsTo("exchange", vhost, name)];
    await this.#put(KINDS.exchange, id, null);
    this.#exchanges.delete(id);
    await this.#unbindAll(lost);
  }

  async putQueue(record: QueueRecord): Promise<void> {
    const id = idOf(record.vhost, record.name);
    await this.#put(KINDS.queue, id, closed(record));
    this.#queues.set(id, record);
  }

  async removeQueue(vhost: string, name: string): Promise<void> {
    const id = idOf(vhost, name);
    const lost = this.bindingsTo("queue", vhost, name);
    if (this.#queues.has(id)) await this.#put(KINDS.queue, id, null);
    this.#queues.delete(id);
    await this.#unbindAll(lost);
  }

  async bind(binding: Binding): Promise<void> {
    const id = bindingId(binding);
    if (this.#bindings.has(id)) return;
    await this.#put(KINDS.binding, id, closed(binding));
    this.#bind(id, binding);
  }

  async unbind(binding: Binding): Promise<void> {
    await this.#unbindAll([binding]);
  }

  /** An exchange that is deleted with its last binding goes with it. */
  async #unbindAll(bindings: readonly Binding[]): Promise<void> {
    for (const binding of bindings) {
      const id = bindingId(binding);
      if (!this.#bindings.has(id)) continue;
      await this.#put(KINDS.binding, id, null);
      this.#bindings.delete(id);
      const source = this.exchange(binding.vhost, binding.source);
      source?.bindings.remove(id);
      if (source?.autoDelete && source.bindings.all.size === 0)
        await this.removeExchange(binding.vhost, binding.source);
    }
  }

  #bind(id: string, binding: Binding): void {
    this.#bindings.set(id, binding);
    this.exchange(binding.vhost, binding.source)?.bindings.add(id, binding);
  }

  /** Both calls are made at the same moment, and so share a commit. */
  async #put(kind: (typeof KINDS)[keyof typeof KINDS], name: string, value: string | null): Promise<void> {
    const version = `${Date.now()} ${Math.random()}`;
    const [, before] = await Promise.all([
      this.#documents.put(kind, name, value),
      this.#documents.put(KINDS.version, VERSION_NAME, version),
    ]);
    // If another server has changed something meanwhile, the copy lacks that, and is read again.
    if (before === this.#version) this.#version = version;
    else this.#version = undefined;
  }
}

function idOf(vhost: string, name: string): string {
  // Most messages concern the same queue as the message before.
  if (name !== last.name || vhost !== last.vhost) last = { vhost, name, id: JSON.stringify([vhost, name]) };
  return last.id;
}

let last = { vhost: "/", name: "q", id: `["/","q"]` };

function bindingId({ vhost, source, to, destination, routingKey, arguments: table }: Binding): string {
  const fields = [vhost, source, to, destination, routingKey, writeTable(table).toString("base64")];
  // Names of documents have at most 1,024 characters; a binding's fields can have more.
  return createHash("sha256").update(JSON.stringify(fields)).digest("base64url");
}

function closed(item: { arguments: Table }): string {
  return JSON.stringify({ ...item, arguments: writeTable(item.arguments).toString("base64") });
}

function opened<Item extends { arguments: Table }>(stored: Stored<Item>): Item {
  return { ...stored, arguments: readTable(Buffer.from(stored.arguments, "base64")) } as unknown as Item;
}

function exchangeFrom(stored: Stored<Exchange>): Exchange {
  const exchange = opened<Exchange>(stored);
  return { ...exchange, bindings: new Bindings(exchange.type) };
}

/** The exchanges that every virtual host has. They are not stored. */
const PREDECLARED: Record<string, ExchangeType> = {
  "amq.direct": "direct",
  "amq.fanout": "fanout",
  "amq.topic": "topic",
  "amq.headers": "headers",
  "amq.match": "headers",
};

function predeclared(vhost: string, name: string, into: Map<string, Exchange>): Exchange | undefined {
  const type = Object.hasOwn(PREDECLARED, name) ? PREDECLARED[name] : undefined;
  if (type === undefined) return undefined;
  const exchange: Exchange = {
    ...{ vhost, name, type, durable: true, autoDelete: false, internal: false, arguments: [] },
    bindings: new Bindings(type),
  };
  into.set(idOf(vhost, name), exchange);
  return exchange;
}
