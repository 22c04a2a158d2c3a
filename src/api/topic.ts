import { refuseSurplus } from "../core/arguments.ts";
import type { Json, Payload } from "../core/json-type.ts";
import type { Port } from "../core/port.ts";
import type { AddedTask, NewMessage } from "../core/task.ts";
import { checkTopic } from "../core/topic.ts";
import type { PublishTarget } from "../worker/claim.ts";
import { resolveWork } from "../worker/options.ts";
import type { Handler } from "../worker/task.ts";
import type { Worker } from "../worker/worker.ts";
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
import { Turns } from "./turns.ts";

/** As those of `add`: each holds in every group, on its own. */
export type PublishOptions = AddOptions;

/** Whom a publish reached. */
export interface Published {
  /** How many groups; 0 is no error. */
  reached: number;
  /** A task for each of them, in the order they subscribed. */
  tasks: AddedTaskHandle[];
}

/** What is published to it goes to every group that subscribed, to all or to none. */
export class Topic<In = unknown, Data = Json<In>> implements PublishTarget<In, PartOptions> {
  readonly name: string;
  readonly #owner: Owner;
  readonly #port: Port;
  readonly #options: TopicOptions;
  readonly #encode: Encode;
  readonly #turns = new Turns();

  constructor(owner: Owner, name: string, options: TopicOptions = {}) {
    this.name = checkTopic(name);
    checkTopicOptions(options);
    this.#owner = owner;
    this.#port = owner.port;
    this.#options = options;
    this.#encode = splitOptions(options).encodeData;
  }

  /** Resolves when every group has its task on disk. */
  async publish(data: Payload<In>, options: PublishOptions = {}): Promise<Published> {
    const message = this.#message(data, options);
    const send = (ready: NewMessage): Promise<AddedTask[]> => this.#port.publish(ready, { tx: options.tx });
    const isAsync = message instanceof Promise || this.#turns.isBusy;
    const added = await (isAsync ? this.#turns.take(async () => send(await message)) : send(message));
    return { reached: added.length, tasks: added.map((task) => new AddedTaskHandle(this.#port, task)) };
  }

  /** @internal Checks and encodes, and stores nothing: for `task.publish`. */
  async prepareMessage(data: In, options: PartOptions = {}): Promise<NewMessage> {
    refuseTx(options, TX_OF_ACK);
    return carryTrace(await this.#message(data, options));
  }

  #message(data: In, options: PublishOptions): NewMessage | Promise<NewMessage> {
    const rest = parseAddOptions(options, () => this.#port.clock.read().wall, "publish");
    const encoded = this.#encode(data);
    if (encoded instanceof Promise)
      return encoded.then((text) => ({ topic: this.name, data: text, ...rest }));
    return { topic: this.name, data: encoded, ...rest };
  }

  /** A worker of a group: those of one name compete, in any process; another name gets its own copy. */
  subscribe<Out = unknown>(group: string, handler: Handler<Data, Out>, options?: SubscribeOptions): Worker {
    checkHandler(handler, "subscribe", "second");
    const { work, subscription } = splitSubscribe(options);
    return this.#owner.startWorker(
      [this.subscription(group, subscription)],
      handler as never,
      resolveWork(work),
    );
  }

  /** The group itself: its queue, with statistics and dead letters, whether or not somebody works. */
  subscription<Out = unknown>(group: string, options: SubscriptionOptions = {}): Subscription<In, Out, Data> {
    const { schema } = this.#options;
    return new Subscription(this.#owner, this.name, group, schema ? { schema, ...options } : options);
  }

  /** Removes the group with all that waits in it; resolves with whether there was one. */
  async unsubscribe(group: string): Promise<boolean> {
    return this.#port.unsubscribe(this.name, group);
  }
}

refuseSurplus(Topic, "topic", {
  calls: { subscribe: "group, handler, options", subscription: "group, options" },
  promises: { publish: "data, options", unsubscribe: "group" },
});
