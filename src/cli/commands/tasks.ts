import { Command } from "commander";
import { END_STATES, PENDING_STATES, type TaskState } from "../../core/task/task.ts";
import { printJson, say } from "../output.ts";
import { findTasks } from "../search.ts";
import { requireQueue, type StoreFlags, useStore, withStore } from "../store.ts";
import { printTable } from "../table.ts";
import { TASK_COLUMNS } from "../task-lines.ts";
import { choiceOption, duration, nameAndValue, withPages } from "../values.ts";

// `dibs tasks`: lists the tasks of a queue that match the flags, page by page.

interface Flags extends StoreFlags {
  state?: TaskState[];
  olderThan?: number;
  newerThan?: number;
  key?: string;
  group?: string;
  header?: Record<string, string>;
  error?: string;
  limit: number;
  after?: string;
}

/** What runs comes first, then what will run next. */
const STATES = ["claimed", "ready", "waiting", "scheduled", "parked", "verifying", ...END_STATES] as const;

export function tasksCommand(): Command {
  const command = new Command("tasks")
    .argument("<queue>", "the queue's name")
    .addOption(
      choiceOption("--state <state...>", "in these states; default: all that have not ended", STATES),
    )
    .option("--older-than <duration>", "added at least this long ago, such as 10m", duration)
    .option("--newer-than <duration>", "added at most this long ago", duration)
    .option("--key <key>", "with this idempotency key, or this key of unique")
    .option("--group <key>", "of this group")
    .option("--header <name=value>", "with this header; repeatable", nameAndValue)
    .option("--error <text>", "whose last error contains this text");
  return withStore(withPages(command)).action(run);
}

async function run(queue: string, { state = [...PENDING_STATES], ...flags }: Flags): Promise<void> {
  await useStore(flags, async (dibs) => {
    await requireQueue(dibs, queue);
    const { olderThan, newerThan, key, group, header, error, limit, after } = flags;
    // In one order, so that a cursor of the page before means the same.
    const states = STATES.filter((each) => state.includes(each));
    const { tasks, next } = await findTasks(dibs, {
      ...{ queue, states, olderThan, newerThan, key, group, header, error, limit, after },
    });
    if (flags.json) return printJson({ tasks, next });
    if (tasks.length === 0) return say(`${queue} has no such tasks.`);
    printTable(tasks, TASK_COLUMNS);
    if (next !== null) say(`There are more: --after '${next}'`);
  });
}
