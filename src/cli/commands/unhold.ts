import { Command } from "commander";
import { print, type StoreFlags, useStore, withStore } from "../store.ts";

interface Flags extends StoreFlags {
  group?: string;
}

export function unholdCommand(): Command {
  const command = new Command("unhold")
    .description("lift what a task held back that met somebody else's limit")
    .argument("<queue>", "the queue's name")
    .option("--group <key>", "its group; without one the queue itself");
  return withStore(command).action(run);
}

async function run(name: string, { group, ...flags }: Flags): Promise<void> {
  await useStore(flags, async (dibs) => {
    const lifted = await dibs.queue(name).unhold(group);
    print(flags.json ? JSON.stringify({ lifted }) : lifted ? "lifted" : "nothing was held");
  });
}
