/** Bulk jobs that are running or have just ended, at the bottom of every page, with a button to stop them. */

import { call } from "../api/call.ts";
import type { BulkJob } from "../api/contract.ts";
import { countOf, showExact } from "../format/number.ts";
import { may } from "../store/access.ts";
import { now } from "../store/clock.ts";
import { jobs } from "../store/figures.ts";
import { Button } from "../ui/button.tsx";
import { sayError } from "../ui/toast.tsx";

/** An ended job stays in view for so long. */
const SHOWN_MS = 12_000;

export function Jobs() {
  const shown = jobs.value.filter(({ endedAt }) => endedAt === null || now.value - endedAt < SHOWN_MS);
  if (shown.length === 0) return null;
  return (
    <section class="jobs" aria-label="Bulk jobs">
      {shown.map((job) => (
        <Job key={job.id} job={job} />
      ))}
    </section>
  );
}

function Job({ job }: { job: BulkJob }) {
  const { id, text, state, total, done, skipped, error, queue } = job;
  const share = state === "finished" ? 1 : total ? Math.min(1, done / total) : 0;
  return (
    <div class="job">
      <div class="job-head">
        <b class="clip">{text}</b>
        {state === "running" && may("admin", queue ?? "*") && (
          <Button small onClick={() => void call(`v1/jobs/${id}/stop`, { method: "POST" }).catch(sayError)}>
            Stop
          </Button>
        )}
      </div>
      <div class="meter" role="progressbar" aria-label={text} aria-valuenow={Math.round(share * 100)}>
        <i style={{ transform: `scaleX(${share})` }} />
      </div>
      <p class={state === "failed" ? "red" : "quiet"} role="status">
        {describe(state)}{" "}
        {total === null ? countOf(done, "task") : `${showExact(done)} of ${countOf(total, "task")}`}
        {skipped > 0 && `; ${showExact(skipped)} had moved on`}
        {error !== null && `: ${error}`}
      </p>
    </div>
  );
}

function describe(state: BulkJob["state"]): string {
  return { running: "Running:", stopped: "Stopped after", finished: "Done:", failed: "Failed after" }[state];
}
