/** One kind of failure: who it happened to, its tasks, and the way out: redrive one, see it pass, redrive the rest. */

import { useState } from "preact/hooks";
import { call } from "../../api/call.ts";
import type { FoundTask } from "../../api/contract.ts";
import { countOf, showShare } from "../../format/number.ts";
import { may } from "../../store/access.ts";
import { useResource } from "../../store/resource.ts";
import { Ago, Instant } from "../../ui/ago.tsx";
import { Button } from "../../ui/button.tsx";
import { Failure } from "../../ui/dialog.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { TaskLink } from "../../ui/task-link.tsx";
import { sayError } from "../../ui/toast.tsx";
import { askForJob } from "../tasks/bulk.tsx";
import { preview } from "../tasks/search-text.ts";
import { Breakdown } from "./breakdown.tsx";
import type { DeadGroup } from "./dead.tsx";
import { GroupTitle } from "./group-title.tsx";
import { Trial } from "./trial.tsx";

const LISTED = 200;
const SHOWN = 50;

export function GroupDetail({ group, by, reload }: { group: DeadGroup; by: string; reload: () => void }) {
  const { queue, pattern, count, firstAt, lastAt, sample, share } = group;
  // Only kinds of failure can be chosen by the server; other groupings are for looking.
  const canChoose = by === "fingerprint";
  const [trial, setTrial] = useState<string | null>(null);
  const path = `v1/queues/${encodeURIComponent(queue)}`;
  const { value: tasks = [], failure } = useResource(
    async (signal) => {
      const query = { state: "dead", limit: LISTED, ...(canChoose && { pattern }) };
      const page = await call<{ tasks: FoundTask[] }>(`${path}/tasks`, { query, signal });
      return page.tasks.filter((task) => isOf(task, by, pattern)).slice(0, SHOWN);
    },
    [queue, pattern, by, count],
  );
  const mayAct = may("admin", queue);
  async function redriveOne(id: string) {
    try {
      await call(`${path}/dead/redrive`, { body: { ids: [id] } });
      setTrial(id);
      reload();
    } catch (error) {
      sayError(error);
    }
  }
  const rest = { queue, ...(canChoose && { pattern }) };
  return (
    <section class="card inbox-detail" aria-label="The chosen kind of failure">
      <div>
        <h2 class={canChoose ? "red" : undefined}>
          <GroupTitle pattern={pattern} by={by} />
        </h2>
        <p class="quiet">
          {countOf(count, "task")} of {queue}, {showShare(share)} of its dead letters. First{" "}
          <Instant at={firstAt} />, last <Ago at={lastAt} />.
        </p>
        {sample.error && sample.error.message !== "" && (
          <p class="sample">
            <span class="quiet">For example: </span>
            {sample.error.message}
          </p>
        )}
      </div>
      {mayAct && canChoose && (
        <div class="row">
          {tasks[0] && (
            <Button main={count === 1} onClick={() => void redriveOne(tasks[0]!.id)}>
              Redrive one
            </Button>
          )}
          {count > 1 && (
            <Button main onClick={() => askForJob({ action: "redrive", ...rest }, count)}>
              Redrive {countOf(count, "task")}
            </Button>
          )}
          <Button danger onClick={() => askForJob({ action: "discard", ...rest }, count)}>
            Discard {countOf(count, "task")}
          </Button>
        </div>
      )}
      {trial !== null && <Trial id={trial} />}
      {sample.error?.stack != null && (
        <details>
          <summary>Stack of one of them</summary>
          <pre>{sample.error.stack}</pre>
        </details>
      )}
      <Breakdown queue={queue} tasks={tasks} count={count} />
      <Failure text={failure} />
      <Table
        label="Tasks of this kind"
        rows={tasks}
        keyOf={({ id }) => id}
        columns={columnsFor(mayAct ? (id) => void redriveOne(id) : null)}
        linked
      />
      {count > tasks.length && tasks.length > 0 && (
        <p class="quiet">
          {tasks.length} of {countOf(count, "task")} are listed.
        </p>
      )}
    </section>
  );
}

function isOf({ error, worker, headers }: FoundTask, by: string, pattern: string): boolean {
  if (by === "fingerprint") return error?.fingerprint === pattern;
  if (by === "worker") return worker === pattern || worker === null;
  return (headers[by.slice("header:".length)] ?? "") === pattern;
}

function columnsFor(redrive: ((id: string) => void) | null): Column<FoundTask>[] {
  return [
    { name: "Task", width: "150px", narrow: "minmax(0, 1fr)", cell: ({ id }) => <TaskLink id={id} cover /> },
    {
      name: "Payload",
      width: "minmax(80px, 1fr)",
      wide: true,
      cell: ({ data }) => <span class="code quiet">{preview(data)}</span>,
    },
    // Before the last column, so that no empty space is at the end of a row that is not pointed at.
    {
      ...{ name: "", width: "76px" },
      cell: ({ id }) =>
        redrive && (
          <span class="row-actions">
            <Button small onClick={() => redrive(id)}>
              Redrive
            </Button>
          </span>
        ),
    },
    {
      name: "Died",
      width: "88px",
      narrow: "84px",
      number: true,
      cell: ({ endedAt }) => <Ago at={endedAt} />,
    },
  ];
}
