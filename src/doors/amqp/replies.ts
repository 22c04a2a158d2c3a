import { randomBytes } from "node:crypto";
import type { Channel } from "./channel.ts";
import type { Message } from "./message.ts";
import { AmqpError } from "./wire/errors.ts";

/** Direct reply-to: answers go from one channel to another of this server, without a queue, as RabbitMQ's do. */
export const REPLY_TO = "amq.rabbitmq.reply-to";
export const REPLY_TO_PREFIX = `${REPLY_TO}.`;

interface Place {
  channel: Channel;
  consumerTag: string;
  address: string;
}

export class Replies {
  readonly #byAddress = new Map<string, Place>();
  readonly #byChannel = new Map<Channel, Place>();

  /** The channel consumes its replies. */
  open(channel: Channel, consumerTag: string, noAck: boolean): void {
    if (!noAck) throw new AmqpError("PRECONDITION_FAILED", "reply consumer cannot acknowledge");
    if (this.#byChannel.has(channel))
      throw new AmqpError("PRECONDITION_FAILED", "reply consumer already set");
    const address = REPLY_TO_PREFIX + randomBytes(18).toString("base64url");
    const place = { channel, consumerTag, address };
    this.#byAddress.set(address, place);
    this.#byChannel.set(channel, place);
  }

  close(channel: Channel): void {
    const place = this.#byChannel.get(channel);
    if (!place) return;
    this.#byChannel.delete(channel);
    this.#byAddress.delete(place.address);
  }

  consumerTagOf(channel: Channel): string | undefined {
    return this.#byChannel.get(channel)?.consumerTag;
  }

  addressOf(channel: Channel): string {
    const place = this.#byChannel.get(channel);
    if (!place) throw new AmqpError("PRECONDITION_FAILED", "fast reply consumer does not exist");
    return place.address;
  }

  isOpen(address: string): boolean {
    return this.#byAddress.has(address);
  }

  /** An answer to a channel that is gone is dropped. */
  deliver(message: Message): void {
    const place = this.#byAddress.get(message.routingKey);
    place?.channel.deliveries.deliverReply(place.consumerTag, message);
  }
}
