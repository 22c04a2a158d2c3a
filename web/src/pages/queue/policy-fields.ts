/** The fields of a policy that can be edited as text, and how each is read and written. */

import type { QueuePolicy } from "../../api/contract.ts";
import { readDuration, writeDuration } from "../../format/duration.ts";

export interface PolicyField {
  name: string;
  label: string;
  hint: string;
  write: (policy: QueuePolicy) => string;
  /** The part of a policy that the text stands for; throws a sentence if it does not stand for one. */
  read: (text: string, policy: QueuePolicy) => Record<string, unknown>;
}

export const FIELDS: PolicyField[] = [
  time("lease", "Lease", "how long a claim lasts without a heartbeat"),
  time("timeout", "Timeout", "how long one attempt may take"),
  count("maxAttempts", "Attempts", "before a task is a dead letter"),
  {
    ...{ name: "backoff", label: "Backoff", hint: "first delay to longest, such as 1s to 10m" },
    write: ({ backoff }) => `${writeDuration(backoff.delay)} to ${writeDuration(backoff.max)}`,
    // A backoff is replaced as a whole: its type and its jitter stay as they are.
    read: (text, { backoff }) => {
      const [delay, max] = text.split(/\s+to\s+/).map((part) => duration(part, "Backoff"));
      return { backoff: { ...backoff, delay, max: max ?? delay } };
    },
  },
  time("elsewhere", "Retry elsewhere", "how long a failed task is kept for other workers"),
  optional("maxConcurrency", "Concurrency", "tasks at once, by all workers together; empty: no limit"),
  {
    ...{ name: "rateLimit", label: "Rate limit", hint: "such as 100 per 1s; empty: no limit" },
    write: ({ rateLimit }) => rateLimit.map(({ max, per }) => `${max} per ${writeDuration(per)}`).join(", "),
    read: (text) => ({ rateLimit: text.trim() === "" ? null : text.split(",").map(rate) }),
  },
  optional("maxDepth", "Most waiting", "more are refused; empty: no limit"),
  {
    ...{
      name: "ttl",
      label: "Time to live",
      hint: "a task that has not started by then expires; empty: never",
    },
    write: ({ ttl }) => (ttl === null ? "" : writeDuration(ttl)),
    read: (text) => ({ ttl: text.trim() === "" ? null : duration(text, "Time to live") }),
  },
];

function time(name: "lease" | "timeout" | "elsewhere", label: string, hint: string): PolicyField {
  return {
    name,
    label,
    hint,
    write: (policy) => writeDuration(policy[name]),
    read: (text) => ({ [name]: duration(text, label) }),
  };
}

function count(name: "maxAttempts", label: string, hint: string): PolicyField {
  return {
    name,
    label,
    hint,
    write: (policy) => String(policy[name]),
    read: (text) => ({ [name]: whole(text, label) }),
  };
}

function optional(name: "maxConcurrency" | "maxDepth", label: string, hint: string): PolicyField {
  return {
    ...{ name, label, hint },
    write: (policy) => String(policy[name] ?? ""),
    read: (text) => ({ [name]: text.trim() === "" ? null : whole(text, label) }),
  };
}

function duration(text: string, label: string): number {
  const ms = readDuration(text);
  if (ms === null) throw new Error(`${label}: “${text}” is no duration. Write 250ms, 30s, 5m, 2h or 1d.`);
  return ms;
}

function whole(text: string, label: string): number {
  if (!/^\s*\d+\s*$/.test(text)) throw new Error(`${label}: “${text}” is no whole number.`);
  return Number(text);
}

function rate(text: string): { max: number; per: number } {
  const [, max, per] = /^\s*(\d+)\s+per\s+(\S+)\s*$/.exec(text) ?? [];
  if (max === undefined) throw new Error(`Rate limit: “${text.trim()}” is no rate. Write 100 per 1s.`);
  return { max: Number(max), per: duration(per!, "Rate limit") };
}

/** The fields that differ from the current policy. */
export function readChanges(policy: QueuePolicy, texts: Record<string, string>): Record<string, unknown> {
  const changed = FIELDS.filter(
    (field) => texts[field.name] !== undefined && texts[field.name] !== field.write(policy),
  );
  return Object.assign({}, ...changed.map((field) => field.read(texts[field.name]!, policy))) as Record<
    string,
    unknown
  >;
}
