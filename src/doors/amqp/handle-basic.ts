import type { Channel, Handlers } from "./channel.ts";
import { ChannelConsumer } from "./deliveries.ts";
import { findQueue, nameOf } from "./handle-queue.ts";
import { generatedName } from "./names.ts";
import { REPLY_TO } from "./replies.ts";
import { AmqpError } from "./wire/errors.ts";
import type { QueueRecord } from "./topology.ts";
import { fieldOf, numberOf, readTable, textOf, typeName } from "./wire/table.ts";
import type { Args } from "./wire/methods.ts";

/** The methods on messages, except publish. */

async function consume(channel: Channel, args: Args<"basic.consume">): Promise<void> {
  const { noAck, exclusive, noWait } = args;
  const { connection, vhost, deliveries } = channel;
  const { door } = connection;
  const tag = args.consumerTag === "" ? generatedName("amq.ctag-") : args.consumerTag;
  if (deliveries.consumers.has(tag) || door.replies.consumerTagOf(channel) === tag)
    throw new AmqpError("NOT_ALLOWED", `attempt to reuse consumer tag '${tag}'`);
  if (args.queue === REPLY_TO) {
    door.replies.open(channel, tag, noAck);
    return channel.answer(noWait, "basic.consume-ok", { consumerTag: tag });
  }
  const { name, queue, record } = await findQueue(channel, nameOf(channel, args.queue), ["work"]);
  const where = `queue '${name}' in vhost '${vhost}'`;
  const field = fieldOf(readTable(args.arguments), "x-priority");
  const priority = numberOf(field) ?? 0;
  if (field && numberOf(field) === undefined)
    throw new AmqpError(
      "PRECONDITION_FAILED",
      `invalid arg 'x-priority' for ${where}: "expected integer, got ${typeName(field)}"`,
    );
  const feeder = door.feederOf(queue);
  const others = feeder.consumers as readonly ChannelConsumer[];
  const isTaken = exclusive ? others.length > 0 : others.some((each) => each.isExclusive);
  if (isQuorum(record) && deliveries.channelPrefetch > 0)
    throw new AmqpError("NOT_IMPLEMENTED", `${where} does not support global qos`);
  if (isTaken || (exclusive && isSingleActive(record)))
    throw new AmqpError("ACCESS_REFUSED", `${where} in exclusive use`);
  const options = {
    ...{ tag, feeder, queueName: name, noAck, isExclusive: exclusive, priority },
    countsDeliveries: isQuorum(record),
    isSingleActive: isSingleActive(record),
  };
  const consumer = new ChannelConsumer(channel, options);
  deliveries.consumers.set(tag, consumer);
  channel.answer(noWait, "basic.consume-ok", { consumerTag: tag });
  door.used(vhost, name);
  feeder.add(consumer);
}

function isSingleActive(record: QueueRecord | undefined): boolean {
  const field = fieldOf(record?.arguments ?? [], "x-single-active-consumer");
  return field?.type === "t" && field.value;
}

function isQuorum(record: QueueRecord | undefined): boolean {
  return textOf(fieldOf(record?.arguments ?? [], "x-queue-type")) === "quorum";
}

function cancel(channel: Channel, { consumerTag, noWait }: Args<"basic.cancel">): void {
  const { deliveries, connection } = channel;
  const consumer = deliveries.consumers.get(consumerTag);
  if (connection.door.replies.consumerTagOf(channel) === consumerTag) connection.door.replies.close(channel);
  if (consumer) {
    deliveries.consumers.delete(consumerTag);
    consumer.feeder.remove(consumer);
  }
  channel.answer(noWait, "basic.cancel-ok", { consumerTag });
  if (consumer) connection.door.consumerLeft(consumer);
}

export const BASIC_HANDLERS: Handlers = {
  "basic.qos": (channel, { prefetchSize, prefetchCount, global }) => {
    if (prefetchSize !== 0) throw new AmqpError("NOT_IMPLEMENTED", `prefetch_size!=0 (${prefetchSize})`);
    const { deliveries } = channel;
    if (global) deliveries.channelPrefetch = prefetchCount;
    else deliveries.prefetch = prefetchCount;
    channel.send("basic.qos-ok", {});
    if (global) deliveries.pumpAll();
  },
  "basic.consume": consume,
  "basic.cancel": cancel,
  "basic.cancel-ok": () => {},
  "basic.get": async (channel, { queue: given, noAck }) => {
    const { connection, vhost, deliveries } = channel;
    const { door } = connection;
    const { name, queue, record } = await findQueue(channel, nameOf(channel, given), ["work"]);
    door.used(vhost, name);
    if (isQuorum(record) && isSingleActive(record))
      throw new AmqpError(
        "RESOURCE_LOCKED",
        `cannot obtain access to locked queue '${name}' in vhost '${vhost}'. basic.get operations are not supported by ` +
          `quorum queues with single active consumer`,
      );
    const feeder = door.feederOf(queue);
    const found = await feeder.get();
    if (!found) return channel.send("basic.get-empty", {});
    const { messageCount } = await door.countsOf(queue);
    const how = { noAck, countsDeliveries: isQuorum(record) };
    deliveries.deliverOne(feeder, name, found, how, messageCount);
  },
  "basic.ack": (channel, { deliveryTag, multiple }) =>
    channel.deliveries.settle(deliveryTag, multiple, "ack"),
  "basic.nack": (channel, { deliveryTag, multiple, requeue }) =>
    channel.deliveries.settle(deliveryTag, multiple, requeue ? "requeue" : "reject"),
  "basic.reject": (channel, { deliveryTag, requeue }) =>
    channel.deliveries.settle(deliveryTag, false, requeue ? "requeue" : "reject"),
  "basic.recover": (channel, { requeue }) => {
    if (!requeue) throw new AmqpError("NOT_IMPLEMENTED", "requeue=false");
    channel.deliveries.recover();
    channel.send("basic.recover-ok", {});
  },
  "basic.recover-async": (channel, { requeue }) => {
    if (!requeue) throw new AmqpError("NOT_IMPLEMENTED", "requeue=false");
    channel.deliveries.recover();
  },
};
