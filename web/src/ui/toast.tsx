/** Short messages about what has just happened. Errors stay until they are closed. */

import { signal } from "@preact/signals";
import { inWords } from "../api/call.ts";
import { Button } from "./button.tsx";

interface Toast {
  id: number;
  text: string;
  bad: boolean;
  action?: { label: string; run(): void } | undefined;
}

const SHOWN_MS = 5_000;
const toasts = signal<Toast[]>([]);
let last = 0;

export function say(text: string, action?: Toast["action"]): void {
  show({ text, bad: false, action });
}

export function sayError(error: unknown): void {
  show({ text: inWords(error), bad: true });
}

function show(toast: Omit<Toast, "id">): void {
  const id = ++last;
  toasts.value = [...toasts.value.slice(-3), { ...toast, id }];
  if (!toast.bad) setTimeout(() => close(id), SHOWN_MS);
}

function close(id: number): void {
  toasts.value = toasts.value.filter((each) => each.id !== id);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, bad, action }) => (
        <div key={id} class={bad ? "toast bad" : "toast"}>
          <p>{text}</p>
          {action && (
            <Button
              small
              onClick={() => {
                action.run();
                close(id);
              }}
            >
              {action.label}
            </Button>
          )}
          <Button small plain label="Close this message" onClick={() => close(id)}>
            ✕
          </Button>
        </div>
      ))}
    </div>
  );
}
