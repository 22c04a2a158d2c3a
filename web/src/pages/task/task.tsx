/** One task: what it is, what happened to it, and what can be done with it. */

import { call } from "../../api/call.ts";
import type { Attempt, FoundTask } from "../../api/contract.ts";
import { UNLIMITED } from "../../format/number.ts";
import { isForChildren } from "../../format/children.ts";
import { isSleep } from "../../format/sleep.ts";
import { workerName } from "../../format/worker.ts";
import { linkTo } from "../../router/route.ts";
import { may } from "../../store/access.ts";
import { useResource } from "../../store/resource.ts";
import { Ago, Instant } from "../../ui/ago.tsx";
import { Button } from "../../ui/button.tsx";
import { CopyButton } from "../../ui/copy.tsx";
import { Loaded } from "../../ui/loaded.tsx";
import { PageHead } from "../../ui/page-head.tsx";
import { TaskBadge } from "../../ui/state-badge.tsx";
import { shortId, TaskLink } from "../../ui/task-link.tsx";
import { Viewer } from "../../ui/viewer.tsx";
import { addAgain, askToCancel, askToRetry, sendSignal } from "./actions.tsx";
import { type Child, Children } from "./children.tsx";
import { Steps, type Step } from "./steps.tsx";
import { Timeline } from "./timeline.tsx";

const PENDING = new Set(["scheduled", "waiting", "ready", "claimed", "parked", "verifying"]);
const REFRESH_MS = 1_000;

interface Loaded {
  task: FoundTask;
  attempts: Attempt[];
  steps: Step[];
  children: Child[];
}

export function TaskPage({ id }: { id: string }) {
  const path = `v1/tasks/${encodeURIComponent(id)}`;
  const resource = useResource<Loaded>(
    async (signal) => {
      const [task, { attempts }, { steps }, { children }] = await Promise.all([
        call<FoundTask>(path, { signal }),
        call<{ attempts: Attempt[] }>(`${path}/history`, { signal }),
        call<{ steps: Step[] }>(`${path}/steps`, { signal }),
        call<{ children: Child[] }>(`${path}/children`, { signal }),
      ]);
      return { task, attempts, steps: steps.filter(({ kind }) => kind !== "child"), children };
    },
    [id],
    REFRESH_MS,
  );
  return (
    <>
      <PageHead
        title={`Task ${shortId(id)}`}
        crumb={<a href={linkTo(["tasks"])}>Tasks</a>}
        facts={resource.value && <TaskBadge task={resource.value.task} />}
        actions={resource.value && <Actions task={resource.value.task} reload={resource.reload} />}
      />
      <Loaded from={resource}>{(loaded) => <Details {...loaded} />}</Loaded>
    </>
  );
}

function Actions({ task, reload }: { task: FoundTask; reload: () => void }) {
  const { state, queue, waitsFor } = task;
  return (
    <>
      {may("add", queue) && <Button onClick={() => addAgain(task)}>Edit and add again</Button>}
      {waitsFor !== null && !isForChildren(waitsFor) && may("admin", queue) && (
        <Button onClick={() => sendSignal(task, waitsFor, reload)}>
          {isSleep(waitsFor) ? "Wake" : "Send signal"}
        </Button>
      )}
      {PENDING.has(state) && may("admin", queue) && (
        <Button danger onClick={() => askToCancel(task, reload)}>
          Cancel task
        </Button>
      )}
      {state === "dead" && may("admin", queue) && (
        <Button main onClick={() => askToRetry(task, reload)}>
          Retry
        </Button>
      )}
    </>
  );
}

function Details({ task, attempts, steps, children }: Loaded) {
  const { truncated, encoding, contentType, error } = task;
  return (
    <div class="stack">
      {error && task.state !== "done" && (
        <section class="card failure">
          <h3>Last error</h3>
          <p class="red">
            <b>{error.name}</b>: {error.message}
          </p>
          {error.stack !== null && (
            <details>
              <summary>Stack</summary>
              <pre>{error.stack}</pre>
            </details>
          )}
        </section>
      )}
      <div class="columns sides">
        <section class="card">
          <h2>Timeline</h2>
          <Timeline task={task} attempts={attempts} />
        </section>
        <section class="card">
          <h2>Details</h2>
          <Facts task={task} />
        </section>
      </div>
      {children.length > 0 && (
        <Children children={children} total={task.children?.total ?? children.length} />
      )}
      {steps.length > 0 && <Steps steps={steps} />}
      <section class="card">
        <Viewer
          title="Payload"
          value={{ data: task.data, contentType, encoding, truncated: truncated?.data }}
        />
      </section>
      {task.state === "done" && (
        <section class="card">
          <Viewer title="Result" value={{ data: task.result, truncated: truncated?.result }} />
        </section>
      )}
    </div>
  );
}

function Facts({ task }: { task: FoundTask }) {
  const {
    id,
    queue,
    priority,
    groupKey,
    idempotencyKey,
    headers,
    attempt,
    maxAttempts,
    worker,
    progress,
    run,
  } = task;
  return (
    <dl class="facts-list">
      <dt>Id</dt>
      <dd class="with-copy">
        <span class="code clip" title={id}>
          {id}
        </span>
        <CopyButton text={id} />
      </dd>
      <dt>Queue</dt>
      <dd>
        <a href={linkTo(["queues", queue])}>{queue}</a>
      </dd>
      <dt>Attempt</dt>
      <dd>{maxAttempts === UNLIMITED ? `${attempt}, no limit` : `${attempt} of ${maxAttempts}`}</dd>
      {worker !== null && task.state === "claimed" && (
        <>
          <dt>Worker</dt>
          <dd>
            {workerName(worker)}, since <Ago at={task.startedAt} />
          </dd>
        </>
      )}
      {progress && (
        <>
          <dt>Progress</dt>
          <dd>
            {Math.round(progress.value * 100)} % {progress.note}
          </dd>
        </>
      )}
      {task.dueAt !== null && task.state === "scheduled" && (
        <>
          <dt>Due</dt>
          <dd>
            <Instant at={task.dueAt} />, <Ago at={task.dueAt} />
          </dd>
        </>
      )}
      {task.waitsFor !== null && (
        <>
          <dt>{isSleep(task.waitsFor) ? "Sleeps" : "Waits for"}</dt>
          <dd>
            {isForChildren(task.waitsFor)
              ? "its children "
              : !isSleep(task.waitsFor) && `the signal “${task.waitsFor}” `}
            {task.dueAt !== null && (
              <>
                until <Instant at={task.dueAt} />
              </>
            )}
          </dd>
        </>
      )}
      <dt>Priority</dt>
      <dd>{task.urgent ? "urgent" : priority}</dd>
      {groupKey !== null && (
        <>
          <dt>Group</dt>
          <dd>{groupKey}</dd>
        </>
      )}
      {idempotencyKey !== null && (
        <>
          <dt>Key</dt>
          <dd>{idempotencyKey}</dd>
        </>
      )}
      {task.uniqueKey !== undefined && (
        <>
          <dt>Unique</dt>
          <dd class="clip">{task.uniqueKey}</dd>
        </>
      )}
      {task.parent && (
        <>
          <dt>Parent</dt>
          <dd>
            <TaskLink id={task.parent.id} /> in{" "}
            <a href={linkTo(["queues", task.parent.queue])}>{task.parent.queue}</a>
          </dd>
        </>
      )}
      {run && (
        <>
          <dt>Run</dt>
          <dd>
            <a href={linkTo(["runs", run.id])}>
              {run.pipeline}, stage {run.stage}
            </a>
          </dd>
        </>
      )}
      {Object.entries(headers).map(([name, value]) => (
        <HeaderRow key={name} name={name} value={value} />
      ))}
    </dl>
  );
}

function HeaderRow({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt class="code">{name}</dt>
      <dd class="code">{value}</dd>
    </>
  );
}
