import { setTimeout as sleep } from "node:timers/promises";
import { Command } from "commander";
import type { Dibs } from "../../api/dibs.ts";
import type { QueueStats } from "../../api/queue-types.ts";
import { withoutSecrets } from "../../core/process/address.ts";
import { printHeading } from "../fields.ts";
import { onInterrupt } from "../interrupt.ts";
import { printJson, say } from "../output.ts";
import { addressOf, type StoreFlags, useStore, withStore } from "../store.ts";
import { printTable } from "../table.ts";
import { Screen } from "../top/screen.ts";
import { type Snapshot, takeSnapshot } from "../top/snapshot.ts";
import { draw, QUEUE_COLUMNS, type View, WORKER_COLUMNS, workerRows } from "../top/view.ts";
import { duration } from "../values.ts";

// `dibs top`: shows the figures of a store on the terminal until it is stopped; without a terminal, prints them once.

interface Flags extends StoreFlags {
  interval: number;
}

export function topCommand(): Command {
  return withStore(new Command("top"))
    .option("--interval <duration>", "how often to read the store", duration, 1_000)
    .action(run);
}

const SHORTEST_MS = 250;

async function run(flags: Flags): Promise<void> {
  const isLive = process.stdout.isTTY && process.stdin.isTTY && !flags.json;
  const show = (dibs: Dibs): Promise<void> => (isLive ? watch(dibs, flags) : printOnce(dibs, flags));
  await useStore(flags, show, { isLong: isLive });
}

/** Without a terminal: the same figures, once. */
async function printOnce(dibs: Dibs, { json }: Flags): Promise<void> {
  const snapshot = await takeSnapshot(dibs);
  if (json) return printJson(snapshot);
  if (snapshot.queues.length === 0) return say("There are no queues yet.");
  printTable(snapshot.queues, QUEUE_COLUMNS);
  if (snapshot.workers.length === 0) return say("No worker runs.");
  printHeading("Workers");
  printTable(workerRows(snapshot), WORKER_COLUMNS);
}

async function watch(dibs: Dibs, { url, interval }: Flags): Promise<void> {
  const quit = new AbortController();
  const interrupt = onInterrupt();
  interrupt.signal.addEventListener("abort", () => quit.abort());
  const view: View = { selected: 0, open: null, message: null, address: withoutSecrets(addressOf(url)) };
  let snapshot: Snapshot | null = null;
  const screen: Screen = new Screen(
    () => draw(snapshot, view, screen.size),
    (key) => {
      if (key === "quit") return quit.abort();
      press(key, view, snapshot, dibs, screen.redraw);
      screen.redraw();
    },
  );
  screen.open();
  try {
    while (!quit.signal.aborted) {
      try {
        snapshot = await takeSnapshot(dibs);
        view.selected = Math.max(0, Math.min(view.selected, snapshot.queues.length - 1));
      } catch (error) {
        // The store may be back in a moment: the last figures stay, with the reason why they are old.
        view.message = (error as Error).message;
      }
      screen.redraw();
      await sleep(Math.max(SHORTEST_MS, interval), undefined, { signal: quit.signal }).catch(() => {});
    }
  } finally {
    screen.close();
    interrupt.end();
  }
}

function press(key: string, view: View, snapshot: Snapshot | null, dibs: Dibs, redraw: () => void): void {
  const queues = snapshot?.queues ?? [];
  view.message = null;
  if (key === "up") view.selected = Math.max(0, view.selected - 1);
  if (key === "down") view.selected = Math.min(Math.max(0, queues.length - 1), view.selected + 1);
  if (key === "enter") view.open ??= queues[view.selected]?.queue ?? null;
  if (key === "escape") view.open = null;
  if (key !== "pause") return;
  const stats = queues.find(({ queue }, index) =>
    view.open === null ? index === view.selected : queue === view.open,
  );
  if (!stats) return;
  void setPaused(dibs, stats)
    .catch((error: unknown) => (error as Error).message)
    .then((message) => Object.assign(view, { message }))
    .finally(redraw);
}

async function setPaused(dibs: Dibs, stats: QueueStats): Promise<string> {
  const queue = dibs.queue(stats.queue);
  await (stats.paused ? queue.resume() : queue.pause());
  stats.paused = !stats.paused;
  return `${stats.queue} is ${stats.paused ? "paused" : "open again"}.`;
}
