import { Command } from "commander";
import type { AllChange } from "../../api/change-all.ts";
import { type TaskState, END_STATES, PENDING_STATES } from "../../core/task/task.ts";
import { confirm, type ConfirmFlags, withConfirmation } from "../confirm.ts";
import { ShellError } from "../exit.ts";
import { count } from "../human.ts";
import { print, printJson } from "../output.ts";
import { requireQueue, type StoreFlags, useStore, withStore } from "../store.ts";
import { choiceOption, duration, nameAndValue, numberBetween, parseJson, wholeNumber } from "../values.ts";

interface Flags extends StoreFlags, ConfirmFlags {
  cancel?: boolean;
  promote?: boolean;
  runAgain?: boolean;
  priority?: number;
  delay?: number;
  data?: string;
  state?: TaskState[];
  group?: string;
  header?: Record<string, string>;
  limit?: number;
}

/** `dibs change`: one change of all tasks of a queue that match. */
export function changeCommand(): Command {
  const command = new Command("change")
    .argument("<queue>", "the queue's name")
    .option("--cancel", "cancel them")
    .option("--promote", "make scheduled ones ready now")
    .option("--run-again", "run them again; needs --state")
    .option("--priority <number>", "give them this priority", wholeNumber)
    .option("--delay <duration>", "due this long from now; 0: now", duration)
    .option("--data <json>", "give them this payload")
    .addOption(
      choiceOption("--state <state...>", "in these states; default: those that the change allows", [
        ...PENDING_STATES,
        ...END_STATES,
      ]),
    )
    .option("--group <key>", "of this group")
    .option("--header <name=value>", "with this header; repeatable", nameAndValue)
    .option("--limit <number>", "at most this many", numberBetween(1, 1e9));
  return withStore(withConfirmation(command)).action(run);
}

async function run(queue: string, flags: Flags): Promise<void> {
  const change = changeOf(flags);
  const { state, group: groupKey, header: headers, limit } = flags;
  await useStore(flags, async (dibs) => {
    await requireQueue(dibs, queue);
    const handle = dibs.queue(queue);
    const options = { state, groupKey, headers, limit };
    const found = await handle.changeAll(change, { ...options, dryRun: true });
    const isReal = await confirm(`Change ${count(found.changed, "task")} of ${queue}`, flags);
    const { changed, skipped, searched } = isReal ? await handle.changeAll(change, options) : found;
    if (flags.json) printJson({ queue, changed, skipped, searched, ...(!isReal && { dryRun: true }) });
    else if (isReal)
      print(`changed ${count(changed, "task")}${skipped > 0 ? `, left ${skipped} as they were` : ""}`);
  });
}

function changeOf({ cancel, promote, runAgain, priority, delay, data }: Flags): AllChange {
  const fields = {
    ...(priority !== undefined && { priority }),
    ...(delay !== undefined && { delay }),
    ...(data !== undefined && { data: parseJson(data, "The payload") }),
  };
  const wanted: AllChange[] = [
    ...(cancel ? ["cancel" as const] : []),
    ...(promote ? ["promote" as const] : []),
    ...(runAgain ? ["runAgain" as const] : []),
    ...(Object.keys(fields).length > 0 ? [fields] : []),
  ];
  if (wanted.length !== 1)
    throw new ShellError(
      "usage",
      "Give one change: --cancel, --promote, --run-again, or some of --priority, --delay and --data.",
    );
  return wanted[0]!;
}
