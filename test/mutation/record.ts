// Runs within each test file of the recording run: writes down which blocks each test has executed (reach.ts).

import { appendFileSync } from "node:fs";
import { afterAll, afterEach, beforeEach, type RunnerTestCase, type RunnerTestSuite } from "vitest";
import type { Reached } from "./reach.ts";

declare global {
  var dibsReached: Set<string> | undefined;
}

const target = process.env["DIBS_REACH_RECORD"];
if (target !== undefined) {
  const reached = (globalThis.dibsReached = new Set());
  /** What comes after a test's end, such as cleaning up, counts as that test's; what comes before the first, as the file's. */
  let last: Omit<Reached, "blocks"> | undefined;
  let began = 0;
  const write = (test: Omit<Reached, "blocks">): void => {
    if (reached.size > 0) appendFileSync(target, `${JSON.stringify({ ...test, blocks: [...reached] })}\n`);
    reached.clear();
  };
  beforeEach(({ task }) => {
    write(last ?? { file: task.file.name, name: null, ms: 0 });
    last = { file: task.file.name, name: fullName(task), ms: 0 };
    began = performance.now();
  });
  afterEach(() => {
    last!.ms = Math.round(performance.now() - began);
    write(last!);
  });
  afterAll(() => {
    if (last) write(last);
  });
}

/** As `vitest -t` compares it. */
function fullName(task: RunnerTestCase | RunnerTestSuite): string {
  return task.suite ? `${fullName(task.suite)} > ${task.name}` : task.name;
}
