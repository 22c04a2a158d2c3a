import { hostname } from "node:os";
import type { SupervisedRecord } from "../core/supervision.ts";
import { isRunning } from "./process-facts.ts";
import { readReport } from "./report.ts";

interface Waiting {
  /** Keeps the name meanwhile. */
  renew: () => Promise<void>;
  sleep: (ms: number) => Promise<void>;
  signal: AbortSignal;
}

const POLL_MS = 50;

/**
 * Waits until the workers of the process that held the name before are gone, so that a pool that was killed and
 * restarted never has its workers twice. On this machine, its launcher says so by its end. On another machine, its
 * workers have had the stop timeout since its lease ended.
 */
export async function awaitPredecessor(
  before: SupervisedRecord | null,
  { lease }: { lease: number },
  { renew, sleep, signal }: Waiting,
): Promise<void> {
  // A name that was given up has no workers any more.
  if (before === null || before.heldUntil === null) return;
  const { launcher, stopTimeout } = readReport(before.report);
  if (launcher === null) return;
  const isHere = before.host === hostname();
  let waited = 0;
  let renewed = 0;
  const isGone = (): boolean => (isHere ? !isRunning(launcher) : waited >= stopTimeout);
  while (!signal.aborted && !isGone()) {
    await sleep(POLL_MS);
    waited += POLL_MS;
    if (waited - renewed < lease / 3) continue;
    renewed = waited;
    await renew();
  }
}
