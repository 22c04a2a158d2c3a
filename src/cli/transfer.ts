import { setFlagsFromString } from "node:v8";
import { invalid } from "../core/errors/errors.ts";
import type { StoreRecord } from "../core/record/record.ts";
import { parseRecord } from "../core/record/record-lines.ts";
import { Pages } from "../engine/pages.ts";
import { closedError, isClosed, type TransferStore } from "../engine/transfer.ts";
import { openTransfer, type OpenOptions } from "../transfer/open.ts";
import type { Progress, TransferHooks } from "../transfer/run.ts";
import { ShellError } from "./exit.ts";
import { count } from "./human.ts";
import { onInterrupt } from "./interrupt.ts";
import { lineGroups } from "./lines.ts";

/** What export, import and move share: addresses, progress, and how they are stopped. */

/** The address of the store: the argument, or --url, or DIBS_URL. */
export function addressOf(given: string | undefined, url: string | undefined): string {
  if (given !== undefined && url !== undefined)
    throw invalid(`Two stores are named, as an argument and by --url. Name only one.`);
  const address = given ?? url ?? process.env["DIBS_URL"];
  if (address) return address;
  throw invalid("No store is named. Name a file or a postgres:// address, as in ./dibs.db, or set DIBS_URL.");
}

/**
 * Keeps V8's young generation as small as it is when the command starts. A page of records outlives a collection of it, so V8
 * would let it grow to its limit: an export of 10 million tasks took 212 MB, an import 244 MB. At its first size (1 MB)
 * neither is slower, and both take less than 160 MB.
 */
function boundYoungGeneration(): void {
  setFlagsFromString("--semi-space-growth-factor=1");
}

/** Opens the store while `work` runs. */
export async function withTransfer<T>(
  address: string,
  options: OpenOptions,
  work: (store: TransferStore) => Promise<T>,
): Promise<T> {
  boundYoungGeneration();
  const store = await openTransfer(address, options);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

export async function checkNotClosed(store: TransferStore): Promise<void> {
  const state = await store.state();
  if (isClosed(state)) throw closedError(JSON.stringify(state), store.label);
}

const REPORT_EVERY_MS = 200;

/** Shows the progress on a terminal, and stops between two pages on Ctrl-C. */
export function watch(doing: string, ifStopped: string): { hooks: TransferHooks; end: () => void } {
  const { isTTY } = process.stderr;
  const interrupt = onInterrupt("Stopping after this page");
  let reportedAt = 0;
  const clear = (): void => void (isTTY && reportedAt > 0 && process.stderr.write("\r\u001b[K"));
  return {
    hooks: {
      checkStop: () => {
        if (interrupt.signal.aborted) throw new ShellError("interrupted", `Stopped. ${ifStopped}`);
      },
      onProgress: ({ tasks }) => {
        const now = performance.now();
        if (!isTTY || now - reportedAt < REPORT_EVERY_MS) return;
        reportedAt = now;
        process.stderr.write(`\r\u001b[K${doing} ${tasks.toLocaleString("en")} tasks …`);
      },
    },
    end: () => {
      clear();
      interrupt.end();
    },
  };
}

export function describe({ tasks, records }: Progress): string {
  return `${count(tasks, "task")} (${count(records, "record")})`;
}

/** Records from lines of JSON, page by page. */
export async function* readRecords(input: AsyncIterable<Uint8Array>): AsyncGenerator<StoreRecord[]> {
  const pages = new Pages();
  let line = 0;
  for await (const lines of lineGroups(input)) {
    for (const text of lines) {
      line++;
      if (text.trim() === "") continue;
      const page = pages.add(parseRecord(text, line));
      if (page) yield page;
    }
  }
  yield pages.rest();
}
