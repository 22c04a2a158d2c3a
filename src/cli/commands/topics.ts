import { Command } from "commander";
import type { SubscriptionInfo } from "../../api/subscription.ts";
import { notFound } from "../exit.ts";
import { formatAge } from "../human.ts";
import { printJson, say } from "../output.ts";
import { type StoreFlags, useStore, withStore } from "../store.ts";
import { type Column, printTable } from "../table.ts";

export function topicsCommand(): Command {
  return withStore(
    new Command("topics").argument("[topic]", "only the subscriptions that a publish to this topic reaches"),
  ).action(run);
}

type Row = SubscriptionInfo & { depth: { ready: number; dead: number } };

const COLUMNS: readonly Column<Row>[] = [
  { head: "PATTERN", cell: ({ pattern }) => pattern },
  { head: "GROUP", cell: ({ group }) => group },
  { head: "QUEUE", cell: ({ queue }) => queue },
  { head: "READY", cell: ({ depth }) => depth.ready },
  {
    head: "DEAD",
    cell: ({ depth }) => depth.dead,
    colour: ({ depth }) => (depth.dead > 0 ? "red" : "faint"),
  },
  { head: "SINCE", cell: ({ createdAt }) => formatAge(createdAt) },
];

async function run(topic: string | undefined, flags: StoreFlags): Promise<void> {
  await useStore(flags, async (dibs) => {
    const subscriptions = await dibs.subscriptions({ topic });
    if (topic !== undefined && subscriptions.length === 0)
      throw notFound(`No subscription matches the topic ${topic}: a publish to it would add no task.`);
    if (flags.json) return printJson(subscriptions);
    if (subscriptions.length === 0) return say("There are no subscriptions.");
    const rows = await Promise.all(
      subscriptions.map(async (each) => ({ ...each, depth: (await dibs.queue(each.queue).stats()).depth })),
    );
    printTable(rows, COLUMNS);
  });
}
