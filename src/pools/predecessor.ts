import { hostname } from "node:os";
import type { SupervisedRecord } from "../core/supervision.ts";
import { isRunning, startedBy } from "./process-facts.ts";
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
 * restarted never has its workers twice. On this machine, its launcher ends them, and then itself. If the launcher was
 * killed too, they are ended here. On another machine, its workers have had the stop timeout since its lease ended.
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
  let waited = 0;
  let renewed = 0;
  const waitUntil = async (isOver: () => boolean): Promise<void> => {
    while (!signal.aborted && !isOver()) {
      await sleep(POLL_MS);
      waited += POLL_MS;
      if (waited - renewed < lease / 3) continue;
      renewed = waited;
      await renew();
    }
  };
  if (before.host !== hostname()) return waitUntil(() => waited >= stopTimeout);
  await waitUntil(() => !isRunning(launcher));
  const until = waited + stopTimeout;
  endAll(startedBy(launcher), "SIGTERM");
  await waitUntil(() => waited >= until || startedBy(launcher).length === 0);
  endAll(startedBy(launcher), "SIGKILL");
}

function endAll(pids: readonly number[], signal: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch {
      // It has ended.
    }
  }
}
