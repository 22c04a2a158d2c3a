import { call } from "../../api/call.ts";
import { showDuration } from "../../format/duration.ts";
import { linkTo } from "../../router/route.ts";
import { now } from "../../store/clock.ts";
import { useResource } from "../../store/resource.ts";
import { Ago } from "../../ui/ago.tsx";
import { Loaded } from "../../ui/loaded.tsx";
import { StateBadge } from "../../ui/state-badge.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { shortId } from "../../ui/task-link.tsx";
import type { Stage } from "./pipelines.tsx";

export interface Run {
  id: string;
  pipeline: string;
  stages: Stage[];
  state: "running" | "done" | "dead" | "cancelled" | "expired";
  createdAt: number;
  endedAt: number | null;
}

/** The latest runs of one pipeline. */
export function Runs({ pipeline }: { pipeline: string }) {
  const path = `v1/pipelines/${encodeURIComponent(pipeline)}/runs`;
  const resource = useResource(
    (signal) => call<{ runs: Run[] }>(path, { query: { limit: 50 }, signal }),
    [pipeline],
    2_000,
  );
  return (
    <section class="card flush">
      <h2 class="flush-title">Latest runs</h2>
      <Loaded from={resource}>
        {({ runs }) =>
          runs.length === 0 ? (
            <p class="table-note">No run has begun.</p>
          ) : (
            <Table label="Runs" rows={runs} keyOf={({ id }) => id} columns={COLUMNS} linked />
          )
        }
      </Loaded>
    </section>
  );
}

const COLUMNS: Column<Run>[] = [
  {
    ...{ name: "Run", width: "minmax(150px, 1fr)", narrow: "minmax(0, 1fr)" },
    cell: ({ id }) => (
      <a class="code cover" href={linkTo(["runs", id])} title={id}>
        {shortId(id)}
      </a>
    ),
  },
  { name: "State", width: "96px", narrow: "80px", cell: ({ state }) => <StateBadge state={state} /> },
  {
    name: "Took",
    width: "88px",
    narrow: "60px",
    number: true,
    cell: ({ createdAt, endedAt }) => showDuration((endedAt ?? now.value) - createdAt),
  },
  {
    name: "Began",
    width: "96px",
    narrow: "84px",
    number: true,
    cell: ({ createdAt }) => <Ago at={createdAt} />,
  },
];
