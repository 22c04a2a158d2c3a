// The largest history that a queue can have, for tests of its size.

import { HISTORY_SERIES } from "../../src/dashboard/contract.ts";
import { addSample, type Levels, noLevels, packLevels } from "../../src/dashboard/history-levels.ts";
import type { Sample } from "../../src/dashboard/history-sample.ts";
import type { Port } from "../../src/core/port.ts";

export const WEEK_MINUTES = 7 * 24 * 60;

/** A busy queue whose figures jump as much as they can. */
function wildSample(minute: number): Sample {
  const jump = (most: number): number => (minute % 2 === 0 ? most : 1) * ((minute * 7919) % 97);
  return Object.fromEntries(HISTORY_SERIES.map((name) => [name, jump(1e9)])) as Sample;
}

export function fillWeek(): Levels {
  const levels = noLevels();
  for (let minute = 0; minute < WEEK_MINUTES; minute++) addSample(levels, minute, wildSample(minute));
  return levels;
}

/** As it is stored. */
export function weekOfOneQueue(): string {
  return JSON.stringify(packLevels(fillWeek()));
}

export async function writeHistories(port: Port, names: readonly string[], report: string): Promise<void> {
  await Promise.all(
    names.map((name) =>
      port.supervise({
        ...{
          kind: "history",
          name,
          holder: "h",
          host: "host",
          pid: 1,
          queues: [name],
          lease: 60_000,
          report,
        },
      }),
    ),
  );
}
