/** The fields of a policy in the editor: what each means, and how it is read and written. */

import type { QueuePolicy } from "../../api/contract.ts";
import { writeDuration } from "../../format/duration.ts";
import { UNLIMITED } from "../../format/number.ts";
import {
  type PolicyValue,
  readHours,
  readRates,
  readSize,
  readTime,
  readWeights,
  readWhole,
  writeRates,
  writeSize,
  writeWeights,
} from "./policy-values.ts";

export interface PolicyField {
  /** As `dibs queue set` names it: `lease`, `groups.fair`. */
  name: string;
  label: string;
  hint: string;
  /** The texts that can be chosen; any text if it is absent. */
  choices?: readonly string[];
  write: (policy: QueuePolicy) => string;
  /** What the text stands for; throws a sentence if it does not stand for anything. */
  read: (text: string) => PolicyValue;
}

export interface PolicySection {
  title: string;
  fields: PolicyField[];
}

export const SECTIONS: PolicySection[] = [
  {
    title: "Attempts",
    fields: [
      time("lease", "Lease", "how long a claim lasts without heartbeat", ({ lease }) => lease),
      time("timeout", "Timeout", "how long one attempt may take", ({ timeout }) => timeout),
      optional("maxAttempts", "Attempts", "until a dead letter; empty: no limit", (policy) =>
        policy.maxAttempts === UNLIMITED ? null : policy.maxAttempts,
      ),
      choice(
        "backoff.type",
        "Backoff",
        "how the wait between attempts grows",
        ["exponential", "fixed"],
        (policy) => policy.backoff.type,
      ),
      time("backoff.delay", "First wait", "after the first failure", ({ backoff }) => backoff.delay),
      time("backoff.max", "Longest wait", "however often it failed", ({ backoff }) => backoff.max),
      time("elsewhere", "Retry elsewhere", "kept so long for other workers", ({ elsewhere }) => elsewhere),
    ],
  },
  {
    title: "Pace",
    fields: [
      optional(
        "maxConcurrency",
        "Concurrency",
        "tasks at once; empty: no limit",
        (policy) => policy.maxConcurrency,
      ),
      {
        ...{ name: "rateLimit", label: "Rate limit", hint: "such as 100 per 1s; empty: no limit" },
        write: ({ rateLimit }) => writeRates(rateLimit),
        read: (text) => readRates(text, "Rate limit"),
      },
      {
        ...{ name: "window", label: "Hours", hint: "such as 22:00-06:00 Europe/London" },
        write: ({ window }) => (window === null ? "" : `${window.hours} ${window.tz}`),
        read: readHours,
      },
    ],
  },
  {
    title: "Groups",
    fields: [
      number(
        "groups.concurrency",
        "Tasks of a group",
        "at once; 1: strictly in order",
        ({ groups }) => groups.concurrency,
      ),
      {
        ...{ name: "groups.rateLimit", label: "Rate of a group", hint: "such as 10 per 1m; empty: no limit" },
        write: ({ groups }) => writeRates(groups.rateLimit),
        read: (text) => readRates(text, "Rate of a group"),
      },
      flag("groups.fair", "Fair", "groups take turns", ({ groups }) => groups.fair),
      {
        ...{ name: "groups.weight", label: "Weights", hint: "turns of a group, such as acme 3" },
        write: ({ groups }) => writeWeights(groups.weight),
        read: (text) => readWeights(text, "Weights"),
      },
      flag("groups.sticky", "Sticky", "a group stays with its worker", ({ groups }) => groups.sticky),
    ],
  },
  {
    title: "Room",
    fields: [
      optional("maxDepth", "Most waiting", "tasks; empty: no limit", ({ maxDepth }) => maxDepth),
      {
        ...{ name: "maxBytes", label: "Most bytes", hint: "of ready payloads; empty: no limit" },
        write: ({ maxBytes }) => (maxBytes === null ? "" : writeSize(maxBytes)),
        read: (text) => (text.trim() === "" ? null : readSize(text, "Most bytes")),
      },
      choice(
        "overflow",
        "When full",
        "what an add does",
        ["refuse", "drop-oldest"],
        ({ overflow }) => overflow,
      ),
      {
        ...{ name: "ttl", label: "Time to live", hint: "not started by then: expires" },
        write: ({ ttl }) => (ttl === null ? "" : writeDuration(ttl)),
        read: (text) => (text.trim() === "" ? null : readTime(text, "Time to live")),
      },
      {
        ...{ name: "expiredTo", label: "Expired go to", hint: "a queue; empty: they end" },
        write: ({ expiredTo }) => expiredTo ?? "",
        read: (text) => (text.trim() === "" ? null : text.trim()),
      },
      {
        ...{ name: "maxPayload", label: "Largest payload", hint: "and the largest result" },
        write: ({ maxPayload }) => writeSize(maxPayload),
        read: (text) => readSize(text, "Largest payload"),
      },
    ],
  },
  {
    title: "Results",
    fields: [
      flag("verified", "Verified", "a verifier must accept a success", ({ verified }) => verified),
      time("retention.age", "Kept for", "ended tasks; dead letters stay", ({ retention }) => retention.age),
      number("retention.count", "Most kept", "ended tasks of this queue", ({ retention }) => retention.count),
    ],
  },
];

export const FIELDS: PolicyField[] = SECTIONS.flatMap(({ fields }) => fields);

type Of<Value> = (policy: QueuePolicy) => Value;

function time(name: string, label: string, hint: string, of: Of<number>): PolicyField {
  return {
    name,
    label,
    hint,
    write: (policy) => writeDuration(of(policy)),
    read: (text) => readTime(text, label),
  };
}

function number(name: string, label: string, hint: string, of: Of<number>): PolicyField {
  return { name, label, hint, write: (policy) => String(of(policy)), read: (text) => readWhole(text, label) };
}

function optional(name: string, label: string, hint: string, of: Of<number | null>): PolicyField {
  return {
    ...{ name, label, hint },
    write: (policy) => String(of(policy) ?? ""),
    read: (text) => (text.trim() === "" ? null : readWhole(text, label)),
  };
}

function choice(
  name: string,
  label: string,
  hint: string,
  choices: readonly string[],
  of: Of<string>,
): PolicyField {
  return { name, label, hint, choices, write: of, read: (text) => text };
}

function flag(name: string, label: string, hint: string, of: Of<boolean>): PolicyField {
  const write = (policy: QueuePolicy) => (of(policy) ? "yes" : "no");
  return { name, label, hint, choices: ["no", "yes"], write, read: (text) => text === "yes" };
}

/** The fields that differ from the current policy, by their names. */
export function readChanges(policy: QueuePolicy, texts: Record<string, string>): Record<string, PolicyValue> {
  const changed = FIELDS.filter(
    (field) => texts[field.name] !== undefined && texts[field.name] !== field.write(policy),
  );
  return Object.fromEntries(changed.map((field) => [field.name, field.read(texts[field.name]!)]));
}

/** The changes as the server takes them. A field with parts is replaced as a whole, except groups. */
export function bodyOf(policy: QueuePolicy, changes: Record<string, PolicyValue>): Record<string, unknown> {
  const body: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(changes)) {
    const [field, part] = name.split(".") as [keyof QueuePolicy, string?];
    if (part === undefined) body[field] = value;
    else
      body[field] = {
        ...((body[field] ?? (field === "groups" ? {} : policy[field])) as object),
        [part]: value,
      };
  }
  return body;
}
