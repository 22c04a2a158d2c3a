import { DibsError } from "../core/errors/errors.ts";
import type { Port } from "../core/port.ts";
import { show } from "../core/errors/show.ts";
import type { SupervisedKind, SupervisedRecord } from "../core/supervision.ts";
import type { Grant } from "./scopes.ts";
import { visiblePage } from "./visible-page.ts";

/**
 * The verbs of pools and alerts for guard.ts. A pool is about all its queues: its report and its reasons may name any
 * of them. So a token that reads only some of them does not see it. The alerts of a store are about all queues.
 */
export function guardSupervision(
  port: Port,
  grant: Grant,
): Pick<Port, "supervise" | "supervised" | "decisions"> {
  const sees = (kind: SupervisedKind, { queues }: SupervisedRecord): boolean =>
    grant.allowsAll("read") || (kind === "pool" && queues.every((queue) => grant.allows("read", queue)));

  /** All tokens share the names: that a name is taken cannot be hidden, only who has it. */
  const mayTake = ({ name, queues }: SupervisedRecord): boolean => {
    if (queues.every((queue) => grant.allows("work", queue))) return true;
    throw new DibsError(
      "FORBIDDEN",
      `The token ${show(grant.name)} may not use the name ${show(name)}: it belongs to other queues. Use another name.`,
    );
  };

  return {
    supervise: async (call) => {
      const { kind, queues } = (call ?? {}) as Partial<typeof call>;
      // One process evaluates the alerts of all queues, so a token for a few queues must not take their name.
      if (kind === "alerts") grant.need(["work"], ["*"]);
      // The port refuses a call without queues.
      if (Array.isArray(queues)) grant.need(["work"], queues);
      return port.supervise(call, { mayChange: mayTake });
    },
    supervised: async (kind, query) =>
      visiblePage(
        query,
        (page) => port.supervised(kind, page),
        (record) => sees(kind, record),
      ),
    decisions: async (kind, name, limit) => {
      const [decisions, { items }] = await Promise.all([
        port.decisions(kind, name, limit),
        port.supervised(kind, { name }),
      ]);
      if (items.every((record) => sees(kind, record))) return decisions;
      // Each entry of the alerts is about one queue. One of a pool is about all queues of the pool.
      return kind === "alerts" ? decisions.filter(({ queue }) => grant.allows("read", queue)) : [];
    },
  };
}
