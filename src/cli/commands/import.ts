import { Command } from "commander";
import { invalid } from "../../core/errors/errors.ts";
import { importRecords } from "../../transfer/run.ts";
import { say } from "../output.ts";
import { addressOf, describe, readRecords, watch, withTransfer } from "../transfer.ts";

// `dibs import`: reads such lines from standard input into an empty store.

interface Flags {
  url?: string;
  schema?: string;
}

export function importCommand(): Command {
  return new Command("import")
    .argument("[store]", "a file or a postgres:// address; created if it does not exist")
    .option("--url <url>", "the store, as an option (DIBS_URL)")
    .option("--schema <name>", "PostgreSQL: the schema that contains the tables")
    .action(run);
}

async function run(given: string | undefined, { url, schema }: Flags): Promise<void> {
  const address = addressOf(given, url);
  if (process.stdin.isTTY)
    throw invalid(
      "dibs import reads an export from standard input, but standard input is a terminal. Write: dibs import STORE < FILE",
    );
  const pages = readRecords(process.stdin);
  // Read the first page before a store is created: the input may not be an export.
  const { value: first } = await pages.next();
  if (first?.[0]?.type !== "store")
    throw invalid(
      "Standard input is not an export: it does not begin with a store record. Nothing was written. dibs export STORE > FILE writes one.",
    );
  await withTransfer(address, { create: true, ...(schema !== undefined && { schema }) }, async (store) => {
    const watched = watch(
      "imported",
      `The store ${store.label} stays closed. Run the same command with the same file to continue, or delete the store.`,
    );
    try {
      const progress = await importRecords(following(first, pages), store, watched.hooks);
      watched.end();
      say(`Imported ${describe(progress)} into ${store.label}.`);
    } finally {
      watched.end();
      process.stdin.destroy();
    }
  });
}

async function* following<T>(first: T, rest: AsyncGenerator<T>): AsyncGenerator<T> {
  yield first;
  yield* rest;
}
