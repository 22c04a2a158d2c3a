import { call } from "../../api/call.ts";
import { showDuration } from "../../format/duration.ts";
import { filter, linkTo, route } from "../../router/route.ts";
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

const STATES = ["running", "done", "dead", "cancelled"] as const satisfies Run["state"][];

/** The latest runs of one pipeline, of all states or of one. */
export function Runs({ pipeline }: { pipeline: string }) {
  const state = STATES.find((each) => each === route.value.query.get("state"));
  const path = `v1/pipelines/${encodeURIComponent(pipeline)}/runs`;
  const resource = useResource(
    (signal) => call<{ runs: Run[] }>(path, { query: { limit: 50, ...(state && { state }) }, signal }),
    [pipeline, state],
    2_000,
  );
  return (
    <section class="card flush">
      <div class="flush-head">
        <h2>Latest runs</h2>
        <div class="tabs" role="group" aria-label="State of the runs">
          {STATES.map((each) => (
            <button
              key={each}
              type="button"
              class="tab"
              aria-pressed={each === state}
              onClick={() => filter({ state: each === state ? null : each })}
            >
              {each}
            </button>
          ))}
        </div>
      </div>
      <Loaded from={resource}>
        {({ runs }) =>
          runs.length === 0 ? (
            <p class="table-note">{state ? `No run is ${state}.` : "No run has begun."}</p>
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
