import { type ErrorData, errorFrom } from "../../../core/errors/errors.ts";
import { everyItem } from "../../../core/answer/every-item.ts";
import type { QueuePolicy } from "../../../core/queue/policy.ts";
import type { TaskState } from "../../../core/task/task.ts";
import type { Op, Outcome, VerbName } from "../../../engine/engine.ts";
import type { Connection } from "../connection/connection.ts";
import { type Identity, identityOf } from "../connection/identity.ts";
import { readLatestOn, type ReadLatest } from "./read-latest.ts";

/**
 * What a caller's transaction looks up on a connection of ours: its own snapshot may be older. Not on the writing
 * connection: a batch there may be waiting for a lock of this very transaction.
 */
export interface StoreLookups {
  schema: string;
  /** The server's name in error messages, without secrets. */
  where: string;
  /** Identifies this store. Cached unless `refresh`. */
  identity(how?: { refresh: true }): Promise<Identity>;
  /** New queues are made, and stay even if the caller rolls back. */
  queues(names: string[]): Promise<Map<string, KnownQueue>>;
  /** Pending tasks, for a queue's maxDepth. */
  depth(queue: string): Promise<number>;
  /** Its state, and its failed attempts. */
  stateOf(id: string): Promise<{ state: TaskState; failures: number } | undefined>;
  /** The queues of the subscriptions that a topic reaches. */
  reachedBy(topic: string): Promise<string[]>;
  latest: ReadLatest;
}

export interface KnownQueue {
  id: number;
  policy: QueuePolicy;
}

export interface LookupConnection {
  schema: string;
  where: string;
  query: <T>(work: (link: Connection) => Promise<T>) => Promise<T>;
  /** By name; those that exist. */
  findQueues: (names: string[]) => Promise<Map<string, KnownQueue>>;
  /** Executes an operation that only reads, after inbox entries are processed. */
  read: <V extends VerbName>(op: Op<V>) => Promise<Outcome<V>>;
  write: (ops: readonly Op[]) => Promise<void>;
}

export function storeLookups({
  schema,
  where,
  query,
  findQueues,
  read,
  write,
}: LookupConnection): StoreLookups {
  return {
    schema,
    where,
    identity: (how) => query((link) => identityOf(link, how)),
    queues: async (names) => {
      const known = await findQueues(names);
      const missing = names.filter((name) => !known.has(name));
      if (missing.length === 0) return known;
      await write(missing.map((queue) => ({ verb: "declare", queue, policy: {} })));
      return findQueues(names);
    },
    depth: async (queue) => {
      const { ready, waiting, scheduled } = okOf(await read({ verb: "stats", queue })).depth;
      return ready + waiting + scheduled;
    },
    stateOf: async (id) => {
      const found = await read({ verb: "get", id });
      return "ok" in found ? { state: found.ok.state, failures: found.ok.attempt - 1 } : undefined;
    },
    reachedBy: async (topic) => {
      const found = await everyItem(async (page) =>
        okOf(await read({ verb: "subscriptions" as const, topic, ...page })),
      );
      return found.map(({ queue }) => queue);
    },
    latest: readLatestOn(query),
  };
}

function okOf<T>(outcome: { ok: T } | { refused: ErrorData }): T {
  if ("refused" in outcome) throw errorFrom(outcome.refused);
  return outcome.ok;
}
