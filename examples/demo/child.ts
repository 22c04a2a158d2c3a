/**
 * Aborts when the supervisor says so, or is gone. Ctrl-C reaches every process of a terminal; here it is left to
 * the supervisor, which stops its children in order.
 */
export function untilToldToStop(): AbortSignal {
  const stop = new AbortController();
  process.on("SIGINT", () => {});
  process.once("SIGTERM", () => stop.abort());
  process.once("disconnect", () => stop.abort());
  return stop.signal;
}

/** The channel to the supervisor is all that keeps a child alive by now. */
export function leave(): void {
  if (process.connected) process.disconnect();
}

export async function toldToStop(stop: AbortSignal): Promise<void> {
  if (stop.aborted) return;
  await new Promise((resolve) => stop.addEventListener("abort", resolve, { once: true }));
}
