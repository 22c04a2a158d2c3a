/** All queues: how deep, how fast, what holds each back. Thousands of them, as a list of what is in view. */

import type { QueueRow } from "../../api/contract.ts";
import { countOf, showCount, showExact, showRate, showShare } from "../../format/number.ts";
import { filter, linkTo, route } from "../../router/route.ts";
import { queues, totals } from "../../store/figures.ts";
import { Age } from "../../ui/ago.tsx";
import { Fact, PageHead } from "../../ui/page-head.tsx";
import { Sparkline } from "../../ui/sparkline.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { FlowCard } from "./flow.tsx";
import { FirstPage } from "./first-page.tsx";
import { holdsBack } from "./holds-back.ts";
import { sortRows } from "./sort-rows.ts";

export function Overview() {
  const known = queues.value;
  if (known?.size === 0) return <FirstPage />;
  const { query } = route.value;
  const wanted = query.get("q") ?? "";
  const sort = query.get("sort") ?? "name";
  const rows = known ? sortRows([...known.values()], sort, wanted) : [];
  return (
    <>
      <PageHead title="Overview" facts={<Totals />} />
      <div class="stack overview">
        <FlowCard />
        <div class="card flush">
          <div class="table-tools">
            <input
              class="input"
              type="search"
              aria-label="Find a queue by its name"
              placeholder="Find a queue"
              value={wanted}
              onInput={(event) => filter({ q: event.currentTarget.value })}
            />
            {rows.length === known?.size ? (
              <Attention rows={rows} />
            ) : (
              <span class="quiet">{`${rows.length} of ${known?.size ?? 0}`}</span>
            )}
          </div>
          <Table
            label="Queues"
            rows={rows}
            keyOf={({ name }) => name}
            columns={columnsFor(sort, sparkMinutes([...(known?.values() ?? [])]))}
            linked
          />
          {rows.length === 0 && known && <p class="table-note">No queue has “{wanted}” in its name.</p>}
        </div>
      </div>
    </>
  );
}

const LEAST_SPARK_MINUTES = 8;
/** Fewer values are a speck, not a line. */
const LEAST_SPARK = 3;

/** Names that are shown of the queues that are held back. */
const NAMED = 3;

/** Whether work flows, as a sentence. */
function Attention({ rows }: { rows: QueueRow[] }) {
  const held = rows.filter((row) => holdsBack(row) !== null);
  if (held.length === 0) return <span class="quiet">Nothing is held back.</span>;
  const names = held.slice(0, NAMED).map(({ name }) => name);
  const more = held.length - names.length;
  return (
    <span class="amber clip">
      {countOf(held.length, "queue")} held back: {names.join(", ")}
      {more > 0 && ` and ${showExact(more)} more`}
    </span>
  );
}

function Totals() {
  const figures = totals.value;
  if (!figures) return null;
  const { waiting, running, dead, workers } = figures;
  return (
    <>
      <Fact value={showCount(waiting)} of="waiting" exact={showExact(waiting)} />
      <Fact value={showCount(running)} of="running" exact={showExact(running)} />
      <Fact
        value={showCount(workers)}
        of={workers === 1 ? "worker" : "workers"}
        tone={workers === 0 && waiting > 0 ? "amber" : undefined}
      />
      {dead > 0 && <Fact value={showCount(dead)} of="dead" tone="red" exact={showExact(dead)} />}
    </>
  );
}

/** All rows share one time axis: as long as what is recorded of the oldest queue. */
function sparkMinutes(rows: QueueRow[]): number {
  return rows.reduce((most, { spark = [] }) => Math.max(most, spark.length), LEAST_SPARK_MINUTES);
}

function columnsFor(current: string, minutes: number): Column<QueueRow>[] {
  const sort = (by: string) => ({ by, current, pick: (wanted: string) => filter({ sort: wanted }) });
  return [
    {
      name: "Queue",
      width: "minmax(120px, 2.8fr)",
      narrow: "minmax(80px, 1fr)",
      sort: sort("name"),
      cell: nameOf,
    },
    {
      ...{ name: `Last ${minutes} min`, width: "minmax(80px, 1fr)", wide: true },
      cell: ({ spark = [], name }) =>
        spark.length >= LEAST_SPARK ? (
          <Sparkline values={spark} of={minutes} label={`Tasks that waited in ${name}`} />
        ) : null,
    },
    {
      ...{ name: "Waiting", width: "72px", narrow: "56px", number: true, sort: sort("depth") },
      cell: ({ depth }) => <Exact value={depth.ready + depth.waiting} />,
    },
    {
      name: "Running",
      width: "68px",
      number: true,
      wide: true,
      cell: ({ depth }) => <Exact value={depth.claimed} />,
    },
    {
      name: "In/s",
      width: "60px",
      number: true,
      wide: true,
      sort: sort("in"),
      cell: ({ rates }) => <Rate value={rates.addedPerSecond} />,
    },
    {
      name: "Out/s",
      width: "60px",
      narrow: "44px",
      number: true,
      sort: sort("out"),
      cell: ({ rates }) => <Rate value={rates.donePerSecond} />,
    },
    {
      name: "Oldest",
      width: "76px",
      number: true,
      wide: true,
      sort: sort("oldest"),
      cell: ({ oldestAt }) => <Age since={oldestAt} />,
    },
    {
      ...{ name: "Failing", width: "64px", number: true, wide: true, sort: sort("failing") },
      cell: ({ failureRate }) => (
        <span class={!failureRate ? "quiet" : failureRate > 0.2 ? "red" : undefined}>
          {showShare(failureRate)}
        </span>
      ),
    },
    {
      ...{ name: "Dead", width: "56px", narrow: "36px", number: true, sort: sort("dead") },
      cell: ({ depth }) =>
        depth.dead === 0 ? <span class="quiet">0</span> : <span class="red">{showCount(depth.dead)}</span>,
    },
    { name: "Held back by", width: "minmax(150px, 1.1fr)", wide: true, cell: HeldBack },
  ];
}

function nameOf({ name }: QueueRow) {
  return (
    <a class="cover" title={name} href={linkTo(["queues", name])}>
      {name}
    </a>
  );
}

function HeldBack(row: QueueRow) {
  const held = holdsBack(row);
  return held === null ? <span class="quiet">–</span> : <span class="amber">{held}</span>;
}

/** Zeros step back, so that the eye finds what moves. */
function Exact({ value }: { value: number }) {
  return (
    <span class={value === 0 ? "quiet" : undefined} title={showExact(value)}>
      {showCount(value)}
    </span>
  );
}

function Rate({ value }: { value: number }) {
  return <span class={value === 0 ? "quiet" : undefined}>{showRate(value)}</span>;
}
