import { TopicTree } from "./topic-keys.ts";
import { canonical, fieldOf, type Table, textOf } from "./wire/table.ts";

/** Which queues a message reaches: exchanges and their bindings, as pure functions over what topology.ts holds. */

export const EXCHANGE_TYPES = ["direct", "fanout", "topic", "headers"] as const;
export type ExchangeType = (typeof EXCHANGE_TYPES)[number];

export interface Exchange {
  vhost: string;
  name: string;
  type: ExchangeType;
  durable: boolean;
  autoDelete: boolean;
  internal: boolean;
  arguments: Table;
  bindings: Bindings;
}

export interface Binding {
  vhost: string;
  source: string;
  destination: string;
  to: "queue" | "exchange";
  routingKey: string;
  arguments: Table;
}

/** The bindings of one exchange, indexed as its type looks them up. */
export class Bindings {
  readonly all = new Map<string, Binding>();
  readonly #byKey = new Map<string, Set<Binding>>();
  readonly #topics = new TopicTree<Binding>();
  readonly #type: ExchangeType;

  constructor(type: ExchangeType) {
    this.#type = type;
  }

  add(id: string, binding: Binding): void {
    this.remove(id);
    this.all.set(id, binding);
    if (this.#type === "topic") this.#topics.add(binding.routingKey, binding);
    const same = this.#byKey.get(binding.routingKey);
    if (same) same.add(binding);
    else this.#byKey.set(binding.routingKey, new Set([binding]));
  }

  remove(id: string): Binding | undefined {
    const binding = this.all.get(id);
    if (!binding) return undefined;
    this.all.delete(id);
    if (this.#type === "topic") this.#topics.remove(binding.routingKey, binding);
    const same = this.#byKey.get(binding.routingKey)!;
    same.delete(binding);
    if (same.size === 0) this.#byKey.delete(binding.routingKey);
    return binding;
  }

  matching(routingKey: string, headers: Table): Iterable<Binding> {
    switch (this.#type) {
      case "direct":
        return this.#byKey.get(routingKey) ?? [];
      case "fanout":
        return this.all.values();
      case "topic":
        return this.#topics.matching(routingKey);
      case "headers":
        return [...this.all.values()].filter((binding) => matchesHeaders(binding.arguments, headers));
    }
  }
}

/** `x-match` is all or any. Headers whose names begin with x- are compared only by all-with-x and any-with-x. */
export function matchesHeaders(wanted: Table, headers: Table): boolean {
  const mode = textOf(fieldOf(wanted, "x-match")) ?? "all";
  const withX = mode.endsWith("-with-x");
  const compared = wanted.filter(([name]) => name !== "x-match" && (withX || !name.startsWith("x-")));
  const matches = ([name, field]: Table[number]): boolean => {
    const found = fieldOf(headers, name);
    return found !== undefined && (field.type === "V" || canonical(found) === canonical(field));
  };
  return mode.startsWith("any") ? compared.some(matches) : compared.every(matches);
}

/**
 * The names of the queues that a message reaches, each once, in the order in which they are found. A message that no
 * binding matches goes to the alternate exchange.
 */
export function route(
  find: (name: string) => Exchange | undefined,
  from: Exchange,
  keys: readonly string[],
  headers: Table,
): string[] {
  const queues = new Set<string>();
  const seen = new Set<string>([from.name]);
  const next = [from];
  for (let exchange = next.pop(); exchange; exchange = next.pop()) {
    let found = false;
    const follow = (name: string): void => {
      const other = seen.has(name) ? undefined : find(name);
      if (!other) return;
      seen.add(name);
      next.push(other);
    };
    for (const key of keys) {
      for (const { to, destination } of exchange.bindings.matching(key, headers)) {
        found = true;
        if (to === "queue") queues.add(destination);
        else follow(destination);
      }
    }
    const alternate = found ? undefined : textOf(fieldOf(exchange.arguments, "alternate-exchange"));
    if (alternate !== undefined) follow(alternate);
  }
  return [...queues];
}
