import type { TaskError } from "./task.ts";

/**
 * Names a kind of failure: errors that differ only in numbers, ids, addresses or quoted values have the same
 * fingerprint. It is readable text, so that a list of patterns needs no legend.
 */
export function fingerprint(error: Pick<TaskError, "name" | "message">): string {
  const firstLine = error.message.split("\n", 1)[0]!.slice(0, LONGEST * 2);
  const kind = VARIABLE_PARTS.reduce((text, [part, sign]) => text.replace(part, sign), firstLine);
  return `${error.name}: ${kind}`.slice(0, LONGEST);
}

const LONGEST = 160;

const VARIABLE_PARTS: readonly [RegExp, string][] = [
  [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/gi, "<id>"],
  [/\b(?:https?|wss?|postgres(?:ql)?|amqp):\/\/[^\s"'`]+/gi, "<url>"],
  // The ' in "can't" neither opens nor closes a quotation.
  [/"[^"]*"|(?<!\w)'[^']*'(?!\w)|`[^`]*`/g, "<text>"],
  [/\b0x[0-9a-f]+\b/gi, "<hex>"],
  [/\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,}\b/gi, "<hex>"],
  [/\d+(?:[.,:]\d+)*/g, "<n>"],
];
