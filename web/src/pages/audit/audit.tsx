/** Who did what through this server. */

import { useState } from "preact/hooks";
import { call } from "../../api/call.ts";
import type { AuditEntry, AuditPage as Entries } from "../../api/contract.ts";
import { linkTo } from "../../router/route.ts";
import { may } from "../../store/access.ts";
import { useResource } from "../../store/resource.ts";
import { Instant } from "../../ui/ago.tsx";
import { Button } from "../../ui/button.tsx";
import { Empty } from "../../ui/empty.tsx";
import { Loaded } from "../../ui/loaded.tsx";
import { PageHead } from "../../ui/page-head.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { TaskLink } from "../../ui/task-link.tsx";

const PAGE = 200;

export function AuditPage() {
  if (!may("admin"))
    return (
      <>
        <PageHead title="Audit" />
        <Empty title="Only administrators see this.">It needs a token with the scope admin:*.</Empty>
      </>
    );
  return <Audit />;
}

function Audit() {
  const [limit, setLimit] = useState(PAGE);
  const resource = useResource(
    (signal) => call<Entries>("v1/audit", { query: { limit }, signal }),
    [limit],
    5_000,
  );
  return (
    <>
      <PageHead title="Audit" />
      <Loaded from={resource}>
        {({ entries, next }) =>
          entries.length === 0 ? (
            <Empty title="Nobody has changed anything yet.">
              Every action of an operator is listed here: pauses, purges, redrives, changes of policies,
              tokens.
            </Empty>
          ) : (
            <div class="card flush">
              <Table
                label="Audit"
                rows={entries.map((entry, at) => ({ ...entry, at2: at }))}
                keyOf={({ at, at2 }) => `${at} ${at2}`}
                columns={COLUMNS}
              />
              <p class="table-note">
                The last entries of this server, since it was started.{" "}
                {next !== null && limit < 1_000 && (
                  <Button small onClick={() => setLimit(limit + PAGE)}>
                    Show more
                  </Button>
                )}
              </p>
            </div>
          )
        }
      </Loaded>
    </>
  );
}

const COLUMNS: Column<AuditEntry>[] = [
  { name: "When", width: "130px", narrow: "72px", cell: ({ at }) => <Instant at={at} /> },
  { name: "Who", width: "minmax(80px, 1fr)", narrow: "minmax(56px, 1fr)", cell: ({ by }) => <b>{by}</b> },
  { name: "What", width: "minmax(90px, 1fr)", narrow: "minmax(64px, 1fr)", cell: What },
  { name: "On", width: "minmax(120px, 3fr)", narrow: "minmax(80px, 1.5fr)", cell: Target },
];

function What({ verb, refused }: AuditEntry) {
  return (
    <>
      {verb} {refused && <span class="badge">refused</span>}
    </>
  );
}

function Target({ queue, task, run, schedule, pipeline, token }: AuditEntry) {
  return (
    <>
      {queue !== undefined && (
        <a class="gap-right" href={linkTo(["queues", queue])}>
          {queue}
        </a>
      )}
      {task !== undefined && <TaskLink id={task} />}
      {run !== undefined && <a href={linkTo(["runs", run])}>run {run.slice(-12)}</a>}
      {pipeline !== undefined && <a href={linkTo(["pipelines", pipeline])}>{pipeline}</a>}
      {schedule}
      {token}
    </>
  );
}
