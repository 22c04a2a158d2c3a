import { writeDuration } from "../../format/duration.ts";
import { quote } from "../../format/shell.ts";

/** Changes of a policy as the fields of `dibs queue set`: `lease=30s rateLimit=100/1s`. */
export function policyCommand(changes: Record<string, unknown>): string {
  return Object.entries(changes)
    .flatMap(([name, value]) => write(name, value))
    .map(quote)
    .join(" ");
}

const DURATIONS = new Set(["lease", "timeout", "elsewhere", "ttl", "delay", "max"]);

function write(name: string, value: unknown): string[] {
  if (name === "backoff") {
    const { delay, max } = value as { delay: number; max: number };
    return [`backoff.delay=${writeDuration(delay)}`, `backoff.max=${writeDuration(max)}`];
  }
  if (name === "rateLimit" && Array.isArray(value)) {
    const rates = value as { max: number; per: number }[];
    if (rates.length === 1) return [`rateLimit=${rates[0]!.max}/${writeDuration(rates[0]!.per)}`];
    return [`rateLimit=${JSON.stringify(rates)}`];
  }
  return [
    `${name}=${typeof value === "number" && DURATIONS.has(name) ? writeDuration(value) : String(value)}`,
  ];
}
