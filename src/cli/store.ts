import type { Command } from "commander";
import type { Dibs } from "../api/dibs.ts";
import { kindOf } from "../core/process/address.ts";
import { invalid, isDibsError } from "../core/errors/errors.ts";
import { SILENT } from "../core/process/logger.ts";
import type { QueueSummary } from "../core/answer/page.ts";
import { checkQueueName } from "../core/queue/queue-name.ts";
import { show } from "../core/errors/show.ts";
import { throttleLogger } from "../core/process/throttled-logger.ts";
import { notFound } from "./exit.ts";
import { didYouMean } from "./nearest.ts";
import { say } from "./output.ts";

/** The store or server that a command uses. */
export interface StoreFlags {
  url?: string;
  schema?: string;
  json?: boolean;
}

/** The flags of every command that uses a store. A token is not a flag: every user of the machine can read flags. */
export function withStore(command: Command): Command {
  return command
    .option("--url <url>", "the store or server: a file, postgres://… or http://… (DIBS_URL, or ./dibs.db)")
    .option("--schema <name>", "PostgreSQL: the schema that contains the tables (DIBS_SCHEMA, or dibs)")
    .option("--json", "print for programs");
}

export function addressOf(url: string | undefined): string {
  return url ?? (process.env["DIBS_URL"] || "./dibs.db");
}

/**
 * Opens the store while `work` runs. Only a command that adds creates a missing store: for others, a missing one is
 * probably a typo. `isLong`: the command reacts to keys or Ctrl-C while the store answers.
 */
export async function useStore<T>(
  flags: StoreFlags,
  work: (dibs: Dibs) => Promise<T>,
  { create = false, isLong = false }: { create?: boolean; isLong?: boolean } = {},
): Promise<T> {
  // Loaded only here, so that --help and mistakes are answered at once.
  const { open, openBriefly } = await import("../api/open.ts");
  const address = addressOf(flags.url);
  refuseMemory(address);
  const options = { create, ...schemaOf(address, flags) };
  const dibs = await (isLong ? open(address, { ...options, logger: SILENT }) : openBriefly(address, options));
  try {
    return await work(dibs);
  } finally {
    await dibs.close();
  }
}

/**
 * Opens the store for a command that works on it for long, and creates a missing one. The caller closes it. `isDrone`:
 * the process handles one task. On a file it needs no thread, and takes two thirds of the CPU time.
 */
export async function openToWork(flags: StoreFlags, { isDrone = false } = {}): Promise<Dibs> {
  const { open, openBriefly } = await import("../api/open.ts");
  const address = addressOf(flags.url);
  refuseMemory(address);
  // While a disk is full, each attempt fails with the same message.
  const logger = throttleLogger({ warn: say, error: say });
  const openIt = isDrone && kindOf(address) === "file" ? openBriefly : open;
  return openIt(address, { ...schemaOf(address, flags), logger });
}

/** What a command does there would be gone when it ends. */
export function refuseMemory(address: string): void {
  if (kindOf(address) !== "memory") return;
  throw invalid(
    `A store in memory is gone when its command ends. Name a file or a server; dibs serve --url :memory: serves one.`,
  );
}

/** DIBS_SCHEMA may be set for other commands: only the flag is refused for another kind of store. */
function schemaOf(address: string, { schema }: StoreFlags): { schema?: string } {
  const named = schema ?? (kindOf(address) === "postgres" ? process.env["DIBS_SCHEMA"] : undefined);
  return named ? { schema: named } : {};
}

/** A queue that a command names. A missing one is not created: its name is probably a typo. */
export async function requireQueue(dibs: Dibs, name: string): Promise<QueueSummary> {
  const [found] = (await dibs.port.queues({ queue: checkQueueName(name) })).items;
  if (found) return found;
  const names = await queueNames(dibs);
  const next = names.length === 0 ? "The store has no queues; dibs add creates one." : "See dibs queues.";
  throw notFound(`There is no queue ${show(name)}.${didYouMean(name, names)} ${next}`);
}

/**
 * A worker may start before the first task exists, so a missing queue is only mentioned. A token with the scope `work`
 * alone may not look.
 */
export async function mentionMissingQueue(dibs: Dibs, name: string): Promise<void> {
  const found = await dibs.port.queues({ queue: checkQueueName(name) }).catch((error: unknown) => {
    if (isDibsError(error) && error.code === "FORBIDDEN") return undefined;
    throw error;
  });
  if (!found || found.items.length > 0) return;
  const near = didYouMean(name, await queueNames(dibs));
  say(`dibs: there is no queue ${show(name)} yet; waiting for its first task.${near}`);
}

async function queueNames(dibs: Dibs): Promise<string[]> {
  return (await dibs.queues()).map((queue) => queue.name);
}
