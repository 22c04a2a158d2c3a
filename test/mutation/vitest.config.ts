import { tmpdir } from "node:os";
import { join } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";
import { defineConfig } from "vitest/config";
import whole from "../../vitest.config.ts";
import { nameOf, secondsOf } from "../run/seconds.ts";

const mutated = process.env["DIBS_MUTATED"]?.replace(/^src(.*)\/.*/, "test$1/");

/** The tests of the mutant's own folder know it best; of the others, the quickest file runs first. */
class ShortestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const cost = (file: string): number =>
      mutated !== undefined && nameOf(file).startsWith(mutated) ? 0 : secondsOf(file);
    return files.toSorted((a, b) => cost(a.moduleId) - cost(b.moduleId));
  }
}

export default defineConfig((env) => {
  const { test } = whole(env);
  return {
    test: {
      ...test,
      setupFiles: ["test/mutation/record.ts"],
      sequence: { sequencer: ShortestFirst },
      reporters: ["default"],
      // A mutant's tests wait in vain as often as they fail. The recording run has to pass, and keeps the long timeouts.
      ...(mutated !== undefined && {
        testTimeout: 15_000,
        hookTimeout: 15_000,
        expect: { poll: { timeout: 10_000 } },
      }),
      // Not in node_modules, which the copies share: it would keep every mutant.
      fsModuleCachePath: join(tmpdir(), "transformed"),
    },
  };
});
