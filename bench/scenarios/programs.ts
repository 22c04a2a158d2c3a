import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
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
    const tasks = bench.size(6_000, 20);
    const dibs = await open(store);
    const queue = dibs.queue("work");
    await queue.addMany(Array.from({ length: tasks }, () => ({ data: null })));
    await dibs.close();
    const flags = ["--url", store, "--concurrency", String(AT_ONCE), "--json"];
    const args = ["work", "work", ...flags, "--", "/bin/true"];
    const child = spawn(process.execPath, [main, ...args], { stdio: ["ignore", "pipe", "ignore"] });
    // A line for each task. To read the store's figures instead takes time from the programs.
    let done = 0;
    let start = 0;
    for await (const _ of createInterface({ input: child.stdout })) {
      // Its start is measured elsewhere.
      if (++done === 1) start = performance.now();
      if (done === tasks) break;
    }
    const ours = (tasks - 1) / (performance.now() - start);
    child.kill("SIGTERM");
    await once(child, "exit");
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
