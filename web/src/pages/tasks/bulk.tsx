/** Bulk actions: the server carries them out on everything that matches, with progress, until a user stops them. */

import { useState } from "preact/hooks";
import { call } from "../../api/call.ts";
import type { BulkAction, NewBulkJob } from "../../api/contract.ts";
import { countOf } from "../../format/number.ts";
import { quote } from "../../format/shell.ts";
import { CommandLine, DialogActions, Failure, showDialog, useSubmit } from "../../ui/dialog.tsx";
import { say } from "../../ui/toast.tsx";

const WORDS: Record<BulkAction, { verb: string; effect: string }> = {
  redrive: { verb: "Redrive", effect: "They enter the line again, with their attempts reset." },
  retry: { verb: "Retry", effect: "They start again from the beginning, without their steps." },
  discard: { verb: "Discard", effect: "They are removed with their history. It cannot be undone." },
  cancel: {
    verb: "Cancel",
    effect: "Running ones are asked to stop; the others end at once. It cannot be undone.",
  },
};

/** @param count how many match, where it is known */
export function askForJob(job: NewBulkJob, count?: number): void {
  showDialog(<JobDialog job={job} count={count} />);
}

function JobDialog({ job, count }: { job: NewBulkJob; count: number | undefined }) {
  const [rate, setRate] = useState("");
  const { verb, effect } = WORDS[job.action];
  const what =
    count === undefined ? "all that match" : countOf(count, job.action === "cancel" ? "task" : "dead letter");
  const hasRate = job.action === "redrive" || job.action === "retry";
  const wanted = { ...job, ...(hasRate && rate !== "" && { rate: Number(rate) }) };
  const { busy, failure, submit } = useSubmit(async () => {
    await call("v1/jobs", { body: wanted });
    say(`The server has started: ${verb.toLowerCase()} ${what}.`);
  });
  const command = commandOf(wanted);
  return (
    <form onSubmit={submit}>
      <div>
        <h2 id="dialog-title">
          {verb} {what}?
        </h2>
        <p class="quiet">
          {job.q === undefined
            ? `In ${job.queue}. `
            : `Everything that “${job.q}” finds when the server gets to it. `}
          {effect} You can stop it at any time; what is done stays done.
        </p>
      </div>
      {hasRate && (
        <label class="field">
          <span>At most so many per second; empty: as fast as possible</span>
          <input
            class="input"
            type="number"
            name="rate"
            min="0.1"
            step="any"
            value={rate}
            onInput={(event) => setRate(event.currentTarget.value)}
          />
        </label>
      )}
      {command !== null && <CommandLine command={command} />}
      <Failure text={failure} />
      <DialogActions action={`${verb} ${what}`} danger={!hasRate} busy={busy} />
    </form>
  );
}

/** The shell has no search over all queues, so only the dead letters of one queue have a command. */
function commandOf({
  action,
  queue,
  pattern,
  error,
  ids,
  rate,
}: NewBulkJob & { rate?: number }): string | null {
  if (queue === undefined || action === "cancel") return null;
  const words = ["dibs dead", action === "discard" ? "discard" : "redrive", quote(queue)];
  if (ids) words.push("--id", ...ids);
  if (pattern !== undefined) words.push("--pattern", quote(pattern));
  if (error !== undefined) words.push("--error", quote(error));
  if (action === "discard" && !ids && pattern === undefined && error === undefined) words.push("--all");
  if (action === "retry") words.push("--fresh");
  if (rate !== undefined) words.push("--rate", `${rate}/1s`);
  return words.join(" ");
}
