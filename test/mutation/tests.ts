/** What is mutated. */
export const FOLDERS = ["src/core", "src/broker", "src/worker", "src/engines/sqlite"];

export interface Tests {
  /** Run in the process of the test, so that it is recorded which blocks they execute. */
  recorded: string[];
  /** Run the sources in threads and processes of their own: run as a whole, for what the others did not notice. */
  others: string[];
}

const LIBRARY = ["test/api", "test/worker", "test/broker", "test/server", "test/conformance/memory.test.ts"];

const TESTS: Record<string, Tests> = {
  "src/core": {
    recorded: [
      "test/core",
      "test/protocol",
      "test/client",
      "test/doors/http.test.ts",
      "test/server",
      ...LIBRARY,
    ],
    others: ["test/conformance/transfer.test.ts"],
  },
  "src/broker": { recorded: LIBRARY, others: [] },
  "src/worker": { recorded: LIBRARY, others: [] },
  "src/engines/sqlite": {
    recorded: ["test/conformance/sqlite.test.ts", "test/simulation/simulation.test.ts"],
    others: ["test/engines/sqlite", "test/conformance/sqlite-threads.test.ts"],
  },
};

/** Tests of the library that need PostgreSQL, or repeat on another store what they do in memory. */
export const LEFT_OUT = {
  files: ["test/api/{tx,secrets}.test.ts", "test/server/{added,several,config}.test.ts"],
  names: /\b(on (sqlite|postgres|server)|(from|to) postgres)\b/,
};

/** `path`: a source, or one of the folders. */
export function testsFor(path: string): Tests {
  return TESTS[FOLDERS.find((folder) => path.startsWith(folder))!]!;
}
