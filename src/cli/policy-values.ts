import { invalid } from "../core/errors/errors.ts";
import {
  DEFAULT_POLICY,
  type QueuePolicy,
  type QueuePolicyOptions,
  UNLIMITED_ATTEMPTS,
} from "../core/queue/policy.ts";
import { show } from "../core/errors/show.ts";
import { formatDuration } from "./human.ts";
import { didYouMean } from "./nearest.ts";

/** Fields of a policy as `dibs queue set` takes them (`lease=30s backoff.delay=2s`), and as people read them. */

const FIELDS = Object.keys(DEFAULT_POLICY) as (keyof QueuePolicy)[];
const NESTED = ["backoff", "retention", "groups"] as const;

/** @param current the parts of a field that are not named stay as they are */
export function parseAssignments(texts: readonly string[], current: QueuePolicy): QueuePolicyOptions {
  const options: Record<string, unknown> = {};
  for (const text of texts) {
    const at = text.indexOf("=");
    if (at < 1)
      throw invalid(
        `${show(text)} is not a field and a value. Write, for example, lease=30s or maxAttempts=3.`,
      );
    const [field, part, ...more] = text.slice(0, at).split(".");
    const value = parseValue(text.slice(at + 1));
    checkField(field!, part, more);
    if (part === undefined) options[field!] = value;
    else {
      const before = options[field!] ?? (field === "groups" ? {} : current[field as "backoff"]);
      options[field!] = { ...before, [part]: value };
    }
  }
  return options;
}

function checkField(field: string, part: string | undefined, more: string[]): void {
  if (!FIELDS.includes(field as keyof QueuePolicy))
    throw invalid(
      `A queue has no field ${show(field)}.${didYouMean(field, FIELDS)} It has ${FIELDS.join(", ")}.`,
    );
  if (part === undefined) return;
  const nested = NESTED.find((each) => each === field);
  const parts = nested === undefined ? [] : Object.keys(DEFAULT_POLICY[nested]);
  if (parts.includes(part) && more.length === 0) return;
  const name = [field, part, ...more].join(".");
  const known = parts.length === 0 ? `${field} has no parts` : `${field} has ${parts.join(", ")}`;
  throw invalid(`A queue has no field ${show(name)}: ${known}.${didYouMean(part, parts)}`);
}

const RATE = /^(\d+)\/(\d+(?:\.\d+)?(?:ms|s|m|h|d))$/;

/** JSON, a rate such as 10/1s, or a text such as 30s. */
function parseValue(text: string): unknown {
  const rate = RATE.exec(text);
  if (rate) return { max: Number(rate[1]), per: rate[2] };
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** The fields of a policy for people. Those with their default value are marked as such by the caller. */
export function describePolicy(policy: QueuePolicy): [name: string, value: string, isDefault: boolean][] {
  return FIELDS.map((field) => [
    field,
    describeValue(field, policy[field]),
    JSON.stringify(policy[field]) === JSON.stringify(DEFAULT_POLICY[field]),
  ]);
}

const DURATIONS = new Set(["lease", "timeout", "elsewhere", "ttl"]);

function describeValue(field: string, value: unknown): string {
  if (value === UNLIMITED_ATTEMPTS) return "null";
  if (DURATIONS.has(field) && typeof value === "number") return formatDuration(value);
  return JSON.stringify(value);
}
