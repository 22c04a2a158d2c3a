import { setImmediate } from "node:timers/promises";
import { invalid } from "../core/errors/errors.ts";
import { differenceOf, type RecordType, type StoreRecord, tasksOf } from "../core/record/record.ts";
import type { TransferStore } from "../engine/transfer.ts";

/** Reported after each page: records so far, and tasks among them. */
export interface Progress {
  records: number;
  tasks: number;
}

export interface TransferHooks {
  onProgress?: (progress: Progress) => void;
  /** Called between two pages; throws to stop. What was written stays, and the same call continues from there. */
  checkStop?: () => void;
}

/**
 * Fills a store with the records of an export, from a file or from another store. `dibs import` and moveStore call it.
 * An interrupted import continues where it stopped, with the same export: records that are already in are read and
 * skipped. The store opens when all records are in and the counts match.
 */
export async function importRecords(
  pages: AsyncIterable<StoreRecord[]>,
  into: TransferStore,
  { onProgress, checkStop }: TransferHooks = {},
): Promise<Progress> {
  const progress = { records: 0, tasks: 0 };
  let done: number | undefined;
  let last: RecordType | undefined;
  for await (const page of pages) {
    const [first] = page;
    if (!first) continue;
    if (last === "end") throw notWhole("it continues after its end");
    if (done === undefined) {
      if (first.type !== "store") throw notWhole("it does not begin with a store record");
      done = await into.beginImport(first);
    }
    // Without this, reading and writing a file would never yield to the event loop, and no signal would be handled.
    await setImmediate();
    checkStop?.();
    const seen = progress.records;
    progress.records += page.length;
    progress.tasks += page.filter(({ type }) => type === "task").length;
    const fresh = page.slice(Math.max(0, done - seen));
    last = page.at(-1)!.type;
    const end = page.find((record) => record.type === "end");
    if (end && last !== "end") throw notWhole("it continues after its end");
    if (fresh.length > 0) await into.write(fresh, progress.records);
    onProgress?.(progress);
    if (end?.type === "end") await verify(end, into);
  }
  if (last !== "end") throw notWhole("its end is missing");
  await into.finishImport();
  return progress;
}

async function verify({ counts }: StoreRecord & { type: "end" }, into: TransferStore): Promise<void> {
  const found = await into.count();
  const difference = differenceOf(counts, found);
  if (difference === undefined) return;
  throw invalid(
    `What arrived in ${into.label} is not what was exported: ${difference} (${tasksOf(counts)} and ${tasksOf(found)} tasks in all). ` +
      `The store stays closed. Delete it, and import into a new one.`,
  );
}

function notWhole(why: string): Error {
  return invalid(
    `The export is incomplete: ${why}. The store stays closed. Delete it, export again, and import that into a new one.`,
  );
}
