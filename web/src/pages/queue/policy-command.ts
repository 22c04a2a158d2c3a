import { quote } from "../../format/shell.ts";
import type { PolicyValue, Rate } from "./policy-values.ts";

/** Changes of a policy as the fields of `dibs queue set`: `lease=30s rateLimit=100/1s`. */
export function policyCommand(changes: Record<string, PolicyValue>): string {
  return Object.entries(changes)
    .map(([name, value]) => quote(`${name}=${write(value)}`))
    .join(" ");
}

function write(value: PolicyValue): string {
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.length === 1 && isPlain(value[0]!))
    return `${value[0]!.max}/${value[0]!.per}`;
  return JSON.stringify(value);
}

function isPlain({ pace, unit }: Rate): boolean {
  return pace === undefined && unit === undefined;
}
