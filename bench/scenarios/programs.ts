import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { open } from "../../src/index.ts";
import { built } from "../built.ts";
import { rate, type Scenario, times } from "../scenario.ts";

const AT_ONCE = 4;

export const programs: Scenario = {
  name: "programs",
  about: "processes per second that `dibs work` starts on /bin/true, against `xargs -P` on the same program",
  needs: "dibs",
  async run(bench) {
    const main = fileURLToPath(await built("src/cli/main.ts", bench.settings.cache));
    const store = bench.path("programs");
    const tasks = bench.size(3_000, 20);
    const dibs = await open(store);
    const queue = dibs.queue("work");
    await queue.addMany(Array.from({ length: tasks }, () => ({ data: null })));
    const args = ["work", "work", "--url", store, "--concurrency", String(AT_ONCE), "--", "/bin/true"];
    const child = spawn(process.execPath, [main, ...args], { stdio: ["ignore", "ignore", "inherit"] });
    // Its start is measured elsewhere.
    const done = async (): Promise<number> => (await queue.stats()).depth.done;
    while ((await done()) === 0) await pause(20);
    const [before, start] = [await done(), performance.now()];
    while ((await done()) < tasks) await pause(20);
    const ours = (tasks - before) / (performance.now() - start);
    child.kill("SIGTERM");
    await once(child, "exit");
    await dibs.close();
    const theirs = tasks / (await timeXargs(tasks));
    return [
      rate(`dibs work, ${AT_ONCE} at once`, ours * 1_000),
      rate(`xargs -P ${AT_ONCE}`, theirs * 1_000),
      times("dibs work against xargs", ours / theirs),
    ];
  },
};

async function timeXargs(tasks: number): Promise<number> {
  const start = performance.now();
  const child = spawn("xargs", ["-P", String(AT_ONCE), "-n", "1", "/bin/true"], {
    stdio: ["pipe", "ignore", "inherit"],
  });
  child.stdin.end("x\n".repeat(tasks));
  await once(child, "exit");
  return performance.now() - start;
}
