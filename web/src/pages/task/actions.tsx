/** What can be done with one task. */

import { useState } from "preact/hooks";
import { call } from "../../api/call.ts";
import type { FoundTask } from "../../api/contract.ts";
import { quote } from "../../format/shell.ts";
import { go, linkTo } from "../../router/route.ts";
import { ask, CommandLine, DialogActions, Failure, showDialog, useSubmit } from "../../ui/dialog.tsx";
import { say } from "../../ui/toast.tsx";

export function askToCancel({ id, state, queue }: FoundTask, done: () => void): void {
  ask({
    title: "Cancel this task?",
    children:
      state === "claimed"
        ? "Its worker is asked to stop. However it finishes, the task ends as cancelled."
        : `It leaves ${queue} at once and will not run.`,
    ...{ action: "Cancel 1 task", danger: true, command: `dibs task cancel ${id}` },
    run: async () => {
      await call(`v1/tasks/${id}/cancel`, { method: "POST" });
      say("The task is cancelled.");
      done();
    },
  });
}

export function askToRetry({ id, queue }: FoundTask, done: () => void): void {
  ask({
    title: "Retry this task?",
    children: `It enters the line of ${queue} again, with all its attempts. Steps that it has stored are kept.`,
    ...{ action: "Retry 1 task", command: `dibs task retry ${id}` },
    run: async () => {
      await call(`v1/queues/${encodeURIComponent(queue)}/dead/redrive`, { body: { ids: [id] } });
      say("The task is in the line again.");
      done();
    },
  });
}

export function addAgain(task: FoundTask): void {
  showDialog(<AddAgain task={task} />, { wide: true });
}

function AddAgain({ task: { queue, data, headers, priority, groupKey, encoding } }: { task: FoundTask }) {
  const [text, setText] = useState(JSON.stringify(data, null, 2) ?? "null");
  const { busy, failure, submit } = useSubmit(async () => {
    const body = { data: readJson(text), headers, priority, ...(groupKey !== null && { groupKey }) };
    const added = await call<{ id: string }>(`v1/queues/${encodeURIComponent(queue)}/tasks`, { body });
    go(linkTo(["tasks", added.id]));
    say("The new task is added.");
  });
  return (
    <form onSubmit={submit}>
      <div>
        <h2 id="dialog-title">Edit and add again</h2>
        <p class="quiet">
          This adds a new task to {queue}, with the same headers, priority and group. The task that you look
          at stays as it is.
          {encoding !== undefined && " Its payload is bytes: what you write here is added as JSON."}
        </p>
      </div>
      <label class="field">
        <span>Payload, as JSON</span>
        <textarea
          class="area"
          name="payload"
          value={text}
          spellcheck={false}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <CommandLine command={`dibs add ${quote(queue)} ${quote(oneLine(text))}`} />
      <Failure text={failure} />
      <DialogActions action="Add 1 task" busy={busy} />
    </form>
  );
}

export function sendSignal(task: FoundTask, name: string, done: () => void): void {
  showDialog(<SendSignal id={task.id} name={name} done={done} />);
}

function SendSignal({ id, name, done }: { id: string; name: string; done: () => void }) {
  const [text, setText] = useState("null");
  const { busy, failure, submit } = useSubmit(async () => {
    await call(`v1/tasks/${id}/signals/${encodeURIComponent(name)}`, { body: { data: readJson(text) } });
    say(`The signal “${name}” is sent.`);
    done();
  });
  return (
    <form onSubmit={submit}>
      <h2 id="dialog-title">Send the signal “{name}”</h2>
      <label class="field">
        <span>Its data, as JSON</span>
        <textarea
          class="area"
          name="signal"
          value={text}
          spellcheck={false}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <CommandLine command={`dibs task signal ${id} ${quote(name)} ${quote(oneLine(text))}`} />
      <Failure text={failure} />
      <DialogActions action="Send signal" busy={busy} />
    </form>
  );
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new Error(`This is not JSON: ${(error as Error).message}.`, { cause: error });
  }
}

function oneLine(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
}
