import { createReadStream, existsSync } from "node:fs";
import { Command } from "commander";
import type { AddOptions } from "../../api/add-options.ts";
import type { Queue } from "../../api/queue.ts";
import type { AddedTaskHandle } from "../../api/task-handle.ts";
import { kindOf } from "../../core/process/address.ts";
import { invalid } from "../../core/errors/errors.ts";
import { checkQueueName } from "../../core/queue/queue-name.ts";
import { filePathOf } from "../../engine/real-file.ts";
import { AddProgress } from "../add-progress.ts";
import { ShellError } from "../exit.ts";
import { count } from "../human.ts";
import { onInterrupt } from "../interrupt.ts";
import { lineGroups } from "../lines.ts";
import { print, printJson, say } from "../output.ts";
import { addressOf, refuseMemory, type StoreFlags, useStore, withStore } from "../store.ts";
import { hasUnreadInput } from "../unread-input.ts";
import { duration, nameAndValue, parseJson, wholeNumber } from "../values.ts";

/** Lines per commit, and per frame on the wire. */
const BATCH = 500;

interface Flags extends StoreFlags {
  file?: string;
  priority?: number;
  delay?: number;
  group?: string;
  key?: string;
  ttl?: number;
  maxAttempts?: number;
  cost?: number;
  urgent?: boolean;
  header?: Record<string, string>;
}

export function addCommand(): Command {
  const command = new Command("add")
    .argument("<queue>", "the queue's name; a new one is created")
    .argument(
      "[json]",
      "the payload; default null. With -, each line of standard input is the payload of a task",
    )
    .option("--file <path>", "each line of this file is the payload of a task")
    .option("--priority <number>", "higher first", wholeNumber)
    .option("--delay <duration>", "do not start before this, such as 10s", duration)
    .option("--group <key>", "tasks with the same key run in order, one at a time")
    .option("--key <key>", "an idempotency key: the same one returns the same task")
    .option("--ttl <duration>", "the task expires if no worker has started it by then", duration)
    .option("--max-attempts <number>", "after this many failures it is a dead letter", wholeNumber)
    .option("--cost <number>", "its cost in rate limits with a unit", wholeNumber)
    .option("--urgent", "start before all other tasks, and also outside the queue's window")
    .option("--header <name=value...>", "a header of the task", nameAndValue);
  return withStore(command).action(run);
}

async function run(name: string, json: string | undefined, flags: Flags): Promise<void> {
  checkQueueName(name);
  if (flags.file !== undefined && json !== undefined)
    throw invalid("A payload and --file are both given. Name only one.");
  if (json === "-" || flags.file !== undefined) return addLines(name, flags);
  if (json === undefined && (await hasUnreadInput()))
    throw invalid(
      `No payload is given, and standard input is not empty. Write dibs add ${name} - to add a task for each of its lines, or dibs add ${name} null for a task without a payload.`,
    );
  const data = parseJson(json ?? "null", "The payload");
  const add = (queue: Queue) => queue.add(data, optionsOf(flags));
  await rehearse(flags, name, add);
  await useStore(flags, async (dibs) => report([await add(dibs.queue(name))], flags), { create: true });
}

/** Each line is added as it arrives. Nothing is added of a group of lines with one that is not JSON. */
async function addLines(name: string, flags: Flags): Promise<void> {
  if (flags.key !== undefined) throw invalid("--key is for a single task: all lines would be the same task.");
  const options = optionsOf(flags);
  const input = flags.file === undefined ? process.stdin : createReadStream(flags.file);
  const interrupt = onInterrupt("Stopping after the tasks that were read");
  interrupt.signal.addEventListener("abort", () => input.destroy());
  const progress = new AddProgress(flags.json === true);
  const batches = readBatches(input, flags.file, progress, interrupt.signal);
  const first = await batches.next();
  if (first.done) {
    if (interrupt.signal.aborted) throw new ShellError("interrupted", "Stopped. Nothing was added.");
    return say("Nothing was added: there was no line to read.");
  }
  await rehearse(flags, name, (queue) => addAll(queue, first.value, options));
  const addBatch = async (queue: Queue, batch: unknown[]): Promise<void> => {
    const tasks = await addAll(queue, batch, options);
    if (progress.printsIds) report(tasks, flags);
    progress.added(tasks.length);
  };
  try {
    await useStore(
      flags,
      async (dibs) => {
        const queue = dibs.queue(name);
        await addBatch(queue, first.value);
        for await (const batch of batches) await addBatch(queue, batch);
      },
      { create: true },
    );
  } finally {
    progress.end(name);
    input.destroy();
  }
  if (interrupt.signal.aborted)
    throw new ShellError("interrupted", `Stopped after ${count(progress.total, "task")}.`);
}

async function* readBatches(
  input: AsyncIterable<Uint8Array>,
  file: string | undefined,
  progress: AddProgress,
  stop: AbortSignal,
): AsyncGenerator<unknown[], void> {
  let line = 0;
  const parseLine = (text: string): unknown => {
    try {
      return parseJson(text, `Line ${line}`);
    } catch (error) {
      const before =
        progress.total === 0
          ? "Nothing was added"
          : `${count(progress.total, "task")} before it ${progress.total === 1 ? "was" : "were"} added`;
      throw invalid(
        `${(error as Error).message} ${before}. Each line is one task; for one payload of several lines: dibs add QUEUE "$(cat FILE)"`,
      );
    }
  };
  try {
    for await (const lines of lineGroups(input)) {
      const payloads: unknown[] = [];
      for (const text of lines) {
        line++;
        if (text.trim() !== "") payloads.push(parseLine(text));
      }
      for (let from = 0; from < payloads.length; from += BATCH) yield payloads.slice(from, from + BATCH);
    }
  } catch (error) {
    if (stop.aborted) return;
    const { code } = error as NodeJS.ErrnoException;
    if (file === undefined || typeof code !== "string" || !/^E[A-Z]+$/.test(code)) throw error;
    throw invalid(
      `The file ${file} cannot be read (${code}). Name a file that exists and that you may read.`,
    );
  }
}

/** Adds in memory first: a refused payload must not create a store, or a schema in PostgreSQL. */
async function rehearse(flags: Flags, name: string, add: (queue: Queue) => Promise<unknown>): Promise<void> {
  const address = addressOf(flags.url);
  const kind = kindOf(address);
  // A server's store exists.
  if (kind === "server" || (kind === "file" && existsSync(filePathOf(address)))) return;
  refuseMemory(address);
  const { openBriefly } = await import("../../api/open.ts");
  await using dibs = await openBriefly(":memory:", {});
  await add(dibs.queue(name));
}

/** For a single payload, add() is used: its error does not contain an index. */
async function addAll(queue: Queue, batch: unknown[], options: AddOptions): Promise<AddedTaskHandle[]> {
  if (batch.length === 1) return [await queue.add(batch[0], options)];
  return queue.addMany(batch.map((data) => ({ data, ...options })));
}

function report(tasks: AddedTaskHandle[], { json = false }: Flags): void {
  for (const { id, existing } of tasks) {
    if (json) printJson({ id, existing });
    else print(id);
  }
}

function optionsOf(flags: Flags): AddOptions {
  const { priority, delay, group, key, ttl, maxAttempts, cost, urgent, header } = flags;
  return {
    ...(priority !== undefined && { priority }),
    ...(delay !== undefined && { delay }),
    ...(group !== undefined && { groupKey: group }),
    ...(key !== undefined && { idempotencyKey: key }),
    ...(ttl !== undefined && { ttl }),
    ...(maxAttempts !== undefined && { maxAttempts }),
    ...(cost !== undefined && { cost }),
    ...(urgent !== undefined && { urgent }),
    ...(header !== undefined && { headers: header }),
  };
}
