import { Command } from "commander";
import type { WorkerSummary } from "../../api/dibs.ts";
import { formatAge, formatDuration } from "../human.ts";
import { printJson, say } from "../output.ts";
import { requireQueue, type StoreFlags, useStore, withStore } from "../store.ts";
import { type Column, printTable } from "../table.ts";

export function workersCommand(): Command {
  return withStore(new Command("workers").argument("[queue]", "only those that serve this queue")).action(
    run,
  );
}

const COLUMNS: readonly Column<WorkerSummary>[] = [
  { head: "WORKER", cell: ({ name }) => name },
  { head: "HOST", cell: ({ host }) => host },
  { head: "PID", cell: ({ pid }) => pid },
  { head: "CLAIMS", cell: ({ claims }) => claims },
  { head: "CONCURRENCY", cell: ({ concurrency }) => concurrency },
  { head: "SINCE", cell: ({ joinedAt }) => formatAge(joinedAt) },
  { head: "HEARTBEAT", cell: ({ silentFor }) => `${formatDuration(silentFor)} ago` },
  { head: "QUEUES", cell: ({ queues }) => queues.join(" "), isCut: true },
];

async function run(queue: string | undefined, flags: StoreFlags): Promise<void> {
  await useStore(flags, async (dibs) => {
    if (queue !== undefined) await requireQueue(dibs, queue);
    const workers = await dibs.workers({ queue });
    if (flags.json) return printJson(workers);
    if (workers.length === 0)
      return say(queue === undefined ? "No worker runs." : `No worker serves ${queue}.`);
    printTable(workers, COLUMNS);
  });
}
