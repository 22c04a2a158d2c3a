import { describe } from "vitest";
import { pause, test } from "./harness/stage.ts";
import { expectIdle, usageOf } from "./harness/usage.ts";

/** A heartbeat is due every ten seconds, so that each process makes one in the meantime. */
const WATCHED_MS = 10_000;

describe.concurrent("idle workers", () => {
  test("ten of them in a process wake up less than five times a second and use no CPU", async ({
    stage,
    skip,
  }) => {
    skip(process.platform !== "linux", "wake-ups are counted from /proc");
    const { pid } = await stage.startWorker({ workers: 10 });
    // A second process with workers of its own: each one's signs of life must not wake the other much.
    const other = await stage.startWorker({ workers: 10 });
    // What starting left behind: compilation, garbage collection, the first looks at the store.
    await pause(1_000);
    const [before, otherBefore] = [usageOf(pid), usageOf(other.pid)];
    await pause(WATCHED_MS);
    expectIdle(before, usageOf(pid));
    expectIdle(otherBefore, usageOf(other.pid));
  });
});
