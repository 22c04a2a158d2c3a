import { Command } from "commander";
import type { QueueStats } from "../../api/queue-types.ts";
import { kindOf } from "../../core/process/address.ts";
import { formatDuration } from "../human.ts";
import { printJson, say } from "../output.ts";
import { addressOf, type StoreFlags, useStore, withStore } from "../store.ts";
import { type Column, printTable } from "../table.ts";

// `dibs queues`: a table of all queues. `dibs queue` and `dibs top` use its text for queues that are held back.

export function queuesCommand(): Command {
  return withStore(new Command("queues")).action(run);
}

const STATES = ["ready", "waiting", "scheduled", "claimed", "parked", "verifying", "done", "dead"] as const;

const COLUMNS: Column<QueueStats>[] = [
  { head: "QUEUE", cell: ({ queue, paused }) => (paused ? `${queue} (paused)` : queue) },
  ...STATES.map((state): Column<QueueStats> => ({
    head: state.toUpperCase(),
    cell: ({ depth }) => depth[state],
    colour: ({ depth }) => (depth[state] === 0 ? "faint" : state === "dead" ? "red" : undefined),
  })),
  {
    head: "OLDEST",
    cell: ({ oldestAge }) => (oldestAge === null ? "" : formatDuration(oldestAge)),
    isOptional: true,
  },
  { head: "WORKERS", cell: ({ workers }) => workers },
  {
    head: "HELD BACK",
    cell: ({ heldBack }) => describeHeldBack(heldBack),
    colour: () => "amber",
    isOptional: true,
  },
];

async function run(flags: StoreFlags): Promise<void> {
  await useStore(flags, async (dibs) => {
    const queues = await dibs.queues();
    const stats = await Promise.all(queues.map(({ name }) => dibs.queue(name).stats()));
    if (flags.json) return printJson(stats);
    if (stats.length === 0) return sayNone(addressOf(flags.url));
    printTable(stats, COLUMNS);
  });
}

/** A server lists the queues that the token may read, so it may have others. */
function sayNone(address: string): void {
  const isServer = kindOf(address) === "server";
  say(
    `There are no queues yet${isServer ? ", or the token may not read them" : ""}. ` +
      `Create one: dibs add emails '{"to":"ada"}'`,
  );
}

export function describeHeldBack(heldBack: QueueStats["heldBack"]): string {
  if (!heldBack) return "";
  const { by, until } = heldBack;
  return until ? `${by} until ${until.toISOString()}` : by;
}
