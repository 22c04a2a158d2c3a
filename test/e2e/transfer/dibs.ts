import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createReadStream, createWriteStream, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { setTimeout as sleep } from "node:timers/promises";
import type { TransferStore } from "../../../src/engine/transfer.ts";
import { open } from "../../../src/index.ts";
import { bareEnvironment } from "../../run/compile-cache.ts";

/** The command as a process, and the stores that it uses. */

const MAIN = fileURLToPath(new URL("../../../src/cli/main.ts", import.meta.url));
/** Reports the peak memory of the process at its end. */
const TELL_MEMORY = `data:text/javascript,process.on("exit",()=>console.error("peak",process.resourceUsage().maxRSS))`;

export function makeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "dibs-transfer-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export function start(folder: string, ...args: string[]): ChildProcess {
  const child = spawn(process.execPath, ["--import", TELL_MEMORY, MAIN, ...args], {
    cwd: folder,
    env: bareEnvironment(),
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

export interface Ended {
  code: number | null;
  stderr: string;
  /** Peak memory in bytes. */
  peak: number;
}

/** Waits for its end. Standard input and output are files of the folder. */
export async function ended(
  child: ChildProcess,
  files: { from?: string; into?: string } = {},
): Promise<Ended> {
  let stderr = "";
  child.stderr!.setEncoding("utf8").on("data", (part: string) => (stderr += part));
  const { from, into } = files;
  // A process that refuses stops reading.
  const given =
    from === undefined ? undefined : pipeline(createReadStream(from), child.stdin!).catch(() => {});
  if (given === undefined) child.stdin!.end();
  const written = into === undefined ? undefined : pipeline(child.stdout!, createWriteStream(into));
  if (written === undefined) child.stdout!.resume();
  const [code] = (await once(child, "close")) as [number | null];
  await Promise.all([given, written]);
  return { code, stderr, peak: Number(/peak (\d+)/.exec(stderr)?.[1] ?? 0) * 1024 };
}

/**
 * Waits until this many records have arrived in a store that is being filled. Returns the number, or undefined if the
 * store is open.
 */
export async function arrived(store: TransferStore, least: number): Promise<number | undefined> {
  for (;;) {
    const state = await store.state();
    if (state.kind === "imported") return undefined;
    if (state.kind === "importing" && state.done >= least) return state.done;
    await sleep(5);
  }
}

export async function fill(url: string, count: number): Promise<void> {
  const dibs = await open(url);
  const queue = dibs.queue<number>("work");
  const some = 10_000;
  for (let from = 0; from < count; from += some) {
    const tasks = Array.from({ length: Math.min(some, count - from) }, (_, index) => ({
      data: from + index,
      headers: { text: "x".repeat(180) },
      ...(index % 10 === 0 && { groupKey: `g${(from + index) % 5_000}` }),
      ...(index % 7 === 0 && { delay: "1h" as const }),
    }));
    await queue.addMany(tasks);
  }
  await dibs.close();
}

/** The number of tasks per state. */
export async function depthOf(url: string): Promise<Record<string, number>> {
  const dibs = await open(url, { create: false });
  const { depth } = await dibs.queue("work").stats();
  await dibs.close();
  return Object.fromEntries(Object.entries(depth).filter(([, count]) => count > 0));
}
