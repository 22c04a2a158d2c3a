import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as base } from "vitest";
import {
  type Dibs,
  open,
  type OpenOptions,
  type QueuePolicyOptions,
  type WorkOptions,
} from "../../../src/index.ts";
import type { Act } from "../programs/acts.ts";
import { Program } from "./program.ts";

/** What a test works with: a folder with one store, processes that share it, and this process as one of them. */
export class Stage {
  readonly folder = mkdtempSync(join(tmpdir(), "dibs-e2e-"));
  /** The store's file, or its address if a test has put it elsewhere. */
  file = join(this.folder, "work.db");
  readonly #cleanups: (() => unknown)[] = [];

  start(program: string, options: object, how?: ConstructorParameters<typeof Program>[2]): Program {
    const started = new Program(program, options, how);
    this.onEnd(() => started.kill());
    return started;
  }

  /** A process with a worker that does what its tasks say: programs/acts.ts. */
  async startWorker(
    options: WorkerOptions,
    how?: ConstructorParameters<typeof Program>[2],
  ): Promise<Program> {
    const program = this.start("worker.ts", { file: this.file, queue: "work", ...options }, how);
    await program.hears("ready");
    return program;
  }

  async open(options?: OpenOptions): Promise<Dibs> {
    const dibs = await open(this.file, options);
    this.onEnd(() => dibs.close());
    return dibs;
  }

  /** What was created last is removed first. */
  onEnd(cleanup: () => unknown): void {
    this.#cleanups.push(cleanup);
  }

  async clear(): Promise<void> {
    const failures: unknown[] = [];
    for (const cleanup of this.#cleanups.toReversed()) {
      try {
        await cleanup();
      } catch (error) {
        failures.push(error);
      }
    }
    rmSync(this.folder, { recursive: true, force: true });
    if (failures.length > 0) throw new AggregateError(failures, "The stage could not be cleared.");
  }
}

export interface WorkerOptions {
  file?: string;
  queue?: string;
  policy?: QueuePolicyOptions;
  work?: WorkOptions;
  poll?: OpenOptions["poll"];
  /** Workers in the process; default 1. */
  workers?: number;
  /** How long the handlers may finish after SIGTERM. */
  stopTimeout?: number;
}

// oxlint-disable-next-line eslint/no-empty-pattern -- vitest reads the pattern, to know what a fixture needs
export const test = base.extend("stage", async ({}, { onCleanup }) => {
  const stage = new Stage();
  onCleanup(() => stage.clear());
  return stage;
});

/** A queue of acts, for tests that add to it. */
export function actsOf(dibs: Dibs, policy?: QueuePolicyOptions, name = "work") {
  return dibs.queue<Act>(name, policy);
}

/**
 * A lease for processes that must keep their claims. They send heartbeats every second, so two seconds without CPU or
 * disk do not lose a claim: shorter leases ended while other tests kept two cores busy.
 */
export const KEPT_LEASE_MS = 3_000;

const LOOK_EVERY_MS = 50;
const PATIENCE_MS = 60_000;

/** For what only the store knows: checks again and again until it is true. */
export async function until(what: string, holds: () => Promise<boolean> | boolean): Promise<void> {
  const end = performance.now() + PATIENCE_MS;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error(`Waited in vain until ${what}.`);
    await pause(LOOK_EVERY_MS);
  }
}

/** Only if time itself is the subject: a lease that must end, a step that must do nothing. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
