import type { SettleCall } from "../../core/task/claim-call.ts";
import type { ClaimedTask } from "../../core/task/task.ts";
import type { Channel } from "./channel.ts";
import { deadLetter, type DeathReason } from "./dead-letters.ts";
import type { Consumer, Feeder } from "./feeder.ts";
import { type Message, messageOf, withDeliveryCount } from "./message.ts";
import { CONSUMER_TIMEOUT_MS } from "./queue-arguments.ts";
import { AmqpError } from "./wire/errors.ts";
import { fieldOf, numberOf } from "./wire/table.ts";

/** Tasks that a consumer without a limit takes at once. What its connection cannot write bounds it, too. */
const UNLIMITED = 500;

interface Unacked {
  fence: number;
  feeder: Feeder;
  /** As AMQP calls the queue. */
  queueName: string;
  /** Whose prefetch it counts for. Undefined: it came by basic.get, or its claim is lost. */
  consumer: ChannelConsumer | undefined;
}

/** How a message ends: acknowledged, back to its queue, or given up. */
export type Verdict = "ack" | "requeue" | "reject";

/** What one channel was sent and has not acknowledged, and its consumers. */
export class Deliveries {
  readonly #channel: Channel;
  readonly consumers = new Map<string, ChannelConsumer>();
  /** By delivery tag, in the order of the tags. */
  readonly #unacked = new Map<number, Unacked>();
  /** In a transaction: what a commit will settle. */
  #uncommitted: { tag: number; unacked: Unacked; verdict: Verdict }[] = [];
  #lastTag = 0;
  /** Of each consumer that starts from now on; 0: no limit. */
  prefetch = 0;
  /** Of all consumers of the channel together; 0: no limit. */
  channelPrefetch = 0;
  #isEnded = false;

  constructor(channel: Channel) {
    this.#channel = channel;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  get unackedByConsumers(): number {
    let count = 0;
    for (const consumer of this.consumers.values()) count += consumer.unacked;
    return count;
  }

  get isEmpty(): boolean {
    return this.#unacked.size === 0;
  }

  /** More messages than this can be in flight on the channel. */
  get channelRoom(): number {
    return this.channelPrefetch === 0 ? UNLIMITED : this.channelPrefetch - this.unackedByConsumers;
  }

  #nextTag(unacked: Unacked | undefined): number {
    const tag = ++this.#lastTag;
    if (unacked) this.#unacked.set(tag, unacked);
    return tag;
  }

  deliver(consumer: ChannelConsumer, task: ClaimedTask): void {
    const { feeder, noAck, tag: consumerTag, queueName } = consumer;
    const redelivered = task.attempt > 1;
    const message = withDeliveryCount(
      messageOf(task, queueName),
      task,
      consumer.countsDeliveries && redelivered,
    );
    const { exchange, routingKey } = message;
    const deliveryTag = this.#nextTag(noAck ? undefined : { fence: task.fence, feeder, queueName, consumer });
    const { connection, number } = this.#channel;
    const args = { consumerTag, deliveryTag, redelivered, exchange, routingKey };
    connection.sendContent(number, "basic.deliver", args, message);
    if (noAck) this.#settle(feeder, task.fence, ACK);
    else consumer.unacked++;
  }

  deliverReply(consumerTag: string, message: Message): void {
    const { exchange, routingKey } = message;
    const args = {
      consumerTag,
      deliveryTag: 1,
      redelivered: false,
      exchange,
      routingKey,
    };
    this.#channel.connection.sendContent(this.#channel.number, "basic.deliver", args, message);
  }

  /** @param count how many messages the queue still has */
  deliverOne(
    feeder: Feeder,
    queueName: string,
    task: ClaimedTask,
    { noAck, countsDeliveries }: { noAck: boolean; countsDeliveries: boolean },
    count: number,
  ): void {
    const message = withDeliveryCount(messageOf(task, queueName), task, countsDeliveries);
    const { exchange, routingKey } = message;
    const unacked = noAck ? undefined : { fence: task.fence, feeder, queueName, consumer: undefined };
    const args = {
      deliveryTag: this.#nextTag(unacked),
      redelivered: task.attempt > 1,
      exchange,
      routingKey,
      messageCount: count,
    };
    this.#channel.connection.sendContent(this.#channel.number, "basic.get-ok", args, message);
    if (noAck) this.#settle(feeder, task.fence, ACK);
  }

  settle(deliveryTag: number, multiple: boolean, verdict: Verdict): void {
    if (verdict === "ack" && !multiple && this.#channel.mode !== "tx") return this.#acknowledge(deliveryTag);
    const settled = this.#take(deliveryTag, multiple);
    if (this.#channel.mode === "tx")
      this.#uncommitted.push(...settled.map(([tag, unacked]) => ({ tag, unacked, verdict })));
    else
      this.#end(
        settled.map(([, unacked]) => unacked),
        verdict,
      );
  }

  /** The usual way to settle, which costs no lists. */
  #acknowledge(deliveryTag: number): void {
    const unacked = this.#takeOne(deliveryTag);
    const { fence, feeder, consumer } = unacked;
    if (consumer) consumer.unacked--;
    this.#settle(feeder, fence, ACK);
    this.#pumpAfter(feeder);
  }

  #pumpAfter(feeder: Feeder): void {
    feeder.pumpSoon();
    // The limit of the channel may have kept other queues waiting.
    if (this.channelPrefetch > 0) this.pumpAll();
  }

  #takeOne(deliveryTag: number): Unacked {
    const unacked = this.#unacked.get(deliveryTag);
    if (!unacked) throw unknownTag(deliveryTag);
    this.#unacked.delete(deliveryTag);
    return unacked;
  }

  #take(deliveryTag: number, multiple: boolean): [number, Unacked][] {
    if (multiple) {
      const all = deliveryTag === 0;
      const taken: [number, Unacked][] = [];
      for (const entry of this.#unacked) {
        if (!all && entry[0] > deliveryTag) break;
        taken.push(entry);
      }
      // A tag that was given out and is already acknowledged is no error here.
      if (taken.length === 0 && !all && !this.#unacked.has(deliveryTag) && deliveryTag > this.#lastTag)
        throw unknownTag(deliveryTag);
      for (const [tag] of taken) this.#unacked.delete(tag);
      return taken;
    }
    return [[deliveryTag, this.#takeOne(deliveryTag)]];
  }

  #end(settled: readonly Unacked[], verdict: Verdict): void {
    const feeders = new Set<Feeder>();
    for (const unacked of settled) {
      const { fence, feeder, consumer } = unacked;
      if (consumer) consumer.unacked--;
      feeders.add(feeder);
      if (verdict === "ack") this.#settle(feeder, fence, ACK);
      else if (verdict === "requeue") this.#watch(this.#return(unacked, "requeued"));
      else this.#watch(this.#giveUp(unacked, "rejected", { kind: "reject", error: REJECTED }));
    }
    for (const feeder of feeders) this.#pumpAfter(feeder);
  }

  /** Back to its queue, unless that was its last attempt. */
  async #return(unacked: Unacked, why: "requeued" | "lost"): Promise<void> {
    const { feeder, fence } = unacked;
    if (!feeder.isLastAttempt(fence)) return feeder.returnTask(fence, why);
    return this.#giveUp(unacked, "delivery_limit", feeder.returnCall(why));
  }

  /** To the dead-letter exchange of its queue. Without one, `otherwise` ends the claim: dibs keeps it as a dead letter. */
  async #giveUp(unacked: Unacked, reason: DeathReason, otherwise: SettleCall): Promise<void> {
    const { feeder, fence, queueName } = unacked;
    const { connection, vhost } = this.#channel;
    const task = feeder.taskOf(fence);
    if (!task) return;
    await connection.door.topology.fresh();
    const moved = deadLetter(connection.door, vhost, queueName, task, reason);
    await feeder.settle(fence, moved ?? otherwise);
  }

  #settle(feeder: Feeder, fence: number, call: SettleCall): void {
    this.#watch(feeder.settle(fence, call));
  }

  /** A claim that was lost is no error of the client. Everything else is: the message would wait until its lease ends. */
  #watch(settling: Promise<unknown>): void {
    settling.catch((error: unknown) => {
      if ((error as { code?: string }).code !== "CLAIM_LOST") this.#channel.fail(error);
    });
  }

  /** Returns all messages that are not acknowledged. */
  recover(): void {
    const settled = [...this.#unacked.values()];
    this.#unacked.clear();
    this.#end(settled, "requeue");
  }

  commit(): void {
    const settled = this.#uncommitted;
    this.#uncommitted = [];
    for (const { unacked, verdict } of settled) this.#end([unacked], verdict);
  }

  /** The acknowledgements count as never made. */
  rollback(): void {
    const before = [...this.#unacked];
    const undone = this.#uncommitted.map(({ tag, unacked }) => [tag, unacked] as [number, Unacked]);
    this.#uncommitted = [];
    this.#unacked.clear();
    for (const [tag, unacked] of [...undone, ...before].sort(([a], [b]) => a - b))
      this.#unacked.set(tag, unacked);
  }

  /**
   * The claim of a message has ended without this channel. The client does not know, so its
   * acknowledgement is still valid, and has no effect. Returns whether the client has the message.
   */
  lost(fence: number): boolean {
    for (const unacked of this.#unacked.values()) {
      if (unacked.fence !== fence) continue;
      if (unacked.consumer) unacked.consumer.unacked--;
      unacked.consumer = undefined;
      return true;
    }
    return false;
  }

  pumpAll(): void {
    for (const feeder of new Set([...this.consumers.values()].map((each) => each.feeder))) feeder.pump();
  }

  /** The channel is gone: what it holds returns to its queues. */
  async end(): Promise<void> {
    if (this.#isEnded) return;
    this.#isEnded = true;
    const consumers = [...this.consumers.values()];
    this.consumers.clear();
    const held = [...this.#unacked.values(), ...this.#uncommitted.map(({ unacked }) => unacked)];
    this.#unacked.clear();
    const feeders = new Set(held.map(({ feeder }) => feeder));
    // First, so that the next single active consumer gets them before what is behind them.
    const returning = held.map((unacked) => this.#return(unacked, "lost").catch(() => {}));
    for (const consumer of consumers) consumer.feeder.remove(consumer);
    this.#channel.connection.door.replies.close(this.#channel);
    await Promise.all(returning);
    for (const feeder of feeders) feeder.pump();
    for (const consumer of consumers) this.#channel.connection.door.consumerLeft(consumer);
  }
}

const ACK: SettleCall = { kind: "ack", result: null };

function unknownTag(tag: number): AmqpError {
  return new AmqpError("PRECONDITION_FAILED", `unknown delivery tag ${tag}`);
}

const REJECTED = {
  name: "Rejected",
  message: "The consumer refused the message with basic.reject or basic.nack, without requeue.",
  stack: null,
};

/** One consumer of a channel. */
export class ChannelConsumer implements Consumer {
  readonly tag: string;
  readonly feeder: Feeder;
  readonly queueName: string;
  readonly noAck: boolean;
  readonly isExclusive: boolean;
  /** Its queue is a quorum queue: a message says how often it was delivered before. */
  readonly countsDeliveries: boolean;
  readonly isSingleActive: boolean;
  readonly priority: number;
  readonly #channel: Channel;
  readonly #prefetch: number;
  unacked = 0;

  constructor(
    channel: Channel,
    options: Pick<
      ChannelConsumer,
      | "tag"
      | "feeder"
      | "queueName"
      | "noAck"
      | "isExclusive"
      | "countsDeliveries"
      | "isSingleActive"
      | "priority"
    >,
  ) {
    this.#channel = channel;
    this.tag = options.tag;
    this.feeder = options.feeder;
    this.queueName = options.queueName;
    this.noAck = options.noAck;
    this.isExclusive = options.isExclusive;
    this.countsDeliveries = options.countsDeliveries;
    this.isSingleActive = options.isSingleActive;
    this.priority = options.priority;
    this.#prefetch = channel.deliveries.prefetch;
  }

  get vhost(): string {
    return this.#channel.vhost;
  }

  /** Below 0: its connection cannot write what it was sent before. */
  get room(): number {
    if (this.#channel.connection.isCongested || !this.#channel.isOpen) return -1;
    if (this.noAck) return UNLIMITED;
    const own = this.#prefetch === 0 ? UNLIMITED : this.#prefetch - this.unacked;
    return Math.min(own, this.#channel.deliveries.channelRoom);
  }

  deliver(task: ClaimedTask): void {
    this.#channel.deliveries.deliver(this, task);
  }

  lost(fence: number, isTimeout: boolean): void {
    if (!this.#channel.deliveries.lost(fence) || !isTimeout) return;
    const { connection, number, vhost } = this.#channel;
    const settings = connection.door.topology.queue(vhost, this.queueName)?.arguments ?? [];
    const ms = numberOf(fieldOf(settings, "x-consumer-timeout")) ?? CONSUMER_TIMEOUT_MS;
    this.#channel.fail(
      new AmqpError(
        "PRECONDITION_FAILED",
        `delivery acknowledgement on channel ${number} timed out. Timeout value used: ${ms} ms. ` +
          `This timeout value can be configured, see consumers doc guide to learn more`,
      ),
    );
  }

  cancelled(): void {
    this.#channel.deliveries.consumers.delete(this.tag);
    if (this.#channel.isOpen && this.#channel.connection.canBeCancelled)
      this.#channel.send("basic.cancel", { consumerTag: this.tag, noWait: true });
  }
}
