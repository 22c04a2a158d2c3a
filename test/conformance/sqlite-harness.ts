import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createBroker } from "../../src/broker/broker.ts";
import type { Harness, Opened } from "./suite/harness.ts";
import { openSqlite } from "../../src/engines/sqlite/engine.ts";
import { SqliteTransfer } from "../../src/engines/sqlite/transfer/transfer.ts";
import type { ManualClock } from "../../src/testing/manual-clock.ts";
import { Heart } from "./heart.ts";

/** A file of its own for each store, in a folder that goes with it. */
export const sqlite: Harness = {
  shared: true,
  open: async (clock, cleanUp) => {
    const folder = await mkdtemp(join(tmpdir(), "dibs-conformance-"));
    cleanUp(() => rm(folder, { recursive: true, force: true }));
    return openFile(join(folder, "work.db"), clock);
  },
};

async function openFile(path: string, clock: ManualClock): Promise<Opened> {
  const heart = new Heart(clock);
  const engine = await openSqlite({ path, clock: heart });
  return {
    port: createBroker(engine, { clock }),
    hang: () => heart.stop(),
    transfer: async () => new SqliteTransfer({ path, clock }),
    another: () => openFile(path, clock),
  };
}
