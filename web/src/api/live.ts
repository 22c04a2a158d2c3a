/** The one stream that feeds the page. It is opened again when the page shows something else, and when it breaks. */

import { effect, signal } from "@preact/signals";
import type { LiveFrame } from "./contract.ts";
import { call, send } from "./call.ts";
import { readLines } from "./lines.ts";
import { signInReason, tokenOf } from "./session.ts";
import type { Me } from "./contract.ts";

/** What the stream contains besides totals and jobs. */
export type View = { queues: true } | { queue: string } | null;

export const connection = signal<"connecting" | "live" | "lost">("connecting");
/** When the next attempt to connect is made, on the page's clock. */
export const nextAttemptAt = signal(0);
export const me = signal<Me | null>(null);

const view = signal<View>(null);
const listeners = new Set<(frame: LiveFrame) => void>();
/** The server writes every five seconds at least. */
const SILENT_MS = 12_000;
const FIRST_WAIT_MS = 400;
const LONGEST_WAIT_MS = 5_000;

export function setView(wanted: View): void {
  if (JSON.stringify(wanted) !== JSON.stringify(view.peek())) view.value = wanted;
}

/** @returns a function that stops it */
export function onFrame(listener: (frame: LiveFrame) => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Follows the view and the token for as long as the page is open. */
export function startLive(): void {
  let stop = new AbortController();
  effect(() => {
    const wanted = view.value;
    tokenOf();
    stop.abort();
    stop = new AbortController();
    if (signInReason.value === null) void follow(wanted, stop.signal);
  });
}

async function follow(wanted: View, signal: AbortSignal): Promise<void> {
  let wait = FIRST_WAIT_MS;
  while (!signal.aborted) {
    try {
      me.value = await call<Me>("v1/me", { signal });
      if (me.value.signIn) {
        signInReason.value = "";
        return;
      }
      await readStream(wanted, signal, () => (wait = FIRST_WAIT_MS));
    } catch {
      // A refused token is handled where it was refused; everything else is worth another attempt.
    }
    if (signal.aborted || signInReason.peek() !== null) return;
    connection.value = "lost";
    nextAttemptAt.value = Date.now() + wait;
    await pause(wait, signal);
    wait = Math.min(LONGEST_WAIT_MS, wait * 1.7) * (0.85 + Math.random() * 0.3);
  }
}

async function readStream(wanted: View, signal: AbortSignal, onFirst: () => void): Promise<void> {
  const silent = new AbortController();
  let timer = setTimeout(() => silent.abort(), SILENT_MS);
  const both = AbortSignal.any([signal, silent.signal]);
  const query = wanted === null ? {} : "queue" in wanted ? { queue: wanted.queue } : { queues: "true" };
  try {
    const response = await send("v1/live", { query, signal: both });
    for await (const frame of readLines(response.body!)) {
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), SILENT_MS);
      if (connection.peek() !== "live") connection.value = "live";
      onFirst();
      for (const listener of listeners) listener(frame as LiveFrame);
    }
  } finally {
    clearTimeout(timer);
  }
}

/** Ends early when the reader's machine is online again. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      removeEventListener("online", done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    addEventListener("online", done);
    signal.addEventListener("abort", done);
  });
}
