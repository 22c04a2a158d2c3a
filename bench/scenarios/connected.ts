import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { built } from "../built.ts";
import { Helper } from "../helper.ts";
import { serverFlags } from "../peers/dibs-server.ts";
import { freePort, startProgram } from "../peers/server.ts";
import { type Bench, type Figure, megabytes, ms, type Scenario } from "../scenario.ts";
import { usageOf } from "../usage.ts";

export interface CrowdTask {
  url: string;
  count: number;
  /** Workers that wait for tasks, or connections that have only sent their hello. */
  kind: "workers" | "connections";
}

export const connected: Scenario = {
  name: "connected",
  about:
    "a server with 1,000 idle workers, each with a connection of its own: its memory, and its CPU in ms a second; the same with 10,000 connections, among which a task is still handled",
  needs: "dibs",
  async run(bench) {
    return [
      ...(await crowd(bench, "workers", bench.size(1_000, 20))),
      ...(await crowd(bench, "connections", bench.size(10_000, 50))),
    ];
  },
};

async function crowd(bench: Bench, kind: CrowdTask["kind"], count: number): Promise<Figure[]> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const flags = serverFlags(bench.path(`${kind}-${bench.settings.short}`), port);
  const main = fileURLToPath(await built("src/cli/main.ts", bench.settings.cache));
  const { pid, stop } = await startProgram(process.execPath, [main, "serve", ...flags], port);
  try {
    const task: CrowdTask = { url, count, kind };
    await using helper = await Helper.start(new URL("../helpers/crowd.ts", import.meta.url), task);
    // Until the cost of connecting is over.
    await sleep(bench.size(5_000, 100));
    const [before, seconds] = [usageOf(pid), bench.size(20, 1)];
    await sleep(seconds * 1_000);
    const after = usageOf(pid);
    await helper.ask("is a task still handled?");
    const label = `${count} idle ${kind}`;
    return [
      megabytes(`${label}: memory`, after.megabytes),
      ms(`${label}: CPU a second`, (after.cpuMs - before.cpuMs) / seconds),
    ];
  } finally {
    await stop();
  }
}
