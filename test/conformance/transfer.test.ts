import { describe, vi } from "vitest";
import type { Harness } from "./suite/harness.ts";
import { starter } from "./suite/kit.ts";
import { roundTrip } from "./suite/transfer.ts";
import { InProcessWorker } from "./in-process-worker.ts";
import { memory } from "./memory-harness.ts";
import { dropAfterAll, postgres } from "./postgres-harness.ts";
import { sqlite } from "./sqlite-harness.ts";

// No threads: starting two per case takes longer than the case.
const threads = vi.hoisted(() => ({ Worker: undefined as unknown as new (...args: unknown[]) => object }));
vi.mock("node:worker_threads", async (original) => ({
  ...(await original<object>()),
  Worker: function Worker(...args: unknown[]) {
    return new threads.Worker(...args);
  },
}));
threads.Worker = InProcessWorker as never;

// From each engine to each other one. The suite tests transfers within one engine.
const ENGINES: Record<string, Harness> = { memory, sqlite, postgres };

dropAfterAll();
for (const [from, source] of Object.entries(ENGINES)) {
  for (const [to, target] of Object.entries(ENGINES)) {
    if (from !== to)
      describe(`from ${from} to ${to}:`, () => {
        roundTrip(starter(source), starter(target));
      });
  }
}
