import type { Port } from "../core/port.ts";
import type { PatternKey } from "../core/task/task.ts";
import { everyItem } from "../core/answer/every-item.ts";
import type { DeadOverview } from "./contract.ts";

/** Queues whose dead letters are grouped, and groups of each. */
const MOST_QUEUES = 50;
const MOST_GROUPS = 20;

/** The dead letters of all queues that the port's caller may read, grouped. */
export async function readDead(port: Port, by: PatternKey): Promise<DeadOverview> {
  const all = await everyItem((page) => port.queues({ ...page, stats: true }));
  const queues = all
    .map(({ name, stats }) => ({ queue: name, dead: stats!.depth.dead }))
    .filter(({ dead }) => dead > 0)
    .sort((a, b) => b.dead - a.dead);
  const groups = await Promise.all(
    queues.slice(0, MOST_QUEUES).map(async ({ queue }) => {
      const patterns = await port.patterns(queue, by, MOST_GROUPS);
      return patterns.map((pattern) => ({ queue, ...pattern }));
    }),
  );
  return {
    total: queues.reduce((sum, { dead }) => sum + dead, 0),
    groups: groups.flat().sort((a, b) => b.count - a.count),
    queues,
  };
}
