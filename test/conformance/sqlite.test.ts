import { vi } from "vitest";
import { conformance } from "./suite/index.ts";
import { InProcessWorker } from "./in-process-worker.ts";
import { sqlite } from "./sqlite-harness.ts";

// No threads: starting two per case takes most of a minute. sqlite-threads.test.ts tests what depends on threads.
const threads = vi.hoisted(() => ({ Worker: undefined as unknown as new (...args: unknown[]) => object }));
vi.mock("node:worker_threads", async (original) => ({
  ...(await original<object>()),
  Worker: function Worker(...args: unknown[]) {
    return new threads.Worker(...args);
  },
}));
threads.Worker = InProcessWorker as never;

conformance("sqlite", sqlite);
