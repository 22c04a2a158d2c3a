import type { Observed } from "./decide.ts";
import type { ProcessMark } from "./process-facts.ts";

/** What a pool stores about itself with its name: for people, and for the process that takes over. */
export interface PoolReport {
  size: number;
  reasons: string[];
  workers: Observed["workers"];
  mode: string;
  min: number;
  max: number;
  stopTimeout: number;
  /** The process that started the workers. It ends only after them. */
  launcher: ProcessMark | null;
}

/**
 * Behind a server, any client with a token for the queues can have written it: what is missing or has the wrong type
 * gets a neutral value, so that it does not break lists of pools.
 */
export function readReport(text: string): PoolReport {
  const report = fieldsOf(JSON.parse(text));
  const workers = fieldsOf(report["workers"]);
  const launcher = fieldsOf(report["launcher"]);
  return {
    size: number(report["size"]),
    reasons: Array.isArray(report["reasons"]) ? report["reasons"].filter(isText) : [],
    workers: {
      ...{ live: number(workers["live"]), starting: number(workers["starting"]) },
      busy: number(workers["busy"]),
    },
    mode: isText(report["mode"]) ? report["mode"] : "unknown",
    min: number(report["min"]),
    max: number(report["max"]),
    stopTimeout: number(report["stopTimeout"]),
    launcher: Number.isSafeInteger(launcher["pid"])
      ? {
          pid: launcher["pid"] as number,
          startedAt: isText(launcher["startedAt"]) ? launcher["startedAt"] : null,
        }
      : null,
  };
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

const number = (value: unknown): number => (Number.isFinite(value) ? (value as number) : 0);
const isText = (value: unknown): value is string => typeof value === "string";
