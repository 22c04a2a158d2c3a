import { mismatches, type NamedPolicy, type QueuePolicy } from "../core/queue/policy.ts";

/**
 * Sends a queue's policy to the store, once per handle, together with the handle's first operation. `Queue` calls it.
 */

/** How a queue is created and removed. The queue of a subscription is created and removed with it. */
export interface Lifecycle {
  /** Resolves with the current policy. */
  declare(policy: NamedPolicy): Promise<QueuePolicy>;
  drop(): Promise<unknown>;
  /** Whether it must be declared before it is used. Otherwise its first task creates it. */
  isNeeded(policy: NamedPolicy): boolean;
}

export interface DeclarationOptions {
  queue: string;
  policy: NamedPolicy;
  lifecycle: Lifecycle;
  /** Logs a warning the first time that it is given. */
  warnOnce(message: string): void;
}

export class Declaration {
  readonly #options: DeclarationOptions;
  #sent: Promise<void> | undefined;

  constructor(options: DeclarationOptions) {
    this.#options = options;
  }

  /** Resolves when the queue exists with this policy. */
  send(): Promise<void> {
    this.#sent ??= this.#send();
    return this.#sent;
  }

  /** Without a policy, the first task creates the queue. */
  async sendIfNeeded(): Promise<void> {
    if (this.#isNeeded) await this.send();
  }

  get isSent(): boolean {
    return this.#sent !== undefined || !this.#isNeeded;
  }

  /** The policy commits with the handle's first operation, because both calls are made at the same moment. */
  with<T>(operation: () => Promise<T>): Promise<T> {
    return this.isSent ? operation() : this.#sendWith(operation);
  }

  /** The queue was deleted: the next operation sends the policy again. */
  forget(): void {
    this.#sent = undefined;
  }

  /** The stored policy applies. Logs a warning if it differs from what this program declared. */
  compare(declared: NamedPolicy, inForce: QueuePolicy): void {
    const fields = mismatches(declared, inForce);
    if (fields.length === 0) return;
    this.#options.warnOnce(
      `Queue "${this.#options.queue}" has another policy than this program declares (${fields.join(", ")}). The stored one applies. ` +
        `An operator set it, or the token that this program uses may not change it. To change it, call configure() with an admin token.`,
    );
  }

  get #isNeeded(): boolean {
    return this.#options.lifecycle.isNeeded(this.#options.policy);
  }

  async #sendWith<T>(operation: () => Promise<T>): Promise<T> {
    const [, value] = await Promise.all([this.send(), operation()]);
    return value;
  }

  async #send(): Promise<void> {
    const { policy, lifecycle } = this.#options;
    try {
      this.compare(policy, await lifecycle.declare(policy));
    } catch (error) {
      // The next operation tries again.
      this.#sent = undefined;
      throw error;
    }
  }
}
