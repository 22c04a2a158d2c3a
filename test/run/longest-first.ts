import { BaseSequencer, type TestSpecification } from "vitest/node";
import { secondsOf } from "./seconds.ts";

/** Starts the longest files first: a long file that starts last would run alone while the other workers idle. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return files.toSorted((a, b) => secondsOf(b.moduleId) - secondsOf(a.moduleId));
  }
}
