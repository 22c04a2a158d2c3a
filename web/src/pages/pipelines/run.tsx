/** One run: its path through the stages of its pipeline, task by task. */

import { call } from "../../api/call.ts";
import { showDuration } from "../../format/duration.ts";
import { linkTo } from "../../router/route.ts";
import { may } from "../../store/access.ts";
import { now } from "../../store/clock.ts";
import { useResource } from "../../store/resource.ts";
import { Button } from "../../ui/button.tsx";
import { ask } from "../../ui/dialog.tsx";
import { Loaded } from "../../ui/loaded.tsx";
import { Fact, PageHead } from "../../ui/page-head.tsx";
import { StateBadge } from "../../ui/state-badge.tsx";
import { shortId } from "../../ui/task-link.tsx";
import { say } from "../../ui/toast.tsx";
import { type Part, RunPath } from "./run-path.tsx";
import type { Run } from "./runs.tsx";

interface RunPage {
  run: Run;
  parts: Part[];
  next: number | null;
}

export function RunPage({ id }: { id: string }) {
  const resource = useResource(
    (signal) => call<RunPage>(`v1/runs/${encodeURIComponent(id)}`, { query: { limit: 500 }, signal }),
    [id],
    1_000,
  );
  const run = resource.value?.run;
  return (
    <>
      <PageHead
        title={`Run ${shortId(id)}`}
        crumb={run && <a href={linkTo(["pipelines", run.pipeline])}>{run.pipeline}</a>}
        facts={
          run && (
            <>
              <StateBadge state={run.state} />
              <Fact value={showDuration((run.endedAt ?? now.value) - run.createdAt)} of="from start to end" />
            </>
          )
        }
        actions={
          run?.state === "running" &&
          may("admin", `${run.pipeline}/${run.stages[0]?.name}`) && (
            <Button danger onClick={() => askToCancelRun(run, resource.reload)}>
              Cancel run
            </Button>
          )
        }
      />
      <Loaded from={resource}>
        {({ run: whole, parts, next }) => (
          <section class="card">
            <RunPath run={whole} parts={parts} />
            {next !== null && <p class="quiet">The first {parts.length} tasks are shown.</p>}
          </section>
        )}
      </Loaded>
    </>
  );
}

function askToCancelRun({ id, pipeline }: Run, done: () => void): void {
  ask({
    title: "Cancel this run?",
    children: `All tasks of this run of ${pipeline} that have not ended are cancelled.`,
    ...{ action: "Cancel 1 run", danger: true, command: `dibs run cancel ${id}` },
    run: async () => {
      await call(`v1/runs/${id}/cancel`, { method: "POST" });
      say("The run is cancelled.");
      done();
    },
  });
}
