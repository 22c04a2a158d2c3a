import type { Clock } from "../core/clock.ts";
import type { KeepAlive } from "../core/keep-alive.ts";
import type { QueuePolicy } from "../core/policy.ts";
import type { Op, VerbName, Verbs, TransactionVerb } from "../engine/engine.ts";
import type { Keeper } from "./housekeeping/keeper.ts";

/** What the verbs share. */
export interface Context {
  clock: Clock;
  random: () => number;
  /** How often to look for what no hint told of. */
  pollEvery: number;
  /** One operation, gathered with those of the moment. */
  run<V extends VerbName>(op: Op<V>): Promise<Verbs[V]["out"]>;
  /** One operation within a transaction of the caller's. */
  runWithin<V extends TransactionVerb>(tx: unknown, op: Op<V>): Promise<Verbs[V]["out"]>;
  keeper: Keeper;
  /** Held by whoever waits. */
  keepAlive: KeepAlive;
  /** The policies last seen, for reckoning backoffs. A stale one costs a wait of another length, no more. */
  policies: Map<string, QueuePolicy>;
}
