import { createInterface } from "node:readline";
import { open } from "../api/open.ts";
import { SILENT } from "../core/process/logger.ts";
import type { Role, RoleName, Settings } from "./role.ts";

/**
 * The entry of every process of the demo: `node child.ts ROLE NAME`. Its address and token are in DIBS_URL and
 * DIBS_TOKEN, so that no list of processes shows them. fleet.ts starts it and sends settings to its standard input,
 * as lines of JSON. When that ends, the process that started it is gone or stops, and this one ends too. Those that a
 * pool starts have no such input: they end on SIGTERM.
 */

/** A role is loaded when it is needed, so that the processes of pools start fast. */
const ROLES: Record<RoleName, () => Promise<Role>> = {
  producer: async () => (await import("./producer.ts")).produce,
  mailer: async () => (await import("./mailer.ts")).sendMail,
  agents: async () => (await import("./agents.ts")).runAgents,
  operator: async () => (await import("./operator.ts")).operate,
  researcher: async () => (await import("./pool-programs.ts")).doResearch,
  exporter: async () => (await import("./pool-programs.ts")).exportTables,
};

/** What is not finished by then is given up: its claims return to their queues. */
const STOP_MS = 4_000;

async function main(role: RoleName, name: string): Promise<void> {
  const stopping = new AbortController();
  const { signal } = stopping;
  let settings: Settings = { rate: 0 };
  const stopped = new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  void stopped.then(() => setTimeout(() => process.exit(1), STOP_MS).unref());
  // Ctrl-C in a terminal reaches every process. The process that started this one ends it.
  for (const each of ["SIGINT", "SIGHUP"] as const) process.on(each, () => {});
  process.once("SIGTERM", () => stopping.abort());
  // The process that started this one may be gone.
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {});
  const isOfPool = process.env["DIBS_POOL"] !== undefined;
  if (!isOfPool)
    createInterface({ input: process.stdin })
      .on("line", (line) => (settings = JSON.parse(line) as Settings))
      .on("close", () => stopping.abort());

  const start = await ROLES[role]();
  // Failures and alerts are part of the demo, and no trouble of its processes.
  const dibs = await open(undefined, { logger: SILENT });
  const running = start(dibs, {
    name: isOfPool ? `${name}-${process.pid}` : name,
    settings: () => settings,
    signal,
  });
  await running.ready;
  process.stdout.write("ready\n");
  await stopped;
  await running.stop();
  await dibs.close();
  process.exit(0);
}

const [role, name] = process.argv.slice(2) as [RoleName, string];
await main(role, name).catch((error: unknown) => {
  process.stderr.write(`${(error as Error).message}\n`);
  process.exit(1);
});
