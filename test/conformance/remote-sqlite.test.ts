import { vi } from "vitest";
import { conformance } from "./suite/index.ts";
import { InProcessWorker } from "./in-process-worker.ts";
import { remote, REMOTE_THEMES } from "./remote-harness.ts";
import { sqlite } from "./sqlite-harness.ts";

// As in sqlite.test.ts: starting two threads per case takes most of a minute.
const threads = vi.hoisted(() => ({ Worker: undefined as unknown as new (...args: unknown[]) => object }));
vi.mock("node:worker_threads", async (original) => ({
  ...(await original<object>()),
  Worker: function Worker(...args: unknown[]) {
    return new threads.Worker(...args);
  },
}));
threads.Worker = InProcessWorker as never;

conformance("a server on SQLite, through its client,", remote(sqlite), REMOTE_THEMES);
