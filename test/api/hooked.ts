import { Dibs } from "../../src/api/dibs.ts";
import { SILENT } from "../../src/core/logger.ts";
import type { Port } from "../../src/core/port.ts";

type Verb = Exclude<keyof Port, "clock">;
type Hook = (call: () => Promise<unknown>, ...args: unknown[]) => Promise<unknown>;

/** The same store, but that calls of one verb, or of all, go through `hook`. */
export function hooked(dibs: Dibs, verb: Verb | "all", hook: Hook): Dibs {
  const port = new Proxy(dibs.port, {
    get(target, name: keyof Port) {
      const value = target[name];
      if (typeof value !== "function" || (verb !== "all" && name !== verb)) return value;
      const ask = value.bind(target) as (...args: unknown[]) => Promise<unknown>;
      return (...args: unknown[]) => hook(() => ask(...args), ...args);
    },
  });
  return new Dibs(port, SILENT);
}
