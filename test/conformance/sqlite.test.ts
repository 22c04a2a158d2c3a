import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { createBroker } from "../../src/broker/broker.ts";
import type { Opened } from "../../src/engine/conformance/harness.ts";
import { conformance } from "../../src/engine/conformance/index.ts";
import { openSqlite } from "../../src/engines/sqlite/engine.ts";
import type { ManualClock } from "../../src/testing/manual-clock.ts";
import { Heart } from "./heart.ts";
import { standStillDuring } from "./stand-still.ts";

conformance("sqlite", {
  shared: true,
  open: async (clock) => {
    const folder = await mkdtemp(join(tmpdir(), "dibs-conformance-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    return openFile(join(folder, "work.db"), clock);
  },
});

async function openFile(path: string, clock: ManualClock): Promise<Opened> {
  const heart = new Heart(clock);
  const engine = await openSqlite({ path, clock: heart });
  return {
    port: createBroker(standStillDuring(engine, clock), { clock }),
    hang: () => heart.stop(),
    another: () => openFile(path, clock),
  };
}
