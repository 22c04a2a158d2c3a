import type { SupervisedRecord, SupervisionEntry } from "../core/supervision.ts";
import { readReport } from "../pools/report.ts";

/** Pools as `dibs.pools()` shows them, whichever process runs them. */
export interface PoolInfo {
  name: string;
  queues: string[];
  host: string;
  pid: number;
  /** A process runs it now. */
  running: boolean;
  mode: string;
  min: number;
  max: number;
  size: number;
  workers: { live: number; starting: number; busy: number };
  /** Of the last decision. */
  reasons: string[];
}

export interface PoolDecision extends Omit<SupervisionEntry, "at"> {
  at: Date;
}

export function describePool({ name, queues, host, pid, heldFor, report }: SupervisedRecord): PoolInfo {
  const { mode, min, max, size, workers, reasons } = readReport(report);
  return { name, queues, host, pid, running: heldFor > 0, mode, min, max, size, workers, reasons };
}
