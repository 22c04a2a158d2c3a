/** What happened to a task, from add to end: each attempt with its worker, its time and its error. */

import type { ComponentChildren } from "preact";
import type { Attempt, FoundTask } from "../../api/contract.ts";
import { showDuration } from "../../format/duration.ts";
import { isForChildren } from "../../format/children.ts";
import { isSleep } from "../../format/sleep.ts";
import { workerName } from "../../format/worker.ts";
import { now } from "../../store/clock.ts";
import { Ago, Instant } from "../../ui/ago.tsx";

const WORDS: Record<Attempt["outcome"], { text: string; tone: string }> = {
  done: { text: "succeeded", tone: "accent" },
  failed: { text: "failed", tone: "red" },
  refused: { text: "was refused by its verifier", tone: "red" },
  rejected: { text: "was rejected", tone: "red" },
  lost: { text: "was lost with its worker", tone: "amber" },
  timeout: { text: "timed out", tone: "red" },
  released: { text: "was given back", tone: "" },
  limited: { text: "was held back by a limit", tone: "" },
  parked: { text: "was parked", tone: "" },
  cancelled: { text: "was cancelled", tone: "" },
};

export function Timeline({ task, attempts }: { task: FoundTask; attempts: Attempt[] }) {
  const { state, createdAt, startedAt, worker } = task;
  return (
    <ol class="timeline">
      <Entry at={createdAt} tone="">
        Added
      </Entry>
      {attempts.map((each) => (
        <AttemptEntry key={each.fence} attempt={each} />
      ))}
      {state === "claimed" && startedAt !== null && (
        <Entry at={startedAt} tone="accent">
          <b>Attempt {task.attempt}</b> is running on {workerName(worker ?? "")} for{" "}
          {showDuration(Math.max(0, now.value - startedAt))}
          {task.progress && (
            <p class="quiet">
              {Math.round(task.progress.value * 100)} % {task.progress.note}
            </p>
          )}
          <Log lines={task.log} />
        </Entry>
      )}
      {state !== "claimed" && (
        <Entry at={task.endedAt} tone={state === "dead" ? "red" : state === "done" ? "accent" : ""}>
          {state === "parked" ? <Parked task={task} /> : END[state]}
          {state === "scheduled" && task.dueAt !== null && (
            <>
              {" "}
              <Ago at={task.dueAt} />
            </>
          )}
        </Entry>
      )}
    </ol>
  );
}

/** Asleep until a time, or waiting for a signal, perhaps for a limited time. */
function Parked({ task: { waitsFor, dueAt } }: { task: FoundTask }) {
  const until = dueAt !== null && (
    <>
      until <Instant at={dueAt} />, <Ago at={dueAt} />
    </>
  );
  if (isSleep(waitsFor)) return <>Sleeps {until}</>;
  if (isForChildren(waitsFor)) return <>Waits for its children {until}</>;
  return (
    <>
      Waits for the signal “{waitsFor}” {until}
    </>
  );
}

function Log({ lines = [] }: { lines: Attempt["log"] }) {
  if (lines.length === 0) return null;
  return (
    <ol class="log" aria-label="What the attempt logged">
      {lines.map(({ at, text }, index) => (
        <li key={index}>
          <Instant at={at} /> <span>{text}</span>
        </li>
      ))}
    </ol>
  );
}

const END: Record<Exclude<FoundTask["state"], "claimed" | "parked">, string> = {
  done: "Done",
  dead: "Dead letter: it waits for somebody to look",
  cancelled: "Cancelled",
  expired: "Expired: it did not start in time",
  scheduled: "Waits until it is due,",
  ready: "Ready: the next free worker takes it",
  waiting: "Waits behind its group",
  verifying: "Waits for its verifier's verdict",
};

function AttemptEntry({
  attempt: { attempt, worker, startedAt, endedAt, outcome, error, log },
}: {
  attempt: Attempt;
}) {
  const { text, tone } = WORDS[outcome];
  return (
    <Entry at={startedAt} tone={tone}>
      <b>Attempt {attempt}</b> on {workerName(worker)} {text} after{" "}
      {showDuration(Math.max(0, endedAt - startedAt))}
      {error && (
        <details>
          <summary class="clip red">
            {error.name}: {error.message}
          </summary>
          <pre>{error.stack ?? "No stack was stored."}</pre>
        </details>
      )}
      <Log lines={log} />
    </Entry>
  );
}

function Entry({ at, tone, children }: { at: number | null; tone: string; children: ComponentChildren }) {
  return (
    <li class={tone}>
      <span class="quiet">{at !== null && <Instant at={at} />}</span>
      <div>{children}</div>
    </li>
  );
}
