import { readFileSync } from "node:fs";
import { invalid } from "../core/errors/errors.ts";
import { checkNames, checkNumber, checkObject } from "../core/input/options.ts";
import { show } from "../core/errors/show.ts";
import { type AlertOptions, parseAlerts } from "./alert-rules.ts";
import { type PoolOptions, resolvePool } from "./options.ts";
import { MOST_WORKERS } from "./policy.ts";

/** The file of `dibs pool --config`: several pools that share the workers of one machine, and alerts. */
export interface PoolFile {
  /** The most workers of all pools together; null: no limit. */
  cap: number | null;
  pools: PoolOptions[];
  alerts: AlertOptions | null;
}

export function readPoolFile(path: string): PoolFile {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    throw invalid(`The file ${show(path)} cannot be read: ${(error as Error).message}.`);
  }
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch (error) {
    throw invalid(`The file ${show(path)} is not JSON: ${(error as Error).message}.`);
  }
  return parsePoolFile(content);
}

/** Checks all pools before the first one starts. */
export function parsePoolFile(content: unknown): PoolFile {
  checkObject(content, "The file of pools");
  checkNames(content, ["cap", "pools", "alerts"], "pool file");
  const { cap, pools, alerts } = content as { cap?: unknown; pools?: unknown; alerts?: AlertOptions };
  if (!Array.isArray(pools) || pools.length === 0)
    throw invalid(`pools must be an array of at least one pool; got ${show(pools)}.`);
  const names = pools.map((pool, at) => nameOf(pool as PoolOptions, at));
  const twice = names.find((name, at) => names.indexOf(name) !== at);
  if (twice !== undefined) throw invalid(`Two pools have the name ${show(twice)}. Give each its own.`);
  if (alerts !== undefined) parseAlerts(alerts);
  return {
    cap: cap === undefined ? null : checkNumber(cap, "cap", 1, MOST_WORKERS),
    pools: pools as PoolOptions[],
    alerts: alerts ?? null,
  };
}

function nameOf(pool: PoolOptions, at: number): string {
  try {
    return resolvePool(pool).name;
  } catch (error) {
    throw invalid(`Pool ${at + 1} of the file: ${(error as Error).message}`);
  }
}
