import type { Port } from "../../core/port.ts";
import type { Channel, Handlers } from "./channel.ts";
import type { Kind } from "./door.ts";
import { bindingOf, refuseDefault } from "./handle-exchange.ts";
import { generatedName, queueOf } from "./names.ts";
import { checkSame, policyOf, type QueueSettings, readArguments } from "./queue-arguments.ts";
import { REPLY_TO, REPLY_TO_PREFIX } from "./replies.ts";
import { needOnExchange, needOnQueue } from "./scopes.ts";
import type { QueueRecord } from "./topology.ts";
import { AmqpError } from "./wire/errors.ts";
import type { Args } from "./wire/methods.ts";
import { readTable } from "./wire/table.ts";

/** The methods on queues. */

/** A queue that exists: its record if AMQP declared it, and its name in dibs. */
export interface Found {
  name: string;
  queue: string;
  record: QueueRecord | undefined;
}

/** An empty name is the queue that was declared last on the channel. */
export function nameOf(channel: Channel, given: string): string {
  if (given !== "") return given;
  if (channel.lastQueue === "") throw new AmqpError("NOT_FOUND", "no previously declared queue");
  return channel.lastQueue;
}

const ANY: readonly Kind[] = ["add", "work", "read", "admin"];

/** @param kinds the scopes of which the token needs one on the queue */
export async function findQueue(channel: Channel, name: string, kinds = ANY): Promise<Found> {
  const { connection, vhost } = channel;
  const { door } = connection;
  const queue = queueOf(vhost, name);
  needOnQueue(channel, kinds, name);
  await door.topology.fresh();
  if (!(await door.exists(queue))) {
    // It was dropped by other means: what AMQP said about it goes with it.
    if (door.topology.queue(vhost, name)) await door.topology.removeQueue(vhost, name);
    throw new AmqpError("NOT_FOUND", `no queue '${name}' in vhost '${vhost}'`);
  }
  const record = door.topology.queue(vhost, name);
  checkOwner(channel, name, record);
  return { name, queue, record };
}

function checkOwner(channel: Channel, name: string, record: QueueRecord | undefined): void {
  if (record && record.owner !== null && record.owner !== channel.connection.id) throw locked(channel, name);
}

function locked({ vhost }: Channel, name: string): AmqpError {
  return new AmqpError(
    "RESOURCE_LOCKED",
    `cannot obtain exclusive access to locked queue '${name}' in vhost '${vhost}'. It could be originally declared on ` +
      `another connection or the exclusive property value does not match that of the original declaration.`,
  );
}

async function declare(channel: Channel, args: Args<"queue.declare">): Promise<void> {
  const { durable, exclusive, autoDelete, noWait } = args;
  const { connection, vhost } = channel;
  const { door } = connection;
  await door.topology.fresh();
  const name = args.queue === "" ? generatedName("amq.gen-") : args.queue;
  const where = `queue '${name}' in vhost '${vhost}'`;
  const queue = queueOf(vhost, name);
  needOnQueue(channel, ["add", "work"], name);
  const before = door.topology.queue(vhost, name);
  const exists = await door.exists(queue);
  if (!exists && args.queue.startsWith("amq."))
    throw new AmqpError("ACCESS_REFUSED", `queue name '${name}' contains reserved prefix 'amq.*'`);
  const table = readTable(args.arguments);
  if (exists && before) {
    checkOwner(channel, name, before);
    if (exclusive !== (before.owner !== null)) throw locked(channel, name);
    const flags = { durable: [durable, before.durable], auto_delete: [autoDelete, before.autoDelete] };
    for (const [flag, [now, was]] of Object.entries(flags))
      if (now !== was)
        throw new AmqpError(
          "PRECONDITION_FAILED",
          `inequivalent arg '${flag}' for ${where}: received '${now}' but current is '${was}'`,
        );
    checkSame(before.arguments, table, where);
  } else {
    const settings = readArguments(table, where, { durable, exclusive, autoDelete });
    needDeadLetters(channel, settings);
    const owner = exclusive ? connection.id : null;
    // A queue that dibs made keeps its policy: the declaration only adds what AMQP says about it.
    await door.port.declare(queue, policyOf(settings), { create: true });
    await door.topology.putQueue({ vhost, name, durable, autoDelete, owner, arguments: table });
    door.madeQueue(queue);
  }
  door.used(vhost, name);
  channel.lastQueue = name;
  if (!noWait) channel.send("queue.declare-ok", { queue: name, ...(await door.countsOf(queue)) });
}

/** Its owner may purge and delete an exclusive queue, whatever else it may do. */
function isOwn({ connection, vhost }: Channel, name: string): boolean {
  return connection.door.topology.queue(vhost, name)?.owner === connection.id;
}

function neededToRemove(channel: Channel, name: string): readonly Kind[] {
  return isOwn(channel, name) ? ANY : ["admin"];
}

/** The token's port also writes the audit log. */
function portToRemove(channel: Channel, name: string): Port {
  const { connection } = channel;
  return isOwn(channel, name) ? connection.door.port : connection.port;
}

/**
 * Dead letters move without a client, to wherever the arguments of their queue lead. So a client that declares it needs
 * `add` there. Without a key of the queue's own, messages name any queue by their own keys.
 */
function needDeadLetters(channel: Channel, settings: QueueSettings): void {
  const { deadLetterExchange: exchange, deadLetterRoutingKey: key } = settings;
  if (exchange === undefined) return;
  if (exchange !== "") needOnExchange(channel, ["add"], exchange);
  else if (key !== undefined) needOnQueue(channel, ["add"], key);
  else channel.connection.needAny(["add"], "*", "every queue");
}

export const QUEUE_HANDLERS: Handlers = {
  "queue.declare": async (channel, args) => {
    if (!args.passive) return declare(channel, args);
    const { door } = channel.connection;
    const name = args.queue;
    if (name === REPLY_TO || (name.startsWith(REPLY_TO_PREFIX) && door.replies.isOpen(name)))
      return channel.answer(args.noWait, "queue.declare-ok", {
        queue: name,
        messageCount: 0,
        consumerCount: 1,
      });
    const { queue } = await findQueue(channel, name);
    door.used(channel.vhost, name);
    channel.lastQueue = name;
    channel.answer(args.noWait, "queue.declare-ok", { queue: name, ...(await door.countsOf(queue)) });
  },
  "queue.bind": async (channel, { queue: given, exchange, routingKey, noWait, arguments: table }) => {
    refuseDefault(exchange);
    const name = nameOf(channel, given);
    // The queue gets what others publish to the exchange.
    needOnExchange(channel, ["add", "work"], exchange);
    await findQueue(channel, name, ["add", "work"]);
    // With an empty name and key, the key is the queue's name.
    const key = given === "" && routingKey === "" ? name : routingKey;
    const ends = {
      source: exchange,
      destination: name,
      to: "queue",
      routingKey: key,
      arguments: table,
    } as const;
    const binding = bindingOf(channel, ends);
    await channel.connection.door.topology.bind(binding);
    channel.answer(noWait, "queue.bind-ok", {});
  },
  "queue.unbind": async (channel, { queue: given, exchange, routingKey, arguments: table }) => {
    refuseDefault(exchange);
    const { connection, vhost } = channel;
    const { topology } = connection.door;
    const name = nameOf(channel, given);
    needOnQueue(channel, ["add", "work"], name);
    await topology.fresh();
    checkOwner(channel, name, topology.queue(vhost, name));
    const key = given === "" && routingKey === "" ? name : routingKey;
    const ends = { vhost, source: exchange, destination: name, to: "queue", routingKey: key } as const;
    // Nothing to remove is no error.
    await topology.unbind({ ...ends, arguments: readTable(table) });
    channel.send("queue.unbind-ok", {});
  },
  "queue.purge": async (channel, { queue: given, noWait }) => {
    const name = nameOf(channel, given);
    const { queue } = await findQueue(channel, name, neededToRemove(channel, name));
    const { door } = channel.connection;
    door.feederOf(queue).releaseBuffer();
    const messageCount = await portToRemove(channel, name).purge(queue);
    channel.answer(noWait, "queue.purge-ok", { messageCount });
  },
  "queue.delete": async (channel, { queue: given, ifUnused, ifEmpty, noWait }) => {
    const { connection, vhost } = channel;
    const { door } = connection;
    const name = nameOf(channel, given);
    let found: Found;
    try {
      found = await findQueue(channel, name, neededToRemove(channel, name));
    } catch (error) {
      if (error instanceof AmqpError && error.code === 404)
        return channel.answer(noWait, "queue.delete-ok", { messageCount: 0 });
      throw error;
    }
    const { messageCount, consumerCount } = await door.countsOf(found.queue);
    const where = `queue '${name}' in vhost '${vhost}'`;
    if (ifUnused && consumerCount > 0) throw new AmqpError("PRECONDITION_FAILED", `${where} in use`);
    if (ifEmpty && messageCount > 0) throw new AmqpError("PRECONDITION_FAILED", `${where} not empty`);
    await door.removeQueue(vhost, name, portToRemove(channel, name));
    channel.answer(noWait, "queue.delete-ok", { messageCount });
  },
};
