import type { Clock } from "../core/time/clock.ts";
import type { KeepAlive } from "../core/process/keep-alive.ts";
import type { QueuePolicy } from "../core/queue/policy.ts";
import type { Op, VerbName, Verbs, TransactionVerb } from "../engine/engine.ts";
import type { Housekeeper } from "./housekeeping/housekeeper.ts";

/** What the verbs share. */
export interface Context {
  clock: Clock;
  random: () => number;
  /** How often to poll for what no hint reported. */
  pollEvery: number;
  /** Executes one operation, in a batch with others of the same moment. */
  run<V extends VerbName>(op: Op<V>): Promise<Verbs[V]["out"]>;
  /** Executes one operation in the caller's transaction. */
  executeInTransaction<V extends TransactionVerb>(tx: unknown, op: Op<V>): Promise<Verbs[V]["out"]>;
  housekeeper: Housekeeper;
  /** Held while a call waits. */
  keepAlive: KeepAlive;
  /** The policies last seen, to compute backoffs. A stale one only makes a wait longer or shorter. */
  policies: Map<string, QueuePolicy>;
}
