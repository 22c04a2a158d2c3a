import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { built } from "../built.ts";
import { type Figure, ms, type Scenario } from "../scenario.ts";

export const shell: Scenario = {
  name: "shell",
  about: "how long a command of the shell takes, from the start of its process to its end, on a small store",
  needs: "dibs",
  async run(bench) {
    const main = fileURLToPath(await built("src/cli/main.ts", bench.settings.cache));
    const store = bench.path("shell");
    const times = bench.size(15, 2);
    await runOnce(main, ["add", "emails", "1", "--url", store]);
    const server = spawn(process.execPath, [main, "serve", "--port", "0", "--url", store], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    try {
      const [line] = (await once(createInterface({ input: server.stdout }), "line")) as [string];
      const url = line.replace("dibs listens on ", "");
      return [
        await timed("--help", times, main, ["--help"]),
        await timed("add on a file", times, main, ["add", "emails", "1", "--url", store]),
        await timed("queues on a file", times, main, ["queues", "--url", store]),
        await timed("queues of a server", times, main, ["queues", "--url", url]),
      ];
    } finally {
      server.kill();
      await once(server, "close");
    }
  },
};

/** The median. The first run reads the files from disk and does not count. */
async function timed(name: string, times: number, main: string, args: string[]): Promise<Figure> {
  await runOnce(main, args);
  const took: number[] = [];
  for (let run = 0; run < times; run++) took.push(await runOnce(main, args));
  return ms(name, took.toSorted((a, b) => a - b)[Math.floor(times / 2)]!);
}

async function runOnce(main: string, args: string[]): Promise<number> {
  const start = performance.now();
  const child = spawn(process.execPath, [main, ...args], { stdio: ["ignore", "ignore", "inherit"] });
  const [code] = (await once(child, "exit")) as [number | null];
  if (code !== 0) throw new Error(`dibs ${args.join(" ")} ended with ${code}`);
  return performance.now() - start;
}
