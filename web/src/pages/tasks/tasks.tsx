/** Tasks of all queues, found with one search box. Says what was searched and how far. */

import { useEffect, useState } from "preact/hooks";
import { call, inWords } from "../../api/call.ts";
import type { FoundTask, SearchPage } from "../../api/contract.ts";
import { showAttempt } from "../../format/number.ts";
import { filter, linkTo, route } from "../../router/route.ts";
import { isReadOnly } from "../../store/access.ts";
import { Ago } from "../../ui/ago.tsx";
import { Button } from "../../ui/button.tsx";
import { Failure } from "../../ui/dialog.tsx";
import { PageHead } from "../../ui/page-head.tsx";
import { TaskBadge } from "../../ui/state-badge.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { TaskLink } from "../../ui/task-link.tsx";
import { askForJob } from "./bulk.tsx";
import { describeSearch, preview, withState } from "./search-text.ts";

const STATES = ["ready", "claimed", "scheduled", "parked", "verifying", "done", "dead"] as const;
const PAGE = 100;
const AFTER_TYPING_MS = 250;

export function TasksPage() {
  const q = route.value.query.get("q") ?? "";
  const search = useSearch(q);
  return (
    <>
      <PageHead title="Tasks" actions={!isReadOnly.value && q.trim() !== "" && <BulkActions q={q} />} />
      <div class="card flush">
        <div class="table-tools">
          <input
            class="input wide"
            type="search"
            aria-label="Search tasks"
            aria-describedby="search-help"
            placeholder="state:dead queue:emails error:timeout header:type=order older:1h any text"
            value={q}
            spellcheck={false}
            onInput={(event) => filter({ q: event.currentTarget.value })}
          />
          <div class="tabs" role="group" aria-label="State">
            {STATES.map((state) => (
              <button
                key={state}
                type="button"
                class="tab"
                aria-pressed={q.includes(`state:${state}`)}
                onClick={() => filter({ q: withState(q, state) })}
              >
                {state === "claimed" ? "running" : state}
              </button>
            ))}
          </div>
          <p id="search-help" class="unseen">
            All words must match. state, queue, id, key, error, header, worker, older and newer take a value
            after a colon; any other word is searched in the payload.
          </p>
        </div>
        <Failure text={search.failure} />
        <Table label="Tasks" rows={search.tasks} keyOf={({ id }) => id} columns={COLUMNS} linked />
        <p class="table-note" role="status">
          {search.last === null
            ? "Searching…"
            : describeSearch(search.last, search.tasks.length, search.looked)}{" "}
          {search.last?.next != null && (
            <Button small onClick={search.further}>
              Search further
            </Button>
          )}
        </p>
      </div>
    </>
  );
}

function BulkActions({ q }: { q: string }) {
  const isDead = q.includes("state:dead");
  return (
    <>
      {isDead && <Button onClick={() => askForJob({ action: "redrive", q })}>Redrive all that match</Button>}
      {isDead ? (
        <Button danger onClick={() => askForJob({ action: "discard", q })}>
          Discard all that match
        </Button>
      ) : (
        <Button danger onClick={() => askForJob({ action: "cancel", q })}>
          Cancel all that match
        </Button>
      )}
    </>
  );
}

const COLUMNS: Column<FoundTask>[] = [
  { name: "Task", width: "150px", narrow: "minmax(0, 1fr)", cell: ({ id }) => <TaskLink id={id} cover /> },
  { name: "State", width: "92px", narrow: "88px", cell: (task) => <TaskBadge task={task} /> },
  {
    ...{ name: "Queue", width: "minmax(110px, 1.6fr)", wide: true },
    cell: ({ queue }) => (
      <a href={linkTo(["queues", queue])} title={queue}>
        {queue}
      </a>
    ),
  },
  { name: "Payload or error", width: "minmax(140px, 3fr)", wide: true, cell: Content },
  {
    name: "Attempt",
    width: "64px",
    number: true,
    wide: true,
    cell: ({ attempt, maxAttempts }) => showAttempt(attempt, maxAttempts),
  },
  {
    name: "Added",
    width: "96px",
    narrow: "84px",
    number: true,
    cell: ({ createdAt }) => <Ago at={createdAt} />,
  },
];

function Content({ error, data }: FoundTask) {
  if (error) return <span class="red">{`${error.name}: ${error.message}`}</span>;
  return <span class="code quiet">{preview(data)}</span>;
}

/** Pages of one search, one after the other. */
function useSearch(q: string) {
  const [found, setFound] = useState<{ tasks: FoundTask[]; last: SearchPage | null; looked: number }>(
    NOTHING,
  );
  const [failure, setFailure] = useState<string | null>(null);
  const [cursor, setCursor] = useState<{ q: string; after: string | null }>({ q, after: null });
  useEffect(() => setCursor({ q, after: null }), [q]);
  useEffect(() => {
    const stop = new AbortController();
    const { after } = cursor;
    const timer = setTimeout(
      () => {
        const query = { q: cursor.q, limit: PAGE, after };
        call<SearchPage>("v1/search", { query, signal: stop.signal }).then(
          (page) => {
            setFailure(null);
            return setFound((before) => ({
              tasks: after === null ? page.tasks : [...before.tasks, ...page.tasks],
              last: page,
              looked: (after === null ? 0 : before.looked) + page.searched.looked,
            }));
          },
          (error: unknown) => {
            if (!stop.signal.aborted) setFailure(inWords(error));
          },
        );
      },
      after === null ? AFTER_TYPING_MS : 0,
    );
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [cursor]);
  return { ...found, failure, further: () => setCursor({ q, after: found.last?.next ?? null }) };
}

const NOTHING = { tasks: [], last: null, looked: 0 };
