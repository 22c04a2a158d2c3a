/**
 * Aborts when the supervisor says so, or is gone. Ctrl-C reaches every process of a terminal. Children ignore it,
 * because the supervisor stops them in order.
 */
export function untilToldToStop(): AbortSignal {
  const stop = new AbortController();
  process.on("SIGINT", () => {});
  process.once("SIGTERM", () => stop.abort());
  process.once("disconnect", () => stop.abort());
  return stop.signal;
}

/** At this point, only the channel to the supervisor keeps a child alive. */
export function leave(): void {
  if (process.connected) process.disconnect();
}

export async function toldToStop(stop: AbortSignal): Promise<void> {
  if (stop.aborted) return;
  await new Promise((resolve) => stop.addEventListener("abort", resolve, { once: true }));
}
