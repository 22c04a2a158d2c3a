import { isUtf8 } from "node:buffer";
import { JSON_TYPE, type ClaimedTask, type Headers, type NewTask } from "../../core/task/task.ts";
import { LIMITS } from "../../core/input/limits.ts";
import { AmqpError } from "./wire/errors.ts";
import {
  longstr,
  NO_PROPERTIES,
  type Properties,
  readProperties,
  replaceProperties,
  shortstr,
} from "./wire/properties.ts";
import { type Field, long, longstrTable, text, writeTable } from "./wire/table.ts";

/**
 * A message as AMQP has it, and as a task. Its properties travel unchanged in one header of the task, so that they come
 * back byte for byte. Content type and simple headers are visible to workers of any kind.
 */
export interface Message {
  exchange: string;
  routingKey: string;
  /** Flags and values, as they are on the wire. */
  properties: Buffer;
  body: Uint8Array;
}

/** The header that carries the properties, the exchange and the routing key. */
export const ENVELOPE = "dibs-amqp";
const TEXT_TYPE = "text/plain";
const BYTES_TYPE = "application/octet-stream";
const IS_TEXT = /^text\/|^application\/(?:.+\+)?json\b/;

export function taskOf(queue: string, name: string, message: Message, read: Properties): NewTask {
  const { body } = message;
  const isText = read.contentType === undefined || IS_TEXT.test(read.contentType);
  const asText = isText && isUtf8(body);
  const contentType = read.contentType || (asText ? TEXT_TYPE : BYTES_TYPE);
  const task: NewTask = {
    queue,
    // A copy: the bytes are part of what the socket received, which would stay in memory with them.
    data: asText ? decode(body) : new Uint8Array(body),
    headers: headersOf(message, name, read),
  };
  if (contentType !== JSON_TYPE) task.contentType = contentType.slice(0, 256);
  return task;
}

function decode(body: Uint8Array): string {
  return (Buffer.isBuffer(body) ? body : Buffer.from(body.buffer, body.byteOffset, body.length)).toString();
}

/** The assembler returns the same properties for equal messages that follow each other, so the headers are made once. */
function headersOf(message: Message, name: string, read: Properties): Headers {
  const { properties, exchange, routingKey } = message;
  if (
    properties !== last.properties ||
    exchange !== last.exchange ||
    routingKey !== last.routingKey ||
    name !== last.name
  ) {
    const headers = { ...visibleHeaders(read), [ENVELOPE]: sealed(message, name) };
    last = { properties, exchange, routingKey, name, headers };
  }
  return last.headers;
}

let last: Omit<Message, "body"> & { name: string; headers: Headers } = {
  ...{ properties: NO_PROPERTIES, exchange: "", routingKey: "", name: "" },
  headers: { [ENVELOPE]: NO_PROPERTIES.toString("base64") },
};

/** The routing key of a message to the default exchange is the queue's name, and is left out. */
function sealed({ exchange, routingKey, properties }: Message, name: string): string {
  const bytes = properties.toString("base64");
  const envelope =
    exchange === "" && routingKey === name
      ? bytes
      : `${bytes}:${encodeURIComponent(exchange)}:${encodeURIComponent(routingKey)}`;
  if (envelope.length > LIMITS.headerBytes / 2)
    throw new AmqpError(
      "CONTENT_TOO_LARGE",
      `the properties of a message may have ${(LIMITS.headerBytes / 8) * 3} bytes`,
      "channel",
    );
  return envelope;
}

/** Headers with a simple value, as text. What does not fit is only in the envelope. */
function visibleHeaders({ headers = [] }: Properties): Headers {
  const visible: Headers = {};
  let room = LIMITS.headerBytes / 4;
  for (const [name, field] of headers) {
    const value = visibleValue(field);
    if (value === undefined || name === ENVELOPE || name === "__proto__") continue;
    room -= (name.length + value.length) * 3;
    if (room < 0) break;
    visible[name] = value;
  }
  return visible;
}

function visibleValue(field: Field): string | undefined {
  switch (field.type) {
    case "S":
      return isUtf8(field.value) ? field.value.toString() : undefined;
    case "V":
    case "x":
    case "D":
    case "F":
    case "A":
      return undefined;
    default:
      return String(field.value);
  }
}

/** @param name the queue's name in AMQP */
export function messageOf(
  task: Pick<ClaimedTask, "id" | "data" | "contentType" | "headers" | "priority">,
  name: string,
): Message {
  const { data, headers } = task;
  const body = typeof data === "string" ? Buffer.from(data) : data;
  const envelope = headers[ENVELOPE];
  const opened = envelope === undefined ? undefined : unsealed(envelope, name);
  return { ...(opened ?? { exchange: "", routingKey: name, properties: propertiesOf(task) }), body };
}

/** A header that no door wrote is ignored. */
function unsealed(envelope: string, name: string): Omit<Message, "body"> | undefined {
  try {
    if (!envelope.includes(":")) return { exchange: "", routingKey: name, properties: checked(envelope) };
    const [bytes = "", exchange = "", routingKey] = envelope.split(":");
    return {
      exchange: decodeURIComponent(exchange),
      routingKey: routingKey === undefined ? name : decodeURIComponent(routingKey),
      properties: checked(bytes),
    };
  } catch {
    return undefined;
  }
}

/** Anybody may write a header, so properties are read before a client gets them. Most messages have one of few sets. */
function checked(bytes: string): Buffer {
  const known = readBefore.get(bytes);
  if (known) return known;
  const properties = Buffer.from(bytes, "base64");
  readProperties(properties);
  if (readBefore.size > 1_000) readBefore.clear();
  if (bytes.length < 100) readBefore.set(bytes, properties);
  return properties;
}

const readBefore = new Map<string, Buffer>();

/** The properties of a task that was not published over AMQP. */
function propertiesOf({
  id,
  contentType,
  headers,
  priority,
}: Pick<ClaimedTask, "id" | "contentType" | "headers" | "priority">): Buffer {
  const names = Object.keys(headers);
  const table = writeTable(names.map((name) => [shortName(name), text(headers[name]!)]));
  return replaceProperties(NO_PROPERTIES, {
    contentType: shortstr(contentType),
    ...(names.length > 0 && { headers: longstr(table) }),
    deliveryMode: Buffer.from([2]),
    ...(priority > 0 && { priority: Buffer.from([Math.min(priority, 255)]) }),
    messageId: shortstr(id),
  });
}

function shortName(name: string): string {
  return Buffer.byteLength(name) <= 255 ? name : name.slice(0, 60);
}

/** With the header by which a quorum queue says how often it has delivered the message before. */
export function withDeliveryCount(
  message: Message,
  { attempt }: Pick<ClaimedTask, "attempt">,
  isCounted: boolean,
): Message {
  if (!isCounted) return message;
  const { headers = [] } = readProperties(message.properties);
  const others = headers.filter(([name]) => name !== DELIVERY_COUNT);
  const counted = longstrTable([...others, [DELIVERY_COUNT, long(attempt - 1)]]);
  return { ...message, properties: replaceProperties(message.properties, { headers: counted }) };
}

export const DELIVERY_COUNT = "x-delivery-count";
