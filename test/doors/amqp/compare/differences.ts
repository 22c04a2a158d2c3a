// Where dibs answers otherwise than RabbitMQ on purpose: the reason, and what dibs answers. docs lists the same cases.

import { readRecording } from "./recordings.ts";

interface Difference {
  why: string;
  /** Turns RabbitMQ's recorded lines into those of dibs. */
  change: (lines: string[]) => string[];
}

const DIFFERENCES: Record<string, Difference> = {};

/** What dibs must answer to a script: what RabbitMQ answered, except for the listed differences. */
export function expectedOf(theme: string, name: string): string[] {
  const lines = readRecording(theme)[name];
  if (!lines) throw new Error(`"${name}" is not recorded: node test/doors/amqp/compare/record.ts ${theme}`);
  return DIFFERENCES[name]?.change(lines) ?? lines;
}
