/** All dead letters of a queue by worker and by header, counted by the store. */

import { call } from "../../api/call.ts";
import type { FoundTask } from "../../api/contract.ts";
import { showCount, showExact } from "../../format/number.ts";
import { useResource } from "../../store/resource.ts";
import { titleOf } from "./group-title.tsx";

/** Headers that are counted, values that are asked for, and values of each that are shown. */
const MOST_HEADERS = 3;
const MOST_VALUES = 100;
const SHOWN = 4;

interface Counted {
  title: string;
  entries: { name: string; count: number }[];
}

/** @param tasks of which the names of the headers are taken */
export function Breakdown({ queue, tasks, count }: { queue: string; tasks: FoundTask[]; count: number }) {
  const headers = [...new Set(tasks.flatMap((task) => Object.keys(task.headers)))].slice(0, MOST_HEADERS);
  const { value = [] } = useResource(
    (signal) =>
      Promise.all(["worker", ...headers.map((name) => `header:${name}`)].map(counted(queue, signal))),
    [queue, count, headers.join()],
  );
  return (
    <div class="breakdown">
      {value.map((each) => (
        <Tally key={each.title} {...each} />
      ))}
    </div>
  );
}

function counted(queue: string, signal: AbortSignal) {
  return async (by: string): Promise<Counted> => {
    const path = `v1/queues/${encodeURIComponent(queue)}/dead/patterns`;
    const { patterns } = await call<{ patterns: { pattern: string; count: number }[] }>(path, {
      ...{ query: { by, limit: MOST_VALUES }, signal },
    });
    const isWorker = by === "worker";
    // Instances of a worker that was started again share its name.
    const counts = new Map<string, number>();
    for (const { pattern, count } of patterns) {
      const name = titleOf(pattern, by);
      counts.set(name, (counts.get(name) ?? 0) + count);
    }
    const entries = [...counts].map(([name, count]) => ({ name, count }));
    return {
      title: `All of ${queue} by ${isWorker ? "worker" : by.slice("header:".length)}`,
      entries: entries.sort((a, b) => b.count - a.count).slice(0, SHOWN),
    };
  };
}

function Tally({ title, entries }: Counted) {
  return (
    <div>
      <h3>{title}</h3>
      <ul>
        {entries.map(({ name, count }) => (
          <li key={name}>
            <span class="clip">{name}</span>{" "}
            <span class="quiet" title={showExact(count)}>
              {showCount(count)}
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}
