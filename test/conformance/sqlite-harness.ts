import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createBroker } from "../../src/broker/broker.ts";
import type { Harness, Opened } from "./suite/harness.ts";
import { openSqlite } from "../../src/engines/sqlite/engine.ts";
import { SqliteTransfer } from "../../src/engines/sqlite/transfer/transfer.ts";
import type { ManualClock } from "../../src/testing/manual-clock.ts";
import { StoppableClock } from "./stoppable-clock.ts";

/** Each store has its own file, in a folder that is removed with it. */
export const sqlite: Harness = {
  shared: true,
  open: async (clock, cleanUp) => {
    const folder = await mkdtemp(join(tmpdir(), "dibs-conformance-"));
    cleanUp(() => rm(folder, { recursive: true, force: true }));
    return openFile(join(folder, "work.db"), clock);
  },
};

async function openFile(path: string, clock: ManualClock): Promise<Opened> {
  const timers = new StoppableClock(clock);
  const engine = await openSqlite({ path, clock: timers });
  return {
    port: createBroker(engine, { clock }),
    hang: () => timers.stop(),
    transfer: async () => new SqliteTransfer({ path, clock }),
    another: () => openFile(path, clock),
  };
}
