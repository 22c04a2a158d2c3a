// The record of a conversation: lines of text that two servers can be compared by.

import type { Answer } from "../raw/connection.ts";
import type { Fields, Value } from "../raw/values.ts";

/** The record so far, and the one that is expected. A comparison waits for expected lines, and not for a time. */
export class Lines {
  readonly all: string[] = [];
  readonly #expected: string[] | undefined;

  constructor(expected: string[] | undefined) {
    this.#expected = expected;
  }

  push(...lines: string[]): void {
    this.all.push(...lines);
  }

  /** The expected next line, or the one `further` behind it; undefined while recording. */
  expected(further = 0): string | undefined {
    return this.#expected?.[this.all.length + further];
  }

  get isRecording(): boolean {
    return this.#expected === undefined;
  }
}

export function show({ method, fields, properties, body }: Answer): string {
  // A server may confirm several messages at once: scripts that have one on its way compare only its number.
  if (method === "basic.ack" || method === "basic.nack")
    return `${method} ${fields["deliveryTag"] as number}`;
  const content = body ? `${showFields(properties!)} ${showBody(body)}` : "";
  return mask(`${method}${showFields(fields)}${content}`);
}

export function showBody(body: Buffer): string {
  return body.length > 100 ? `(${body.length} bytes)` : JSON.stringify(body.toString());
}

export function showFields(fields: Fields): string {
  const given = Object.entries(fields).filter(([name]) => !name.startsWith("reserved"));
  if (given.length === 0) return "";
  return ` {${given.map(([name, value]) => `${name}: ${showValue(value as Value)}`).join(", ")}}`;
}

function showValue(value: Value | number | boolean): string {
  if (Array.isArray(value)) return `[${value.map(showValue).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value);
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([name, inner]) => `${name}: ${showValue(inner)}`).join(", ")}}`;
}

/** Hides what a server chooses freely: generated names, tokens and times. */
export function mask(text: string): string {
  return text
    .replaceAll(/amq\.gen-[\w-]+/g, "amq.gen-*")
    .replaceAll(/amq\.ctag-[\w-]+/g, "amq.ctag-*")
    .replaceAll(/amq\.rabbitmq\.reply-to\.[^"']+/g, "amq.rabbitmq.reply-to.*")
    .replaceAll(/time: "T:\d{9,}"/g, 'time: "T:*"');
}
