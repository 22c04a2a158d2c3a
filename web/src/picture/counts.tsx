/** For who does not want motion: the same as the picture, as counts. */

import type { QueueFrame } from "../api/contract.ts";
import { showCount, showRate } from "../format/number.ts";
import { Table } from "../ui/table.tsx";
import { byName } from "./places.ts";

export function Counts({ frame }: { frame: QueueFrame }) {
  const { stats, flow, workers } = frame;
  const figures: [string, string][] = [
    ["arrive per second", showRate(flow.addedPerSecond)],
    ["wait", showCount(stats.depth.ready + stats.depth.waiting)],
    ["run", showCount(stats.depth.claimed)],
    ["done per second", showRate(flow.donePerSecond)],
    ["wait for a retry", showCount(stats.depth.scheduled)],
    ["dead letters", showCount(stats.depth.dead)],
  ];
  return (
    <>
      <dl class="counts">
        {figures.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <Table
        label="Workers of this queue"
        rows={workers.toSorted(byName)}
        keyOf={({ id }) => id}
        columns={[
          { name: "Worker", width: "minmax(120px, 2fr)", cell: ({ name }) => name },
          { name: "State", width: "80px", cell: ({ state }) => state },
          { name: "Running", width: "80px", number: true, cell: ({ running }) => running.length },
          {
            name: "Tasks/s",
            width: "80px",
            number: true,
            cell: ({ donePerSecond }) => showRate(donePerSecond),
          },
        ]}
      />
    </>
  );
}
