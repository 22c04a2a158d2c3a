/** The policy of a queue, and what each change would do before it is made. */

import { useEffect, useState } from "preact/hooks";
import { call, inWords } from "../../api/call.ts";
import type { PolicyPreview, QueuePolicy } from "../../api/contract.ts";
import { countOf } from "../../format/number.ts";
import { quote } from "../../format/shell.ts";
import { Button } from "../../ui/button.tsx";
import { closeDialog, CommandLine, DialogActions, Failure, showDialog, useSubmit } from "../../ui/dialog.tsx";
import { say } from "../../ui/toast.tsx";
import { bodyOf, type PolicyField, readChanges, SECTIONS } from "./policy-fields.ts";
import { policyCommand } from "./policy-command.ts";
import type { PolicyValue } from "./policy-values.ts";

export function editPolicy(queue: string, policy: QueuePolicy, mayEdit: boolean): void {
  showDialog(<PolicyEditor queue={queue} policy={policy} mayEdit={mayEdit} />, { wide: true });
}

function PolicyEditor({ queue, policy, mayEdit }: { queue: string; policy: QueuePolicy; mayEdit: boolean }) {
  const [texts, setTexts] = useState<Record<string, string>>({});
  const { preview, problem, changes, body } = usePreview(queue, policy, texts);
  const path = `v1/queues/${encodeURIComponent(queue)}`;
  const { busy, failure, submit } = useSubmit(async () => {
    await call(path, { method: "PUT", body });
    say(`The policy of ${queue} is changed.`);
  });
  const count = preview?.changes.length ?? 0;
  return (
    <form onSubmit={submit}>
      <h2 id="dialog-title">Policy of {queue}</h2>
      <div class="policy">
        {SECTIONS.map(({ title, fields }) => (
          <fieldset key={title}>
            <legend>{title}</legend>
            {fields.map((field) => (
              <Field
                key={field.name}
                field={field}
                before={field.write(policy)}
                text={texts[field.name]}
                mayEdit={mayEdit}
                onChange={(text) => setTexts({ ...texts, [field.name]: text })}
              />
            ))}
          </fieldset>
        ))}
      </div>
      <div class="policy-foot">
        {count > 0 && <Effects preview={preview!} />}
        {count > 0 && <CommandLine command={`dibs queue set ${quote(queue)} ${policyCommand(changes)}`} />}
        <Failure text={problem ?? failure} />
        {mayEdit ? (
          <DialogActions
            action={count === 0 ? "Nothing changed" : `Make ${countOf(count, "change")}`}
            busy={busy || count === 0 || problem !== null}
          />
        ) : (
          <div class="dialog-actions">
            <Button onClick={closeDialog}>Close</Button>
          </div>
        )}
      </div>
    </form>
  );
}

interface FieldProps {
  field: PolicyField;
  before: string;
  /** Undefined: not touched. */
  text: string | undefined;
  mayEdit: boolean;
  onChange: (text: string) => void;
}

function Field({ field: { name, label, hint, choices }, before, text, mayEdit, onChange }: FieldProps) {
  const value = text ?? before;
  const common = { name, value, title: hint, "aria-describedby": `hint-${name}` };
  return (
    <label class={`field ${value === before ? "" : "changed"}`}>
      <span>{label}</span>
      {choices ? (
        <select
          {...common}
          class="select"
          disabled={!mayEdit}
          onChange={(event) => onChange(event.currentTarget.value)}
        >
          {choices.map((each) => (
            <option key={each}>{each}</option>
          ))}
        </select>
      ) : (
        <input
          {...common}
          class="input"
          readOnly={!mayEdit}
          onInput={(event) => onChange(event.currentTarget.value)}
        />
      )}
      <small id={`hint-${name}`}>{hint}</small>
    </label>
  );
}

function Effects({ preview }: { preview: PolicyPreview }) {
  return (
    <section class="effects" aria-label="What the changes do" aria-live="polite">
      <h3>What this does</h3>
      <ul>
        {preview.changes.map(({ field, effect }) => (
          <li key={field}>
            <code>{field}</code> <span>{effect}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

const PREVIEW_AFTER_MS = 200;

/** Asks the server what the changes would do, shortly after the last key. */
function usePreview(queue: string, policy: QueuePolicy, texts: Record<string, string>) {
  const [preview, setPreview] = useState<PolicyPreview | null>(null);
  const [refusal, setRefusal] = useState<string | null>(null);
  let changes: Record<string, PolicyValue> = {};
  let unread: string | null = null;
  try {
    changes = readChanges(policy, texts);
  } catch (error) {
    unread = inWords(error);
  }
  const body = bodyOf(policy, changes);
  const key = JSON.stringify(body);
  useEffect(() => {
    setRefusal(null);
    if (unread !== null || key === "{}") return setPreview(null);
    const stop = new AbortController();
    const timer = setTimeout(() => {
      const path = `v1/queues/${encodeURIComponent(queue)}/preview`;
      call<PolicyPreview>(path, { body, signal: stop.signal }).then(setPreview, (error: unknown) => {
        if (!stop.signal.aborted) setRefusal(inWords(error));
      });
    }, PREVIEW_AFTER_MS);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [key, unread]);
  return { preview: unread === null ? preview : null, problem: unread ?? refusal, changes, body };
}
