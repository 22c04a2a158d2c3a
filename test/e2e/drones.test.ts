// Many drones (`dibs work --once`) on one file, a tenth of them killed at a random moment. The long mode starts them from
// the built package, as users do: from the sources, a drone takes four times as much CPU time.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { globSync, mkdtempSync, readFileSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { built } from "../../bench/built.ts";
import { EXIT } from "../../src/cli/exit.ts";
import { open } from "../../src/index.ts";
import { bareEnvironment } from "../run/compile-cache.ts";
import { isLong } from "../run/long.ts";

const SOURCE = "src/cli/main.ts";
const TASKS = isLong ? 1_000 : 20;
const AT_ONCE = isLong ? 6 : 3;
const KILLED = 0.1;
/** Null: it was killed. */
const EXPECTED: ReadonlySet<number | null> = new Set([EXIT.done, EXIT["no task"], null]);

test(`${TASKS} tasks are each done once by drones, a tenth of which are killed`, async () => {
  const folder = mkdtempSync(join(tmpdir(), "dibs-drones-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  await using store = await open(join(folder, "dibs.db"));
  const main = isLong
    ? fileURLToPath(await built(SOURCE, join(folder, "cache")))
    : join(import.meta.dirname, "../..", SOURCE);
  const queue = store.queue("work", { lease: "3s", maxAttempts: 20 });
  const tasks = await queue.addMany(Array.from({ length: TASKS }, (_, data) => ({ data })));
  /** How long the last drone lived that was not killed. A killed one dies somewhere between its start and its end. */
  let life = 500;
  const failures: string[] = [];
  const exits = new Map<number | null, number>();
  const drone = async (mayBeKilled: boolean): Promise<number | null> => {
    const program = ["sh", "-c", "sleep 0.1; cat"];
    const child = spawn(
      process.execPath,
      [main, "work", "work", "--once", "--wait", "2s", "--kill-after", "1s", "--", ...program],
      { cwd: folder, env: bareEnvironment(), stdio: ["ignore", "ignore", "pipe"] },
    );
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => (said += text));
    const start = performance.now();
    if (mayBeKilled && Math.random() < KILLED) {
      const timer = setTimeout(() => child.kill("SIGKILL"), Math.random() * life);
      child.once("exit", () => clearTimeout(timer));
    }
    const [code] = (await once(child, "exit")) as [number | null];
    if (code === EXIT.done) life = performance.now() - start;
    exits.set(code, (exits.get(code) ?? 0) + 1);
    if (!EXPECTED.has(code)) failures.push(`${code}: ${said}`);
    return code;
  };
  const isDone = async (): Promise<boolean> => (await queue.stats()).depth.done === TASKS;
  const keepStarting = async (): Promise<void> => {
    while (!(await isDone())) await drone(true);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, keepStarting));
  expect(failures).toEqual([]);
  for (const task of tasks) {
    const attempts = await task.history();
    expect(attempts.filter(({ outcome }) => outcome === "done")).toHaveLength(1);
    expect(attempts.filter(({ outcome }) => outcome !== "done" && outcome !== "lost")).toEqual([]);
  }
  // Null: killed.
  if (isLong) console.log("Drones by exit code:", exits);
  if (isLong) expect(exits.get(null)).toBeGreaterThan(TASKS * KILLED * 0.5);
  // It would find one that runs.
  const running = drone(false);
  await queue.add("last");
  await expect.poll(() => programsIn(folder).length > 0, { interval: 5 }).toBe(true);
  await running;
  expect(await drone(false)).toBe(EXIT["no task"]);
  await expect.poll(() => programsIn(folder)).toEqual([]);
}, 3_600_000);

/** Processes that a supervisor in this folder has started. */
function programsIn(folder: string): string[] {
  return globSync("/proc/[0-9]*").filter((process) => {
    try {
      if (readlinkSync(join(process, "cwd")) !== folder) return false;
      return readFileSync(join(process, "environ"), "utf8").includes("DIBS_SUPERVISOR=");
    } catch {
      return false;
    }
  });
}
