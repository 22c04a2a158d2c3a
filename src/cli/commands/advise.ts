import { Command } from "commander";
import type { QueueStats } from "../../api/queue-types.ts";
import { type Advice, advise, DEFAULT_GOAL } from "../../pools/advise.ts";
import { formatDuration, formatRate } from "../human.ts";
import { print, printJson } from "../output.ts";
import { requireQueue, type StoreFlags, useStore, withStore } from "../store.ts";
import { printTable } from "../table.ts";
import { duration } from "../values.ts";

// `dibs advise`: reads the figures of a queue and prints what `pools/advise.ts` says about them.

interface Flags extends StoreFlags {
  targetWait: number;
}

export function adviseCommand(): Command {
  return withStore(new Command("advise"))
    .argument("<queue>")
    .option(
      "--target-wait <time>",
      "95 % of the tasks should start within this time",
      duration,
      DEFAULT_GOAL.targetWait,
    )
    .action(run);
}

async function run(queue: string, flags: Flags): Promise<void> {
  await useStore(flags, async (dibs) => {
    await requireQueue(dibs, queue);
    const [stats, workers] = await Promise.all([dibs.queue(queue).stats(), dibs.workers({ queue })]);
    const goal = { ...DEFAULT_GOAL, targetWait: flags.targetWait };
    const advice = advise(stats, workers, goal);
    if (flags.json) return printJson({ queue, ...advice });
    for (const sentence of advice.summary) print(sentence);
    print("");
    printTable(rowsOf(stats, advice), [
      { head: "FIGURE", cell: ([name]) => name },
      { head: "VALUE", cell: ([, value]) => value },
      { head: "WHY", cell: ([, , why]) => why, isCut: true, isOptional: true },
    ]);
  });
}

type Row = [name: string, value: string, why: string];

function rowsOf(stats: QueueStats, { workers, drainedIn, knee, lease, idle }: Advice): Row[] {
  const { now, needed, why, utilisation, wait } = workers;
  const rows: (Row | false)[] = [
    ["arrivals", `${formatRate(knee.arrivals)}/s`, "new tasks, and failed ones that come back"],
    ["service time", stats.serviceTime === null ? "not known" : formatDuration(stats.serviceTime), ""],
    [
      "workers",
      String(now),
      utilisation === null ? "" : `busy ${Math.round(utilisation * 100)} % of the time`,
    ],
    ["workers needed", needed === null ? "not known" : String(needed), why],
    ["mean wait", wait === null ? "not known" : formatDuration(wait), "with the workers of now (M/M/c)"],
    ["drained in", drainedIn === null ? "never, or not known" : formatDuration(drainedIn), ""],
    knee.workers !== null && [
      "knee",
      `${formatRate(knee.workers)} workers`,
      `each does ${formatRate(knee.ratePerWorker!)}/s; beyond the knee, more of them add nothing`,
    ],
    lease !== null && ["lease", formatDuration(lease.recommended), lease.why],
    idle.length > 0 && ["idle workers", String(idle.length), idle.slice(0, 10).join(", ")],
  ];
  return rows.filter((row) => row !== false);
}
