import type { Message } from "./message.ts";
import { readMethod } from "./wire/decode.ts";
import { FRAME } from "./wire/encode.ts";
import { about, AmqpError } from "./wire/errors.ts";
import type { Frame } from "./wire/frames.ts";
import type { Args, Method } from "./wire/methods.ts";
import { PLANS } from "./wire/methods.ts";
import { NO_PROPERTIES } from "./wire/properties.ts";

/** Bytes of properties that stay in memory for the next message of a connection. */
const MOST_REMEMBERED = 1_024;

interface Partial {
  method: Method;
  properties: Buffer | undefined;
  size: number;
  parts: Buffer[];
  received: number;
}

export interface Complete {
  method: Method;
  message: Message | undefined;
}

/** Puts methods together with their content: a header frame, and body frames until its size is reached. */
export class Assembler {
  readonly #maxBody: number;
  /** By channel: each may have one message that is incomplete. */
  readonly #partial = new Map<number, Partial>();
  #lastProperties: Buffer = NO_PROPERTIES;

  constructor(maxBody: number) {
    this.#maxBody = maxBody;
  }

  take({ type, channel, payload }: Frame): Complete | undefined {
    const partial = this.#partial.get(channel);
    switch (type) {
      case FRAME.method:
        if (partial) throw unexpectedFrame(partial, "got non content header frame instead");
        return this.#begin(channel, payload);
      case FRAME.header:
        if (!partial) throw noMethod();
        return this.#header(channel, partial, payload);
      default:
        if (!partial) throw noMethod();
        return this.#body(channel, partial, payload);
    }
  }

  #begin(channel: number, payload: Buffer): Complete | undefined {
    const { plan, method } = readMethod(payload);
    if (!plan.hasContent) return { method, message: undefined };
    // A client sends content only when it publishes.
    if (method.name !== "basic.publish")
      throw about(new AmqpError("COMMAND_INVALID", "unimplemented method"), [plan.classId, plan.methodId]);
    this.#partial.set(channel, { method, properties: undefined, size: 0, parts: [], received: 0 });
    return undefined;
  }

  /** The size of the body is checked here, before any of it is stored. */
  #header(channel: number, partial: Partial, payload: Buffer): Complete | undefined {
    if (partial.properties) throw unexpectedFrame(partial, "got non content body frame instead");
    if (payload.length < 14)
      throw new AmqpError("FRAME_ERROR", "a content header ends before its properties");
    const classId = payload.readUInt16BE(0);
    if (classId !== PLANS[partial.method.name].classId)
      throw unexpectedFrame(partial, `got one for class ${classId} instead`);
    const size = payload.readUInt32BE(4) * 0x1_0000_0000 + payload.readUInt32BE(8);
    if (size > this.#maxBody)
      throw new AmqpError(
        "PRECONDITION_FAILED",
        `message size ${size} is larger than configured max size ${this.#maxBody}`,
        "connection",
      );
    partial.properties = this.#propertiesFrom(payload.subarray(12));
    partial.size = size;
    return size === 0 ? this.#complete(channel, partial) : undefined;
  }

  /**
   * A copy: the bytes of a large message would stay in memory with a part of it. Most clients send the same properties
   * again and again; then it is the same copy, by which readProperties and message.ts know them.
   */
  #propertiesFrom(bytes: Buffer): Buffer {
    if (this.#lastProperties.equals(bytes)) return this.#lastProperties;
    const copy = Buffer.from(bytes);
    if (copy.length <= MOST_REMEMBERED) this.#lastProperties = copy;
    return copy;
  }

  #body(channel: number, partial: Partial, payload: Buffer): Complete | undefined {
    if (!partial.properties) throw unexpectedFrame(partial, "got non content header frame instead");
    partial.received += payload.length;
    if (partial.received > partial.size)
      throw new AmqpError("FRAME_ERROR", "the body of a message is longer than its header says");
    // An empty body frame adds nothing, and must not be stored: there could be any number of them.
    if (payload.length > 0) partial.parts.push(payload);
    return partial.received === partial.size ? this.#complete(channel, partial) : undefined;
  }

  #complete(channel: number, { method, properties, parts }: Partial): Complete {
    this.#partial.delete(channel);
    const { exchange, routingKey } = method.args as Args<"basic.publish">;
    const body = parts.length === 1 ? parts[0]! : Buffer.concat(parts);
    return { method, message: { exchange, routingKey, properties: properties!, body } };
  }
}

function noMethod(): AmqpError {
  return new AmqpError("UNEXPECTED_FRAME", "expected method frame, got non method frame instead");
}

function unexpectedFrame({ method, properties }: Partial, got: string): AmqpError {
  const expected = properties ? "content body" : `content header for class ${PLANS[method.name].classId}`;
  const error = new AmqpError("UNEXPECTED_FRAME", `expected ${expected}, ${got}`);
  return about(error, [PLANS[method.name].classId, PLANS[method.name].methodId]);
}
