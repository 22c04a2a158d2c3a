import { Command } from "commander";
import { print, type StoreFlags, useStore, withStore } from "../store.ts";

interface Flags extends StoreFlags {
  group?: string;
}

export function unholdCommand(): Command {
  const command = new Command("unhold")
    .description("end a hold early, of a group or of the whole queue")
    .argument("<queue>", "the queue's name")
    .option("--group <key>", "the group; without it, the queue itself");
  return withStore(command).action(run);
}

async function run(name: string, { group, ...flags }: Flags): Promise<void> {
  await useStore(flags, async (dibs) => {
    const lifted = await dibs.queue(name).unhold(group);
    print(flags.json ? JSON.stringify({ lifted }) : lifted ? "lifted" : "nothing was held");
  });
}
