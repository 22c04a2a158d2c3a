/** All workers: what each runs now, since when, and its last heartbeat. */

import { call } from "../../api/call.ts";
import type { FoundTask, SearchPage, WorkerRecord } from "../../api/contract.ts";
import { showSeconds } from "../../format/duration.ts";
import { countOf } from "../../format/number.ts";
import { linkTo } from "../../router/route.ts";
import { now } from "../../store/clock.ts";
import { useResource } from "../../store/resource.ts";
import { Empty } from "../../ui/empty.tsx";
import { Loaded } from "../../ui/loaded.tsx";
import { Fact, PageHead } from "../../ui/page-head.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { TaskLink } from "../../ui/task-link.tsx";

interface Row extends WorkerRecord {
  running: FoundTask[];
}

const REFRESH_MS = 2_000;
/** A worker sends a heartbeat every ten seconds. */
const LATE_MS = 15_000;

export function WorkersPage() {
  const resource = useResource(load, [], REFRESH_MS);
  const workers = resource.value ?? [];
  const busy = workers.filter(({ claims }) => claims > 0).length;
  return (
    <>
      <PageHead
        title="Workers"
        facts={
          workers.length > 0 && (
            <>
              <Fact value={String(workers.length)} of="connected" />
              <Fact value={String(busy)} of="busy" />
            </>
          )
        }
      />
      <Loaded from={resource}>
        {(rows) =>
          rows.length === 0 ? (
            <Empty title="No worker is connected." commands={["dibs work emails -- cat"]}>
              A worker appears here as soon as it starts. Any program can be one:
            </Empty>
          ) : (
            <div class="card flush">
              <Table label="Workers" rows={rows} keyOf={({ id }) => id} columns={COLUMNS} />
            </div>
          )
        }
      </Loaded>
    </>
  );
}

async function load(signal: AbortSignal): Promise<Row[]> {
  const [{ workers }, { tasks }] = await Promise.all([
    call<{ workers: WorkerRecord[] }>("v1/workers", { query: { limit: 1_000 }, signal }),
    call<SearchPage>("v1/search", { query: { q: "state:claimed", limit: 500 }, signal }),
  ]);
  const byWorker = Map.groupBy(tasks, ({ worker }) => worker);
  return workers
    .map((worker) => ({ ...worker, running: byWorker.get(worker.id) ?? [] }))
    .sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
}

const COLUMNS: Column<Row>[] = [
  {
    name: "Worker",
    width: "minmax(110px, 1.2fr)",
    narrow: "minmax(80px, 1fr)",
    cell: ({ name }) => <b>{name}</b>,
  },
  { name: "Runs now", width: "minmax(150px, 2fr)", narrow: "minmax(110px, 1.3fr)", cell: Running },
  {
    name: "Slots",
    width: "64px",
    number: true,
    wide: true,
    cell: ({ claims, concurrency }) => `${claims}/${concurrency}`,
  },
  { name: "Queues", width: "minmax(100px, 1.4fr)", wide: true, cell: Queues },
  {
    name: "Host and pid",
    width: "minmax(90px, 1fr)",
    wide: true,
    cell: ({ host, pid }) => <span class="quiet">{`${host} ${pid}`}</span>,
  },
  {
    name: "Connected",
    width: "88px",
    number: true,
    wide: true,
    cell: ({ joinedAt }) => showSeconds(Math.max(1_000, now.value - joinedAt)),
  },
  { name: "Heartbeat", width: "92px", narrow: "84px", number: true, cell: Heartbeat },
];

function Running({ running, claims }: Row) {
  const [first] = running;
  if (!first) return <span class="quiet">{claims > 0 ? countOf(claims, "task") : "idle"}</span>;
  const elapsed = Math.max(0, now.value - (first.startedAt ?? now.value));
  return (
    <>
      <TaskLink id={first.id} /> <span class="quiet">for {showSeconds(elapsed)}</span>
      {claims > 1 && <span class="quiet"> and {claims - 1} more</span>}
    </>
  );
}

function Queues({ queues }: Row) {
  return (
    <>
      {queues.slice(0, 3).map((queue) => (
        <a key={queue} class="gap-right" href={linkTo(["queues", queue])}>
          {queue}
        </a>
      ))}
      {queues.length > 3 && <span class="quiet">and {queues.length - 3} more</span>}
    </>
  );
}

function Heartbeat({ silentFor }: Row) {
  return (
    <span class={silentFor > LATE_MS ? "amber" : undefined}>
      {showSeconds(Math.max(1_000, silentFor))} ago
    </span>
  );
}
