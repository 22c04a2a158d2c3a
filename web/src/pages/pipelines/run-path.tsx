/** The path of a run: each task as a bar on the run's time, thin while it waited and thick while it ran. */

import type { TaskState } from "../../api/contract.ts";
import { showDuration } from "../../format/duration.ts";
import { now } from "../../store/clock.ts";
import { StateBadge } from "../../ui/state-badge.tsx";
import { TaskLink } from "../../ui/task-link.tsx";
import type { Run } from "./runs.tsx";

export interface Part {
  id: string;
  stage: string;
  part: number[];
  state: TaskState;
  createdAt: number;
  startedAt: number | null;
  endedAt: number | null;
}

export function RunPath({ run, parts }: { run: Run; parts: Part[] }) {
  const from = run.createdAt;
  const span = Math.max(1, (run.endedAt ?? now.value) - from);
  const quarters = [0, 0.25, 0.5, 0.75, 1];
  return (
    <div class="gantt">
      <div class="gantt-axis" aria-hidden="true">
        <span class="gantt-scale">
          {quarters.map((share) => (
            <span key={share} style={{ left: `${share * 100}%` }}>
              {share === 0 ? "0 s" : showDuration(share * span)}
            </span>
          ))}
        </span>
      </div>
      <ol>
        {run.stages.map(({ name, joins }) => {
          const own = parts.filter(({ stage }) => stage === name);
          return (
            <li key={name} class="gantt-stage">
              <h2>
                {name}
                {joins && <span class="quiet"> joins all parts</span>}
              </h2>
              {own.length === 0 && <p class="quiet">Not reached yet.</p>}
              <ul>
                {own.map((part) => (
                  <PartRow key={part.id} part={part} from={from} span={span} />
                ))}
              </ul>
            </li>
          );
        })}
      </ol>
    </div>
  );
}

function PartRow({ part, from, span }: { part: Part; from: number; span: number }) {
  const { id, state, createdAt, startedAt, endedAt } = part;
  const end = endedAt ?? now.value;
  const percent = (ms: number) => `${(Math.max(0, ms) / span) * 100}%`;
  const tone = state === "dead" ? "red" : state === "parked" || state === "verifying" ? "amber" : "";
  const waited = (startedAt ?? end) - createdAt;
  const ran = startedAt === null ? null : end - startedAt;
  return (
    <li class="gantt-row">
      <TaskLink id={id} />
      <StateBadge state={state} />
      <span class="gantt-line" aria-hidden="true">
        <i class="waited" style={{ left: percent(createdAt - from), width: percent(waited) }} />
        {ran !== null && (
          <i class={`ran ${tone}`} style={{ left: percent(startedAt! - from), width: percent(ran) }} />
        )}
      </span>
      <span class="gantt-times">
        <span class="quiet">waited</span> {showDuration(waited)}
        {ran !== null && (
          <>
            <span class="quiet">, ran</span> {showDuration(ran)}
          </>
        )}
      </span>
    </li>
  );
}
