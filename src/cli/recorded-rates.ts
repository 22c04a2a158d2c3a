import { createReadStream } from "node:fs";
import type { Dibs } from "../api/dibs.ts";
import { FLOW_SLOT_MS } from "../core/queue/flow.ts";
import { invalid } from "../core/errors/errors.ts";
import { show } from "../core/errors/show.ts";
import type { Load } from "../pools/load.ts";
import { aborted, onInterrupt } from "./interrupt.ts";
import { lineGroups } from "./lines.ts";
import { printJson } from "./output.ts";
import { requireQueue, type StoreFlags, useStore } from "./store.ts";

/** Rates of real queues for `dibs simulate`: measured now, recorded to lines of JSON, and read from them. */
export async function measureQueue(
  flags: StoreFlags,
  name: string,
): Promise<{ rate: number; serviceTime: number | undefined; failureRate: number | undefined }> {
  return useStore(flags, async (dibs) => {
    await requireQueue(dibs, name);
    const { rates, serviceTime, serviceTimes, failureRate } = await dibs.queue(name).stats();
    return {
      rate: rates.addedPerSecond,
      serviceTime: serviceTime ?? serviceTimes?.mean,
      failureRate: failureRate ?? undefined,
    };
  });
}

/** A line every ten seconds until Ctrl-C: `at` in milliseconds since the first, `rate` in tasks per second. */
export async function recordRates(flags: StoreFlags, name: string): Promise<void> {
  const interrupt = onInterrupt();
  const record = async (dibs: Dibs): Promise<void> => {
    await requireQueue(dibs, name);
    for (let at = 0; !interrupt.signal.aborted; at += FLOW_SLOT_MS) {
      const { rates } = await dibs.queue(name).stats();
      printJson({ at, rate: rates.addedPerSecond });
      let cancel = (): void => {};
      const slept = new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, FLOW_SLOT_MS);
        cancel = () => clearTimeout(timer);
      });
      await Promise.race([slept, aborted(interrupt.signal)]);
      cancel();
    }
  };
  await useStore(flags, record, { isLong: true });
  interrupt.end();
}

export async function readRates(file: string): Promise<Load> {
  const rates: { at: number; rate: number }[] = [];
  const input = file === "-" ? process.stdin : createReadStream(file);
  try {
    for await (const lines of lineGroups(input as AsyncIterable<Uint8Array>))
      for (const line of lines) if (line.trim() !== "") rates.push(parseRate(line, rates.length + 1));
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT")
      throw invalid(
        `There is no file ${show(file)}. --rates takes a file of recorded rates, or - for standard input.`,
      );
    if (code === "EISDIR" || code === "EACCES")
      throw invalid(`The file ${show(file)} cannot be read (${code}). Name a file that you may read.`);
    throw error;
  }
  if (rates.length < 2)
    throw invalid(
      `${show(file)} has ${rates.length} rates; a simulation needs at least two. Record for longer.`,
    );
  return { kind: "recorded", rates };
}

function parseRate(line: string, number: number): { at: number; rate: number } {
  const problem = invalid(
    `Line ${number} of the rates must be such as {"at":10000,"rate":2.5}; got ${show(line)}.`,
  );
  try {
    const { at, rate } = JSON.parse(line) as { at: unknown; rate: unknown };
    if (typeof at !== "number" || typeof rate !== "number") throw problem;
    return { at, rate };
  } catch {
    throw problem;
  }
}
