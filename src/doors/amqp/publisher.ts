import { isDibsError } from "../../core/errors.ts";
import type { NewTask } from "../../core/task.ts";
import { isStoreFault } from "../../core/store-fault.ts";
import { Confirms } from "./confirms.ts";
import type { Channel } from "./channel.ts";
import { deadLetters } from "./dead-letters.ts";
import type { Message } from "./message.ts";
import { queueTask } from "./queue-task.ts";
import { queueOf } from "./names.ts";
import { REPLY_TO, REPLY_TO_PREFIX } from "./replies.ts";
import { route } from "./route.ts";
import { keysIn } from "./sender-keys.ts";
import { AmqpError } from "./wire/errors.ts";
import type { Args } from "./wire/methods.ts";
import { type Properties, readProperties, replaceProperties, shortstr } from "./wire/properties.ts";
import { fieldOf, longstrTable, textOf } from "./wire/table.ts";

interface Published {
  message: Message;
  read: Properties;
  mandatory: boolean;
  /** The number that a confirm names; 0 without confirms. */
  tag: number;
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
    if (door.unstored.isFull) this.#channel.connection.block();
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
    const { connection, vhost } = this.#channel;
    const { topology, unstored } = connection.door;
    const bytes = batch.reduce((sum, { message }) => sum + message.body.length, 0);
    let storing: Promise<void>[] = [];
    try {
      await topology.fresh();
      await connection.door.lookUp(vhost, keysToDefault(batch));
      storing = this.#send(batch);
    } finally {
      void Promise.all(storing).finally(() => unstored.remove(bytes));
    }
  }

  /** Each promise resolves when its messages are stored or refused. */
  #send(batch: readonly Published[]): Promise<void>[] {
    const storing: Promise<void>[] = [];
    const tasks: NewTask[] = [];
    const added: Published[] = [];
    for (const published of batch) {
      const targets = this.#targets(published);
      if (targets.length === 0) this.#confirms.settle(published.tag, true);
      else {
        tasks.push(...targets);
        // A message for several queues is added by one call, and so are several messages.
        added.push(published);
        if (targets.length > 1) {
          storing.push(this.#add(tasks.splice(0), added.splice(0)));
        }
      }
    }
    if (tasks.length > 0) storing.push(this.#add(tasks, added));
    return storing;
  }

  /** All of them in one commit. If one is refused, each message is tried on its own. */
  async #add(tasks: NewTask[], of: readonly Published[]): Promise<void> {
    const { port } = this.#channel.connection.door;
    try {
      await port.add(tasks);
      this.#confirms.settleAll(of);
    } catch (error) {
      if (of.length > 1 && isDibsError(error) && !isStoreFault(error) && error.code !== "OUTCOME_UNKNOWN")
        await Promise.all(of.map((published, index) => this.#add([tasks[index]!], [published])));
      else if (isFull(error) && tasks.length > 1) await this.#addToEach(tasks, of[0]!);
      else {
        for (const published of of) this.#refused(published, error);
        if (isFull(error)) await this.#deadLetterRefused(tasks[0]!, of[0]!);
      }
    }
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
    if (tag > 0) this.#confirms.settle(tag, false);
    else if (!isFull(error)) this.#channel.fail(error, "basic.publish");
    if (tag > 0 && isDibsError(error) && error.code === "PAYLOAD_TOO_LARGE")
      this.#channel.fail(error, "basic.publish");
  }

  #targets(published: Published): NewTask[] {
    const { message } = published;
    const { connection, vhost } = this.#channel;
    const { door } = connection;
    if (message.exchange === "" && message.routingKey.startsWith(REPLY_TO_PREFIX)) {
      const isSent = door.replies.deliver(message);
      if (!isSent) this.#unroutable(published);
      return [];
    }
    const prepared = this.#withReplyTo(published);
    const queues = this.#route(prepared);
    const tasks = queues.map((name) => {
      const queue = queueOf(vhost, name);
      connection.need("add", queue);
      return queueTask(door, vhost, name, prepared.message, prepared.read);
    });
    if (tasks.length === 0) this.#unroutable(published);
    return tasks;
  }

  #route({ message, read }: Published): string[] {
    const { exchange, routingKey } = message;
    const { connection, vhost } = this.#channel;
    const { topology } = connection.door;
    const headers = read.headers ?? [];
    const keys = [routingKey, ...keysIn(headers, "CC"), ...keysIn(headers, "BCC")];
    if (exchange === "") return [...new Set(keys)].filter((name) => connection.door.hasQueue(vhost, name));
    const from = topology.exchange(vhost, exchange);
    if (!from) throw new AmqpError("NOT_FOUND", `no exchange '${exchange}' in vhost '${vhost}'`);
    return route((name) => topology.exchange(vhost, name), from, keys, headers);
  }

  /** The reply address of this channel replaces the general one, and the BCC header is removed. */
  #withReplyTo(published: Published): Published {
    const { message, read } = published;
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
    keys.add(message.routingKey);
    if (read.headers)
      for (const key of [...keysIn(read.headers, "CC"), ...keysIn(read.headers, "BCC")]) keys.add(key);
  }
  return keys;
}
