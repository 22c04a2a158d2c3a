import { invalid } from "../core/errors/errors.ts";
import type { Payload } from "../core/input/json-type.ts";
import { checkAddition } from "../core/task/additions.ts";
import type { Addition, NewMessage, NewTask } from "../core/task/task.ts";

/**
 * What a handler adds and publishes. It is sent with the ack of the handler's task (claim.ts), so that both commit
 * together, or neither does.
 */

/** A queue that a handler can add to: the handle of any queue. */
export interface AddTarget<In, Options> {
  /** Never called: it carries the type of the data, because published types lack the internal members below. */
  "~takes"?(data: In, options?: Options): void;
  /** @internal Checks and encodes the data. Stores nothing. */
  prepare(data: In, options?: Options): Promise<NewTask>;
  /** @internal Sends the queue's policy, if it was not sent yet. */
  declare(): Promise<void>;
}

/** A topic that a handler can publish to. */
export interface PublishTarget<In, Options> {
  /** As in AddTarget. */
  "~publishes"?(data: In, options?: Options): void;
  /** @internal Checks and encodes the data. Stores nothing. */
  prepareMessage(data: In, options?: Options): Promise<NewMessage>;
}

export class PendingAdditions {
  readonly #all = new Set<Pending>();

  async add<In, Options>(queue: AddTarget<In, Options>, data: Payload<In>, options?: Options): Promise<void> {
    if (typeof queue?.prepare !== "function") {
      throw invalid(`task.add() takes a queue handle first, as in task.add(dibs.queue("next"), data).`);
    }
    await this.#keep({
      addition: checked(queue.prepare(data, options)),
      declare: () => queue.declare(),
    });
  }

  async publish<In, Options>(
    topic: PublishTarget<In, Options>,
    data: Payload<In>,
    options?: Options,
  ): Promise<void> {
    if (typeof topic?.prepareMessage !== "function") {
      throw invalid(
        `task.publish() takes a topic handle first, as in task.publish(dibs.topic("a.b"), data).`,
      );
    }
    await this.#keep({ addition: checked(topic.prepareMessage(data, options)), declare: async () => {} });
  }

  /**
   * The tasks and messages to send with the ack. Those that were refused are left out, because their callers have the
   * error.
   */
  async prepared(): Promise<Addition[]> {
    await Promise.allSettled([...this.#all].map(({ addition }) => addition));
    return Promise.all([...this.#all].map(({ addition }) => addition));
  }

  async declare(): Promise<void> {
    await Promise.all([...this.#all].map(({ declare }) => declare()));
  }

  /** Adds to the set synchronously: a handler may return without awaiting this. */
  async #keep(pending: Pending): Promise<void> {
    this.#all.add(pending);
    try {
      await pending.addition;
    } catch (error) {
      this.#all.delete(pending);
      throw error;
    }
  }
}

interface Pending {
  addition: Promise<Addition>;
  declare: () => Promise<void>;
}

/** Checks a value when the handler adds it, not at the ack, when the work is done already. */
async function checked(prepared: Promise<Addition>): Promise<Addition> {
  const addition = await prepared;
  checkAddition(addition);
  return addition;
}
