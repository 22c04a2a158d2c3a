// Preloaded with --import in every thread of a process: its calendar is shifted by as many milliseconds as a file says,
// from the moment it says so. The clocks that count from boot are not changed, as with an administrator's step.

import { readFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import threads, { Worker, type WorkerOptions } from "node:worker_threads";

const file = process.env["DIBS_TEST_CALENDAR"]!;
const RealDate = Date;

function shift(): number {
  return Number(readFileSync(file, "utf8"));
}

globalThis.Date = class extends RealDate {
  constructor(...given: unknown[]) {
    if (given.length === 0) super(RealDate.now() + shift());
    else super(...(given as [number]));
  }

  static override now(): number {
    return RealDate.now() + shift();
  }
} as DateConstructor;

threads.Worker = class extends Worker {
  constructor(url: string | URL, options: WorkerOptions = {}) {
    super(url, { ...options, execArgv: [...(options.execArgv ?? []), "--import", import.meta.url] });
  }
};
syncBuiltinESMExports();
