import { least } from "../core/answer/least.ts";
import { type NamedPolicy, type QueuePolicy, resolvePolicy } from "../core/queue/policy.ts";

/** A queue as both SQL engines know it. */
export interface StoredQueue {
  id: number;
  name: string;
  /** The policy fields that a declaration named. */
  named: NamedPolicy;
  policy: QueuePolicy;
  /** The last declaration applied, as JSON. */
  declared: string | null;
  paused: boolean;
  createdAt: number;
}

/** The columns of `queue` that both SQL engines have. */
export interface QueueColumns {
  id: number;
  name: string;
  named: string;
  declared: string | null;
  created_at: number;
}

export function queueFrom(row: QueueColumns): Omit<StoredQueue, "paused"> {
  const { id, name, declared, created_at: createdAt } = row;
  return { id, name, ...policyFrom(row.named), declared, createdAt };
}

const policies = new Map<string, Pick<StoredQueue, "named" | "policy">>();
const MOST_POLICIES = 1_000;

/**
 * Queues with the same policy share the object: thousands of queues mostly have a few policies, and an answer that names
 * the policies of many queues then crosses to another thread with one copy of each.
 */
function policyFrom(text: string): Pick<StoredQueue, "named" | "policy"> {
  const known = policies.get(text);
  if (known) return known;
  const named = JSON.parse(text) as NamedPolicy;
  const made = { named, policy: resolvePolicy(named) };
  if (policies.size >= MOST_POLICIES) policies.clear();
  policies.set(text, made);
  return made;
}

/** The lowest maxPayload of all queues. */
export function leastPayloadOf(queues: readonly StoredQueue[]): number {
  return least(queues.map(({ policy }) => policy.maxPayload));
}

/**
 * A copy of the queues, which a connection keeps between transactions. `transaction/queue-cache.ts` of both SQL engines
 * extends it with the statements that read and change queues.
 *
 * `Traits`: what is true of all queues or of some, computed when it is first needed after a change.
 */
export abstract class KnownQueues<Queue extends StoredQueue, Traits> {
  readonly #byName = new Map<string, Queue>();
  readonly #byId = new Map<number, Queue>();
  #traits: Traits | undefined;

  protected abstract traitsOf(queues: readonly Queue[]): Traits;

  get all(): IterableIterator<Queue> {
    return this.#byId.values();
  }

  named(name: string): Queue | undefined {
    return this.#byName.get(name);
  }

  /** Those of these names that exist and are not paused, each once: a claim may name a queue several times. */
  open(names: readonly string[]): Queue[] {
    const known = new Set(names.flatMap((name) => this.named(name) ?? []));
    return [...known].filter(({ paused }) => !paused);
  }

  of(id: number): Queue {
    return this.#byId.get(id)!;
  }

  /** Undefined if the queue was dropped in the meantime. */
  ifAny(id: number): Queue | undefined {
    return this.#byId.get(id);
  }

  policyOf(name: string): QueuePolicy {
    return this.#byName.get(name)?.policy ?? resolvePolicy({});
  }

  get traits(): Traits {
    this.#traits ??= this.traitsOf([...this.all]);
    return this.#traits;
  }

  protected keep(queue: Queue): Queue {
    this.#byName.set(queue.name, queue);
    this.#byId.set(queue.id, queue);
    this.#traits = undefined;
    return queue;
  }

  protected discard({ id, name }: Queue): void {
    this.#byName.delete(name);
    this.#byId.delete(id);
    this.#traits = undefined;
  }

  protected discardAll(): void {
    this.#byName.clear();
    this.#byId.clear();
    this.#traits = undefined;
  }

  /** The fields of a queue have changed. */
  protected forgetTraits(): void {
    this.#traits = undefined;
  }
}
