import { defineConfig } from "vitest/config";
import { LongestFirst } from "./test/run/longest-first.ts";
import { Progress } from "./test/run/progress.ts";

export default defineConfig(({ mode }) => ({
  test: {
    // `npm run test:long`: test/run/long.ts.
    env: mode === "long" ? { DIBS_LONG: "1" } : {},
    include: ["src/**/*.test.ts", "web/**/*.test.ts", "test/**/*.test.ts"],
    exclude: ["**/node_modules/**", "dist/**"],
    // The first two save time. The third is PostgreSQL: the first file that needs it starts it, the end stops it.
    globalSetup: ["test/run/temporary.ts", "test/run/compile-cache.ts", "test/postgres/set-up.ts"],
    // A process for each file: tests kill processes, open worker threads and load a native addon.
    pool: "forks",
    // Threads of one process that strip types at the same moment may crash in V8, which throws a wrapper of the
    // stripper's WebAssembly away too early when two of them compile it at once: none compiles it. Only the
    // sources run so; what is published is JavaScript.
    execArgv: ["--wasm-wrapper-tiering-budget=1000000000"],
    fileParallelism: true,
    // For two cores: tests wait for timers, kills and restarts, so that a third file has something to use.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    reporters: ["default", new Progress()],
    // Workers log the failures that tests cause: their lines matter only if the test fails.
    silent: "passed-only",
    // Only a test that hangs gets here: tests wait for signals. A busy machine may need a minute for one of two seconds.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // `expect.poll` retries this long: its default of a second is too short on a busy machine.
    expect: { poll: { timeout: 20_000 } },
    // A test that passes on the second try has failed.
    retry: 0,
    // The type tests (*.test-d.ts) are checked with everything else by `npm run types`.
    typecheck: { enabled: false },
  },
}));
