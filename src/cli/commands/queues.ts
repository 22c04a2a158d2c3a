import { Command } from "commander";
import type { QueueStats } from "../../api/queue.ts";
import { checkStore, print, printTable, type StoreFlags, useStore, withStore } from "../store.ts";

export function queuesCommand(): Command {
  return withStore(
    new Command("queues").description("list every queue, with the number of its tasks"),
  ).action(run);
}

const COLUMNS = ["ready", "waiting", "scheduled", "claimed", "parked", "verifying", "done", "dead"] as const;

async function run(flags: StoreFlags): Promise<void> {
  checkStore(flags);
  await useStore(flags, async (dibs) => {
    const queues = await dibs.queues();
    const stats = await Promise.all(queues.map(({ name }) => dibs.queue(name).stats()));
    if (flags.json) return print(JSON.stringify(stats));
    const rows = stats.map(({ queue, paused, depth, workers, heldBack }) => [
      paused ? `${queue} (paused)` : queue,
      ...COLUMNS.map((state) => depth[state]),
      workers,
      describe(heldBack),
    ]);
    printTable(["QUEUE", ...COLUMNS.map((state) => state.toUpperCase()), "WORKERS", "HELD BACK"], rows);
  });
}

function describe(heldBack: QueueStats["heldBack"]): string {
  if (!heldBack) return "";
  const { by, until } = heldBack;
  return until ? `${by} until ${until.toISOString()}` : by;
}
