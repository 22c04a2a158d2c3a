import { Command } from "commander";
import { formatRecord } from "../../core/record/record-lines.ts";
import { escapeControls } from "../../core/errors/show.ts";
import { exportRecords } from "../../transfer/move.ts";
import { say, write } from "../output.ts";
import { addressOf, checkNotClosed, describe, watch, withTransfer } from "../transfer.ts";

// `dibs export`: writes a store to standard output as JSON lines (docs/reference/export-format.md).

interface Flags {
  url?: string;
  schema?: string;
}

export function exportCommand(): Command {
  return new Command("export")
    .argument("[store]", "a file or a postgres:// address")
    .option("--url <url>", "the store, as an option (DIBS_URL)")
    .option("--schema <name>", "PostgreSQL: the schema that contains the tables", undefined)
    .action(run);
}

async function run(given: string | undefined, { url, schema }: Flags): Promise<void> {
  const options = { ...(schema !== undefined && { schema }) };
  await withTransfer(addressOf(given, url), options, async (store) => {
    await checkNotClosed(store);
    const watched = watch("exported", "The output is incomplete: export again.");
    let progress = { records: 0, tasks: 0 };
    try {
      const onProgress = (now: typeof progress): void => {
        progress = now;
        // A terminal shows the records themselves.
        if (!process.stdout.isTTY) watched.hooks.onProgress?.(now);
      };
      // A file gets the text as it is stored: to escape it is slower, and the same JSON.
      const harmless = process.stdout.isTTY ? escapeControls : (line: string): string => line;
      for await (const page of exportRecords(store, { ...watched.hooks, onProgress }))
        await write(page.map((record) => `${harmless(formatRecord(record))}\n`).join(""));
    } finally {
      watched.end();
    }
    say(`Exported ${describe(progress)} from ${store.label}.`);
  });
}
