import { Command } from "commander";
import { print, printJson } from "../output.ts";
import { requireQueue, type StoreFlags, useStore, withStore } from "../store.ts";

interface Flags extends StoreFlags {
  group?: string;
}

export function unholdCommand(): Command {
  const command = new Command("unhold")
    .argument("<queue>", "the queue's name")
    .option("--group <key>", "the group; without it, the queue itself");
  return withStore(command).action(run);
}

async function run(name: string, { group, ...flags }: Flags): Promise<void> {
  await useStore(flags, async (dibs) => {
    await requireQueue(dibs, name);
    const lifted = await dibs.queue(name).unhold(group);
    if (flags.json) printJson({ lifted });
    else print(lifted ? "lifted" : "nothing was held");
  });
}
