/** Dialogs: one at a time, in the browser's own `<dialog>`, which keeps the focus inside and closes on Escape. */

import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { inWords } from "../api/call.ts";
import { Button } from "./button.tsx";
import { Copy } from "./copy.tsx";

const open = signal<{ key: number; content: ComponentChildren; wide: boolean } | null>(null);
let last = 0;

export function showDialog(content: ComponentChildren, { wide = false } = {}): void {
  open.value = { key: ++last, content, wide };
}

export function closeDialog(): void {
  open.value = null;
}

export function DialogHost() {
  const dialog = useRef<HTMLDialogElement>(null);
  const shown = open.value;
  useEffect(() => {
    if (shown && !dialog.current?.open) dialog.current?.showModal();
  }, [shown]);
  if (!shown) return null;
  return (
    <dialog
      key={shown.key}
      ref={dialog}
      class={shown.wide ? "wide" : undefined}
      aria-labelledby="dialog-title"
      onClose={closeDialog}
      onClick={(event) => event.target === dialog.current && closeDialog()}
    >
      {shown.content}
    </dialog>
  );
}

interface Question {
  title: string;
  /** What will happen, and to how many. */
  children: ComponentChildren;
  /** Says what and how many: "Discard 214 tasks". */
  action: string;
  danger?: boolean;
  /** The same in the shell. */
  command?: string | undefined;
  run: () => Promise<void>;
}

/** Asks before an action, says what it does, and offers its form in the shell. */
export function ask(question: Question): void {
  showDialog(<Confirm {...question} />);
}

function Confirm({ title, children, action, danger = false, command, run }: Question) {
  const { busy, failure, submit } = useSubmit(run);
  return (
    <form onSubmit={submit}>
      <div>
        <h2 id="dialog-title">{title}</h2>
        <div class="quiet">{children}</div>
      </div>
      {command !== undefined && <CommandLine command={command} />}
      <Failure text={failure} />
      <DialogActions action={action} danger={danger} busy={busy} />
    </form>
  );
}

export function CommandLine({ command }: { command: string }) {
  return (
    <div class="field">
      <span>The same in a shell</span>
      <Copy text={command} />
    </div>
  );
}

export function Failure({ text }: { text: string | null }) {
  return text === null ? null : (
    <p class="red" role="alert">
      {text}
    </p>
  );
}

export function DialogActions({
  action,
  danger = false,
  busy,
}: {
  action: string;
  danger?: boolean;
  busy: boolean;
}) {
  return (
    <div class="dialog-actions">
      <Button onClick={closeDialog}>Cancel</Button>
      <Button type="submit" main danger={danger} disabled={busy}>
        {action}
      </Button>
    </div>
  );
}

/** Closes the dialog when `run` succeeds; otherwise the dialog stays and says why. */
export function useSubmit(run: () => Promise<void>) {
  const [busy, setBusy] = useState(false);
  const [failure, setFailure] = useState<string | null>(null);
  async function execute() {
    setBusy(true);
    setFailure(null);
    try {
      await run();
      closeDialog();
    } catch (error) {
      setFailure(inWords(error));
      setBusy(false);
    }
  }
  function submit(event: Event) {
    event.preventDefault();
    void execute();
  }
  return { busy, failure, submit };
}
