import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { built } from "../built.ts";
import { Helper } from "../helper.ts";
import { serverFlags } from "../peers/dibs-server.ts";
import { freePort, startProgram } from "../peers/server.ts";
import { type Bench, type Figure, megabytes, type Scenario } from "../scenario.ts";
import { usageOf } from "../usage.ts";

export interface IdleTask {
  path: string;
}

export interface MixedTask {
  url: string;
  client: number;
  perSecond: number;
}

const CLIENTS = 5;
const TASKS_A_SECOND = 2_400;

export const memory: Scenario = {
  name: "memory",
  about:
    "memory of a process with an idle worker on a file, of an idle server, and of that server under 2,400 tasks/s from five clients, with groups, keys, delays and failures, at its highest of two minutes",
  needs: "dibs",
  async run(bench) {
    return [await idleWorker(bench), ...(await server(bench))];
  },
};

async function idleWorker(bench: Bench): Promise<Figure> {
  const task: IdleTask = { path: bench.path("idle") };
  await using worker = await Helper.start(await built("bench/helpers/idle.ts", bench.settings.cache), task);
  await sleep(bench.size(10_000, 500));
  return megabytes("idle worker on a file", usageOf(worker.pid).megabytes);
}

async function server(bench: Bench): Promise<Figure[]> {
  const port = await freePort();
  const main = fileURLToPath(await built("src/cli/main.ts", bench.settings.cache));
  const flags = serverFlags(bench.path("server"), port);
  const { pid, stop } = await startProgram(process.execPath, [main, "serve", ...flags], port);
  await using clients = new AsyncDisposableStack();
  try {
    await sleep(bench.size(10_000, 500));
    const idle = usageOf(pid).megabytes;
    const perSecond = bench.size(TASKS_A_SECOND, 200) / CLIENTS;
    for (let client = 0; client < CLIENTS; client++) {
      const task: MixedTask = { url: `http://127.0.0.1:${port}`, client, perSecond };
      clients.use(await Helper.start(new URL("../helpers/mixed.ts", import.meta.url), task));
    }
    let most = 0;
    for (let i = 0; i < bench.size(120, 2); i++) {
      await sleep(1_000);
      most = Math.max(most, usageOf(pid).megabytes);
    }
    return [megabytes("idle server", idle), megabytes("server, 2,400 tasks/s", most)];
  } finally {
    await clients.disposeAsync();
    await stop();
  }
}
