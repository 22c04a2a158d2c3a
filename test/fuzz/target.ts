// The attacked server in its own process: a crash is noticed, and its memory is its own. Started by fuzz.ts.

import { join } from "node:path";
import { openPort } from "../../src/api/open.ts";
import type { Port } from "../../src/core/port.ts";
import { Access } from "../../src/server/access.ts";
import { boundHeap } from "../../src/server/bound-heap.ts";
import { Tokens } from "../../src/server/tokens.ts";
import { startServer } from "../server/start.ts";
import { isCanary, plantCanaries } from "./canaries.ts";
import type { Asked, Started, Told } from "./fuzz.ts";

const { url, schema, folder } = JSON.parse(process.argv[2]!) as Asked;

/** Queues that limited tokens may use. All others belong to other clients. */
const OWN = ["work*", "other", "topic/order*", "report*"];
const on = (...kinds: string[]): string[] => kinds.flatMap((kind) => OWN.map((queue) => `${kind}:${queue}`));
const SCOPES: Record<string, string[]> = {
  everything: ["admin:*"],
  owner: on("add", "work", "read", "admin"),
  producer: on("add"),
  worker: on("work"),
  reader: on("read"),
  agent: on("add", "work", "read"),
};

// As `dibs serve` does.
boundHeap();
const store = await openPort(url, schema === undefined ? {} : { schema });
const canaries = await plantCanaries(store);
const tokens = new Tokens(join(folder, "tokens.json"));
const attackers = Object.entries(SCOPES).map(([name, scopes]) => ({
  ...{ name, token: tokens.add(name, scopes).token, isLimited: name !== "everything" },
}));
const failures: string[] = [];
const server = await startServer(store, {
  access: new Access(tokens, { letAnyoneIn: false }),
  logger: { warn() {}, error: (message) => void failures.push(message) },
  audit: () => {},
  native: { resumeMs: 20, maxFrame: 100_000 },
});

const tell = (told: Told | Started): void => void process.send!(told);
process.on("message", (word: "tidy" | "stop") => {
  if (word === "tidy") tidyUp().then(() => tell(state()), fail);
  else stop().catch(fail);
});
process.on("disconnect", () => process.exit());
tell({ url: server.url, attackers, canaries });

/** A well-behaved client next to the attackers: none of its calls may fail. */
const over = new AbortController();
const witness = witnessFor(store).catch(fail);

async function witnessFor(port: Port): Promise<void> {
  const queue = "CANARY-witness-0";
  while (!over.signal.aborted) {
    await port.add([{ queue, data: "1" }]);
    const { tasks } = await port.claim({ queues: [queue], max: 10, worker: "witness", wait: 0 });
    for (const task of tasks) await port.settle(task, { kind: "ack", result: null });
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

function fail(error: unknown): void {
  failures.push(`The well-behaved client got ${(error as Error).stack}`);
}

function state(): Told {
  // In KiB: the peak.
  return { clients: server.clients, failures, peakRss: process.resourceUsage().maxRSS * 1_024 };
}

/** Removes what attackers left, and nothing else. */
async function tidyUp(): Promise<void> {
  for (const { name } of (await store.schedules()).items) if (!isCanary(name)) await store.unschedule(name);
  for (const { pattern, group, queue } of (await store.subscriptions()).items)
    if (!isCanary(queue)) await store.unsubscribe(pattern, group);
  for (const { name } of (await store.queues()).items)
    if (!isCanary(name)) await store.drop(name).catch(() => {});
}

async function stop(): Promise<void> {
  over.abort();
  await witness;
  await server.close();
  await store.close();
  process.disconnect();
}
