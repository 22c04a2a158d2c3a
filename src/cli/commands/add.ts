import { createInterface } from "node:readline";
import { Command, InvalidArgumentError } from "commander";
import type { AddOptions } from "../../api/add-options.ts";
import type { Dibs } from "../../api/dibs.ts";
import type { Queue } from "../../api/queue.ts";
import type { AddedTaskHandle } from "../../api/task-handle.ts";
import { kindOf } from "../../core/address.ts";
import type { Duration } from "../../core/duration.ts";
import { invalid } from "../../core/errors.ts";
import { show } from "../../core/show.ts";
import { addressOf, print, type StoreFlags, useStore, withStore } from "../store.ts";

/** Lines per commit, and per frame on the wire. */
const BATCH = 500;

interface Flags extends StoreFlags {
  priority?: number;
  delay?: Duration;
  group?: string;
  key?: string;
  ttl?: Duration;
  maxAttempts?: number;
  cost?: number;
  urgent?: boolean;
  header?: Record<string, string>;
}

export function addCommand(): Command {
  const command = new Command("add")
    .description("add a task or, with -, one task for each line of JSON on standard input")
    .argument("<queue>", "the queue's name")
    .argument("[json]", "the payload; default null", "null")
    .option("--priority <number>", "higher first", wholeNumber)
    .option("--delay <duration>", "do not start before this, such as 10s")
    .option("--group <key>", "tasks with the same key run in order, one at a time")
    .option("--key <key>", "an idempotency key: the same one returns the same task")
    .option("--ttl <duration>", "the task expires if no worker has started it by then")
    .option("--max-attempts <number>", "after this many failures it is a dead letter", wholeNumber)
    .option("--cost <number>", "its cost in rate limits with a unit", wholeNumber)
    .option("--urgent", "start before all other tasks, and also outside the queue's window")
    .option("--header <name=value...>", "a header of the task", header);
  return withStore(command).action(run);
}

async function run(name: string, json: string, flags: Flags): Promise<void> {
  const options = optionsOf(flags);
  if (json === "-" && flags.key !== undefined)
    throw invalid("--key cannot be used with -: all lines would be the same task.");
  const batches = json === "-" ? readBatches() : oneBatch(parse(json, "The payload"));
  const first = (await batches.next()).value ?? [];
  await rehearse(flags, (dibs) => addAll(dibs.queue(name), first, options));
  await useStore(flags, async (dibs) => {
    const queue = dibs.queue(name);
    report(await addAll(queue, first, options), flags);
    for await (const batch of batches) report(await addAll(queue, batch, options), flags);
  });
}

/** Adds in memory first: a refused payload must not create a store, or a schema in PostgreSQL. */
async function rehearse({ url }: Flags, work: (dibs: Dibs) => Promise<unknown>): Promise<void> {
  // A server's store exists, and the server checks the payload.
  if (kindOf(addressOf(url)) !== "server") await useStore({ url: ":memory:" }, work);
}

/** For a single payload, add() is used: its error does not contain an index. */
async function addAll(queue: Queue, batch: unknown[], options: AddOptions): Promise<AddedTaskHandle[]> {
  if (batch.length === 1) return [await queue.add(batch[0], options)];
  return batch.length === 0 ? [] : queue.addMany(batch.map((data) => ({ data, ...options })));
}

async function* oneBatch(data: unknown): AsyncGenerator<unknown[], void> {
  yield [data];
}

async function* readBatches(): AsyncGenerator<unknown[], void> {
  let batch: unknown[] = [];
  let line = 0;
  for await (const text of createInterface({ input: process.stdin })) {
    line++;
    if (text.trim() === "") continue;
    batch.push(parse(text, `Line ${line}`));
    if (batch.length < BATCH) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

function report(tasks: AddedTaskHandle[], { json = false }: Flags): void {
  for (const { id, existing } of tasks) print(json ? JSON.stringify({ id, existing }) : id);
}

function optionsOf({
  priority,
  delay,
  group,
  key,
  ttl,
  maxAttempts,
  cost,
  urgent,
  header,
}: Flags): AddOptions {
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

function parse(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalid(`${what} is not JSON: ${show(text)}. A text needs its quotes: '"hello"'.`);
  }
}

function wholeNumber(text: string): number {
  if (/^-?\d+$/.test(text)) return Number(text);
  throw new InvalidArgumentError("It must be a whole number.");
}

function header(text: string, before: Record<string, string> = {}): Record<string, string> {
  const at = text.indexOf("=");
  if (at < 1) throw new InvalidArgumentError("It must be a name and a value, such as type=invoice.");
  return { ...before, [text.slice(0, at)]: text.slice(at + 1) };
}
