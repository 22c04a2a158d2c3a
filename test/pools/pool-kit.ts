// Pools with real processes on a real file.

import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { type Dibs, open, type PoolOptions } from "../../src/index.ts";

export function programPath(name: string): string {
  return fileURLToPath(new URL(`./programs/${name}.ts`, import.meta.url));
}

export interface Site {
  file: string;
  dibs: Dibs;
  /** Options of a pool with quick decisions. */
  options(program: "worker" | "drone", more?: Partial<PoolOptions>): PoolOptions;
}

export async function makeSite(): Promise<Site> {
  const folder = mkdtempSync(join(tmpdir(), "dibs-pool-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "work.db");
  const dibs = await open(file);
  onTestFinished(() => dibs.close());
  const options = (program: "worker" | "drone", more: Partial<PoolOptions> = {}): PoolOptions => ({
    ...{ name: "workers", queues: ["work"], command: [process.execPath, programPath(program)] },
    kind: program === "drone" ? "drone" : "program",
    env: { DIBS_URL: file },
    ...{ min: 0, max: 4, tasksPerWorker: 2, upCooldown: 100, downCooldown: 500, stepDown: 4 },
    ...{ interval: 50, lease: 500, stopTimeout: "10s", output: "ignore" },
    ...more,
  });
  return { file, dibs, options };
}

/** The processes of a site that run: everything whose environment names its file, without this process. */
export function processesOf(file: string): number[] {
  return readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 0 && pid !== process.pid && environmentOf(pid).includes(file));
}

export function childrenOf(pid: number): number[] {
  return readFileSync(`/proc/${pid}/task/${pid}/children`, "latin1").split(" ").filter(Boolean).map(Number);
}

/** Stopped by a signal: state T in /proc. */
export function isStopped(pid: number): boolean {
  return /\) T /.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
}

function environmentOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1");
  } catch {
    return "";
  }
}

/** A process that runs the pool of these options; it prints "ready". */
export function startSupervisor(file: string, options: PoolOptions) {
  const child = spawn(process.execPath, [programPath("supervisor"), JSON.stringify({ file, options })], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}
