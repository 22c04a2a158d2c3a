import { refuseSurplus } from "../core/input/arguments.ts";
import type { Json, Payload } from "../core/input/json-type.ts";
import type { Port } from "../core/port.ts";
import type { AddedTask, NewMessage } from "../core/task/task.ts";
import { checkTopic } from "../core/topic/topic.ts";
import type { PublishTarget } from "../worker/pending-additions.ts";
import { resolveWork } from "../worker/options.ts";
import type { Handler } from "../worker/task.ts";
import type { Worker } from "../worker/worker.ts";
import { invalid } from "../core/errors/errors.ts";
import { type AddOptions, parseAddOptions, type PartOptions, refuseTx, TX_OF_ACK } from "./add-options.ts";
import { type Encode, splitOptions } from "./definition.ts";
import { checkHandler, type Owner } from "./queue.ts";
import {
  type SubscribeOptions,
  Subscription,
  type SubscriptionOptions,
  splitSubscribe,
} from "./subscription.ts";
import { AddedTaskHandle } from "./task-handle.ts";
import { checkTopicOptions, type TopicOptions } from "./topic-definition.ts";
import { carryTrace } from "./trace.ts";
import { CallOrder } from "./call-order.ts";

/** The options of `add`. They apply in every group separately. */
export type PublishOptions = Omit<AddOptions, "unique">;

/** What a publish reached. */
export interface Published {
  /** How many groups; 0 is not an error. */
  reached: number;
  /** One task per group, in the order of their subscriptions. */
  tasks: AddedTaskHandle[];
}

/** A topic. A message published to it goes to all groups that subscribed, or to none. */
export class Topic<In = unknown, Data = Json<In>> implements PublishTarget<In, PartOptions> {
  readonly name: string;
  readonly #owner: Owner;
  readonly #port: Port;
  readonly #options: TopicOptions;
  readonly #encode: Encode;
  readonly #order = new CallOrder();

  constructor(owner: Owner, name: string, options: TopicOptions = {}) {
    this.name = checkTopic(name);
    checkTopicOptions(options);
    this.#owner = owner;
    this.#port = owner.port;
    this.#options = options;
    this.#encode = splitOptions(options).encodeData;
  }

  /** Resolves when every group's task is on disk. */
  async publish(data: Payload<In>, options: PublishOptions = {}): Promise<Published> {
    const message = this.#message(data, options);
    const send = (ready: NewMessage): Promise<AddedTask[]> => this.#port.publish(ready, { tx: options.tx });
    const isAsync = message instanceof Promise || this.#order.isBusy;
    const added = await (isAsync ? this.#order.run(async () => send(await message)) : send(message));
    return { reached: added.length, tasks: added.map((task) => new AddedTaskHandle(this.#port, task)) };
  }

  /** Only a type: see AddTarget. */
  "~publishes"?(data: In, options?: PartOptions): void;

  /** @internal Checks and encodes, and stores nothing: for `task.publish`. */
  async prepareMessage(data: In, options: PartOptions = {}): Promise<NewMessage> {
    refuseTx(options, TX_OF_ACK);
    return carryTrace(await this.#message(data, options));
  }

  #message(data: In, options: PublishOptions): NewMessage | Promise<NewMessage> {
    if ("unique" in options)
      throw invalid("publish has no option unique: each group has its own queue. Use an idempotencyKey.");
    const { unique: _, ...rest } = parseAddOptions(options, () => this.#port.clock.read().wall, "publish");
    const encoded = this.#encode(data);
    if (encoded instanceof Promise)
      return encoded.then((text) => ({ topic: this.name, data: text, ...rest }));
    return { topic: this.name, data: encoded, ...rest };
  }

  /**
   * Starts a worker of a group. Workers with the same group name compete, in all processes; another group gets its own
   * copies.
   */
  subscribe<Out = unknown>(
    group: string,
    handler: Handler<Data, Out>,
    options?: SubscribeOptions<Data, Out>,
  ): Worker {
    checkHandler(handler, "subscribe", "second");
    const { work, subscription } = splitSubscribe(options);
    return this.#owner.startWorker(
      [this.subscription(group, subscription)],
      handler as never,
      resolveWork(work),
    );
  }

  /** The group itself: its queue with statistics and dead letters, whether or not it has workers. */
  subscription<Out = unknown>(group: string, options: SubscriptionOptions = {}): Subscription<In, Out, Data> {
    const { schema } = this.#options;
    return new Subscription(this.#owner, this.name, group, schema ? { schema, ...options } : options);
  }

  /** Removes the group with all its tasks. Resolves with whether there was one. */
  async unsubscribe(group: string): Promise<boolean> {
    return this.#port.unsubscribe(this.name, group);
  }
}

refuseSurplus(Topic, "topic", {
  calls: { subscribe: "group, handler, options", subscription: "group, options" },
  promises: { publish: "data, options", unsubscribe: "group" },
});
