import { isDibsError } from "../../core/errors.ts";
import type { NewTask } from "../../core/task.ts";
import { isStoreFault } from "../../core/store-fault.ts";
import { Confirms } from "./confirms.ts";
import type { Channel } from "./channel.ts";
import type { Message } from "./message.ts";
import { queueTask } from "./queue-task.ts";
import { queueOf } from "./names.ts";
import { REPLY_TO, REPLY_TO_PREFIX } from "./replies.ts";
import { route } from "./route.ts";
import { AmqpError } from "./wire/errors.ts";
import type { Args } from "./wire/methods.ts";
import { type Properties, readProperties, replaceProperties, shortstr } from "./wire/properties.ts";
import { type Table, fieldOf, longstrTable, typeName } from "./wire/table.ts";

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
    if (mode === "tx") this.#uncommitted.push(published);
    else this.#pending.push(published);
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
    await connection.door.topology.fresh();
    await connection.door.lookUp(vhost, keysToDefault(batch));
    this.#send(batch);
  }

  #send(batch: readonly Published[]): void {
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
          this.#add(tasks.splice(0), added.splice(0));
        }
      }
    }
    if (tasks.length > 0) this.#add(tasks, added);
  }

  /** All of them in one commit. If one is refused, each is tried on its own. */
  #add(tasks: NewTask[], of: readonly Published[]): void {
    const { port } = this.#channel.connection.door;
    port.add(tasks).then(
      () => this.#confirms.settleAll(of),
      (error: unknown) => {
        if (of.length > 1 && isDibsError(error) && !isStoreFault(error) && error.code !== "OUTCOME_UNKNOWN")
          for (const [index, published] of of.entries()) this.#add([tasks[index]!], [published]);
        else for (const published of of) this.#refused(published, error);
      },
    );
  }

  /** A full queue refuses quietly, as RabbitMQ's does: with confirms the publisher learns of it. */
  #refused({ tag }: Published, error: unknown): void {
    const isFull = isDibsError(error) && error.code === "QUEUE_FULL";
    if (tag > 0) this.#confirms.settle(tag, false);
    else if (!isFull) this.#channel.fail(error, "basic.publish");
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
    this.#pending = [];
    this.#confirms.end();
  }
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

/** The additional routing keys of the sender. */
export function keysIn(headers: Table, name: string): string[] {
  const field = fieldOf(headers, name);
  if (field === undefined) return [];
  if (field.type !== "A")
    throw new AmqpError(
      "PRECONDITION_FAILED",
      `invalid message: {unacceptable_type_in_header,"${name}",${typeName(field)}}`,
    );
  return field.value.flatMap((each) => (each.type === "S" ? [each.value.toString()] : []));
}
