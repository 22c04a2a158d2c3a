import { isDibsError } from "../../core/errors/errors.ts";
import type { NewTask } from "../../core/task/task.ts";
import { isStoreFault } from "../../core/errors/store-fault.ts";
import { Confirms } from "./confirms.ts";
import type { Channel } from "./channel.ts";
import { deadLetters } from "./dead-letters.ts";
import type { Message } from "./message.ts";
import { queueTask } from "./queue-task.ts";
import { queueOf } from "./names.ts";
import { REPLY_TO, REPLY_TO_PREFIX } from "./replies.ts";
import { route } from "./route.ts";
import { keysIn } from "./sender-keys.ts";
import { needOnQueue } from "./scopes.ts";
import { AmqpError } from "./wire/errors.ts";
import type { Args } from "./wire/methods.ts";
import { type Properties, readProperties, replaceProperties, shortstr } from "./wire/properties.ts";
import { fieldOf, longstrTable, textOf } from "./wire/table.ts";

// Turns the messages that a client publishes on a channel into tasks, and confirms them after the commit.

interface Published {
  message: Message;
  read: Properties;
  mandatory: boolean;
  /** The number that a confirm names; 0 without confirms. */
  tag: number;
  /** The queues that it reaches, by the copy of the topology that was current then. */
  reached?: string[] | undefined;
}

/** Publishes on one channel: messages of one moment are routed together and added in one call. */
export class Publisher {
  readonly #channel: Channel;
  readonly #confirms: Confirms;
  #pending: Published[] = [];
  /** In a transaction: what a commit will publish. */
  #uncommitted: Published[] = [];

  constructor(channel: Channel) {
    this.#channel = channel;
    this.#confirms = new Confirms(channel);
  }

  get isPending(): boolean {
    return this.#pending.length > 0;
  }

  publish({ immediate, mandatory }: Args<"basic.publish">, message: Message): void {
    if (immediate) throw new AmqpError("NOT_IMPLEMENTED", "immediate=true");
    const read = readProperties(message.properties);
    this.#check(message, read);
    const { mode } = this.#channel;
    const tag = mode === "confirm" ? this.#confirms.next() : 0;
    const published = { message, read, mandatory, tag };
    if (mode === "tx") {
      this.#uncommitted.push(published);
      return;
    }
    this.#pending.push(published);
    const { door } = this.#channel.connection;
    door.unstored.add(message.body.length);
    this.#blockIfNecessary();
  }

  #blockIfNecessary(): void {
    const { connection } = this.#channel;
    const reason = connection.door.blockReason;
    if (reason !== undefined) connection.block(reason);
  }

  #check({ exchange }: Message, { userId, expiration }: Properties): void {
    const { connection, vhost } = this.#channel;
    if (userId !== undefined && userId !== connection.user)
      throw new AmqpError(
        "PRECONDITION_FAILED",
        `user_id property set to '${userId}' but authenticated user was '${connection.user}'`,
      );
    if (expiration !== undefined && !/^\d{1,15}$/.test(expiration))
      throw new AmqpError(
        "PRECONDITION_FAILED",
        `invalid expiration '${expiration}': ${problemOf(expiration)}`,
      );
    if (exchange === "") return;
    const found = connection.door.topology.exchange(vhost, exchange);
    if (found?.internal)
      throw new AmqpError(
        "ACCESS_REFUSED",
        `cannot publish to internal exchange '${exchange}' in vhost '${vhost}'`,
      );
  }

  /** Resolves when the messages are on their way to the store, not when they are stored. */
  async flush(): Promise<void> {
    const batch = this.#pending;
    this.#pending = [];
    const { unstored } = this.#channel.connection.door;
    const bytes = batch.reduce((sum, { message }) => sum + message.body.length, 0);
    const storing: Promise<void>[] = [];
    try {
      const isChecked = await this.#prepare(batch);
      this.#send(batch, isChecked, storing);
    } finally {
      void Promise.all(storing)
        .catch((error: unknown) => this.#channel.fail(error, "basic.publish"))
        .finally(() => unstored.remove(bytes));
    }
  }

  /**
   * Usually, messages are routed by the copy of the topology, and whether that was current is read in the commit that
   * adds them: a read before it would cost a round trip. Returns whether it was read before, which is necessary if the
   * copy is old, or leads a message nowhere.
   */
  async #prepare(batch: readonly Published[]): Promise<boolean> {
    const { connection, vhost } = this.#channel;
    const { door } = connection;
    if (door.topology.isRecent && batch.every((published) => this.#isRoutable(published))) return false;
    await door.topology.fresh();
    await door.lookUp(vhost, keysToDefault(batch));
    for (const published of batch) published.reached = undefined;
    return true;
  }

  #isRoutable(published: Published): boolean {
    const { headers } = published.read;
    if (headers?.length && (fieldOf(headers, "CC") || fieldOf(headers, "BCC"))) return false;
    published.reached = this.#queuesOf(published);
    return published.reached.length > 0;
  }

  /** What it adds to `storing` resolves when its messages are stored or refused. */
  #send(batch: readonly Published[], isChecked: boolean, storing: Promise<void>[]): void {
    const tasks: NewTask[] = [];
    const added: Published[] = [];
    try {
      for (const published of batch) {
        const targets = this.#targets(published);
        if (targets.length === 0) {
          this.#confirms.settle(published.tag, true);
          continue;
        }
        tasks.push(...targets);
        // A message for several queues is added by one call, and so are several messages.
        added.push(published);
        if (targets.length > 1) storing.push(this.#add(tasks.splice(0), added.splice(0), isChecked));
      }
    } finally {
      // What was published before a message that ends the channel is stored.
      if (tasks.length > 0) storing.push(this.#add(tasks, added, isChecked));
    }
  }

  /** All of them in one commit. If one is refused, each message is tried on its own. */
  async #add(tasks: NewTask[], of: readonly Published[], isChecked: boolean): Promise<void> {
    const { port, topology } = this.#channel.connection.door;
    try {
      // In this order, because both must be part of one commit: the broker sends a batch as soon as it is large.
      const isCurrent = isChecked || topology.isCurrent();
      await Promise.all([isCurrent, port.add(tasks)]);
      if (!(await isCurrent)) await this.#addMissing(tasks, of);
      this.#confirms.settleAll(of);
    } catch (error) {
      if (of.length > 1 && isDibsError(error) && !isStoreFault(error) && error.code !== "OUTCOME_UNKNOWN")
        await Promise.all(of.map((published, index) => this.#add([tasks[index]!], [published], isChecked)));
      else if (isFull(error) && tasks.length > 1) await this.#addToEach(tasks, of[0]!);
      else {
        for (const published of of) this.#refused(published, error);
        if (isFull(error)) await this.#deadLetterRefused(tasks[0]!, of[0]!);
      }
    }
  }

  /** Another server has changed exchanges or bindings: messages are added to the queues that these changes lead to. */
  async #addMissing(tasks: readonly NewTask[], of: readonly Published[]): Promise<void> {
    const { door } = this.#channel.connection;
    await door.topology.fresh();
    const missing = of.flatMap((published, index) => {
      const had = new Set((of.length === 1 ? tasks : [tasks[index]!]).map(({ queue }) => queue));
      return this.#tasksOf(published).filter(({ queue }) => !had.has(queue));
    });
    if (missing.length > 0) await door.port.add(missing);
  }

  /** One of its queues is full: the others get the message, and the publisher learns that one did not. */
  async #addToEach(tasks: readonly NewTask[], published: Published): Promise<void> {
    const { port } = this.#channel.connection.door;
    const outcomes = await Promise.allSettled(tasks.map((task) => port.add([task])));
    for (const [index, outcome] of outcomes.entries())
      if (outcome.status === "rejected" && isFull(outcome.reason))
        await this.#deadLetterRefused(tasks[index]!, published);
    const refused = outcomes.find((outcome) => outcome.status === "rejected");
    if (refused) this.#refused(published, refused.reason);
    else this.#confirms.settleAll([published]);
  }

  /** The overflow `reject-publish-dlx`: what a full queue refuses goes to its dead-letter exchange. */
  async #deadLetterRefused({ queue }: NewTask, { message }: Published): Promise<void> {
    const { door } = this.#channel.connection;
    const { vhost } = this.#channel;
    for (const { name, vhost: of, arguments: settings } of door.topology.queues()) {
      if (of !== vhost || queueOf(vhost, name) !== queue) continue;
      if (textOf(fieldOf(settings, "x-overflow")) !== "reject-publish-dlx") return;
      const dead = deadLetters(door, vhost, name, message, "maxlen") ?? [];
      if (dead.length > 0) await door.port.add(dead).catch(() => {});
      return;
    }
  }

  /** A full queue refuses quietly, as RabbitMQ's does: with confirms the publisher learns of it. */
  #refused({ tag }: Published, error: unknown): void {
    if (isStoreFault(error)) {
      this.#channel.connection.door.health.failed();
      this.#blockIfNecessary();
    }
    if (tag > 0) this.#confirms.settle(tag, false);
    else if (!isFull(error)) this.#channel.fail(error, "basic.publish");
    if (tag > 0 && isDibsError(error) && error.code === "PAYLOAD_TOO_LARGE")
      this.#channel.fail(error, "basic.publish");
  }

  #targets(published: Published): NewTask[] {
    const { message } = published;
    const { connection } = this.#channel;
    if (message.exchange === "" && message.routingKey.startsWith(REPLY_TO_PREFIX)) {
      connection.door.replies.deliver(message);
      // If it was delivered, too: as in RabbitMQ, no queue gets it.
      this.#unroutable(published);
      return [];
    }
    this.#checkKeys(published);
    const { exchange } = message;
    if (exchange !== "" && !connection.door.topology.exchange(this.#channel.vhost, exchange))
      throw new AmqpError("NOT_FOUND", `no exchange '${exchange}' in vhost '${this.#channel.vhost}'`);
    const tasks = this.#tasksOf(published, published.reached);
    if (tasks.length === 0) this.#unroutable(published);
    return tasks;
  }

  /** To the default exchange, keys are names of queues: of those that do not exist, too, so that it reveals nothing. */
  #checkKeys({ message, read }: Published): void {
    if (message.exchange !== "") return;
    for (const name of keysOf(message, read)) needOnQueue(this.#channel, ["add"], name);
  }

  /** One for each queue that the message reaches. The publisher may not know which queues an exchange leads to. */
  #tasksOf(published: Published, reached = this.#queuesOf(published)): NewTask[] {
    const { connection, vhost } = this.#channel;
    const { message, read } = this.#withReplyTo(published);
    return reached.map((name) => {
      needOnQueue(this.#channel, ["add"], name, `a queue of exchange '${message.exchange}'`);
      return queueTask(connection.door, vhost, name, message, read);
    });
  }

  #queuesOf({ message, read }: Pick<Published, "message" | "read">): string[] {
    const { exchange, routingKey } = message;
    const { connection, vhost } = this.#channel;
    const { topology } = connection.door;
    const headers = read.headers ?? [];
    if (exchange === "" && headers.length === 0)
      return connection.door.hasQueue(vhost, routingKey) ? [routingKey] : [];
    const keys = keysOf(message, read);
    if (exchange === "") return [...new Set(keys)].filter((name) => connection.door.hasQueue(vhost, name));
    const from = topology.exchange(vhost, exchange);
    return from ? route((name) => topology.exchange(vhost, name), from, keys, headers) : [];
  }

  /** The reply address of this channel replaces the general one, and the BCC header is removed. */
  #withReplyTo(published: Published): Published {
    const { message, read } = published;
    if (read.replyTo !== REPLY_TO && !read.headers?.length) return published;
    const changes: Parameters<typeof replaceProperties>[1] = {};
    if (read.replyTo === REPLY_TO)
      changes.replyTo = shortstr(this.#channel.connection.door.replies.addressOf(this.#channel));
    if (read.headers && fieldOf(read.headers, "BCC"))
      changes.headers = longstrTable(read.headers.filter(([name]) => name !== "BCC"));
    if (Object.keys(changes).length === 0) return published;
    return {
      ...published,
      message: { ...message, properties: replaceProperties(message.properties, changes) },
    };
  }

  #unroutable({ message, mandatory }: Published): void {
    if (!mandatory) return;
    const { exchange, routingKey } = message;
    this.#channel.connection.sendContent(
      this.#channel.number,
      "basic.return",
      { code: 312, text: "NO_ROUTE", exchange, routingKey },
      message,
    );
  }

  /** Makes the effects of a transaction: all its messages in one commit. */
  async commit(): Promise<void> {
    const batch = this.#uncommitted;
    this.#uncommitted = [];
    if (batch.length === 0) return;
    const { door } = this.#channel.connection;
    await door.topology.fresh();
    await door.lookUp(this.#channel.vhost, keysToDefault(batch));
    const tasks = batch.flatMap((published) => this.#targets(published));
    if (tasks.length > 0) await door.port.add(tasks);
  }

  rollback(): void {
    this.#uncommitted = [];
  }

  end(): void {
    const { unstored } = this.#channel.connection.door;
    for (const { message } of this.#pending.splice(0)) unstored.remove(message.body.length);
    this.#confirms.end();
  }
}

function isFull(error: unknown): boolean {
  return isDibsError(error) && error.code === "QUEUE_FULL";
}

function problemOf(expiration: string): string {
  if (/^-\d+$/.test(expiration)) return `{value_negative,${expiration}}`;
  const [, rest] = /^[+-]?\d+(.+)$/.exec(expiration) ?? [];
  return rest === undefined ? "no_integer" : `{leftover_string,"${rest}"}`;
}

/** The routing keys that name queues. */
function keysToDefault(batch: readonly Published[]): Set<string> {
  const keys = new Set<string>();
  for (const { message, read } of batch) {
    if (message.exchange !== "") continue;
    for (const key of keysOf(message, read)) keys.add(key);
  }
  return keys;
}

function keysOf({ routingKey }: Message, { headers }: Properties): string[] {
  if (!headers?.length) return [routingKey];
  return [routingKey, ...keysIn(headers, "CC"), ...keysIn(headers, "BCC")];
}
