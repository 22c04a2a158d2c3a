import { describe, expect, test } from "vitest";
import { describeViolation, findViolations } from "../../scripts/check-imports.ts";

function problems(file: string, source: string): string[] {
  return findViolations(file, source).map(describeViolation);
}

describe("the import table allows", () => {
  test.each([
    ["src/core/task/task.ts", `import { now } from "./clock.ts"`],
    ["src/core/schema.ts", `import type { StandardSchemaV1 } from "@standard-schema/spec"`],
    ["src/engine/engine.ts", `import { Task } from "../core/task/task.ts"`],
    ["src/engines/sqlite/verbs/add.ts", `import Database from "better-sqlite3"; import "../line/line.ts"`],
    ["src/engines/sqlite/verbs/claim.ts", `import { Engine } from "../../../engine/engine.ts"`],
    ["src/engines/sqlite/line/line.ts", `import { type Add } from "../verbs/add.ts"`],
    ["src/engines/sqlite/thread/remote.ts", `new Worker(new URL("./thread.ts", import.meta.url))`],
    ["src/broker/housekeeping/prune.ts", `import { add } from "../add.ts"; import "node:timers/promises"`],
    ["src/api/queue.ts", `import { work } from "../worker/worker.ts"`],
    [
      "src/api/open.ts",
      `import("../engines/sqlite/engine.ts"); import { Broker } from "../broker/broker.ts"`,
    ],
    ["src/index.ts", `export { open } from "./api/open.ts"; export type { Task } from "./core/task/task.ts"`],
    ["src/pools/simulate.ts", `import { decide } from "./decide.ts"`],
    ["web/src/app.tsx", `import { render } from "preact"; export const a = <p />; import "./style/base.css"`],
    ["web/src/api/contract.ts", `export type * from "../../../src/dashboard/contract.ts"`],
    ["src/cli/main.ts", `import { serve } from "../server/serve.ts"; import { Command } from "commander"`],
    ["src/broker/add.test.ts", `import { memory } from "../engines/memory/engine.ts"; import "vitest"`],
  ])("the import table allows %s: %s", (file, source) => {
    expect(problems(file, source)).toEqual([]);
  });
});

describe("the import table refuses", () => {
  test.each([
    ["core anything else", "src/core/task/task.ts", `import "../../engine/engine.ts"`, "not engine"],
    ["core Node's modules", "src/core/id.ts", `import { randomUUID } from "crypto"`, "Node's own modules"],
    ["core a package", "src/core/id.ts", `import "zod"`, "core may import types of @standard-schema/spec"],
    [
      "values where only types are allowed",
      "src/core/schema.ts",
      `import { schema } from "@standard-schema/spec"`,
      "import type",
    ],
    [
      "one engine in another",
      "src/engines/sqlite/add.ts",
      `import "../memory/add.ts"`,
      "may import core, engine and its own files, not engines/memory",
    ],
    [
      "a verb in the line of an engine",
      "src/engines/postgres/line/line.ts",
      `import { add } from "../verbs/add.ts"`,
      "line may import values from connection, statements, transaction, limits, flows, not verbs",
    ],
    ["a part of an engine without a row", "src/engines/sqlite/misc/a.ts", `import "../engine.ts"`, "no row"],
    ["a package of another engine", "src/engines/memory/add.ts", `import "better-sqlite3"`, "nothing"],
    ["one door in another", "src/doors/http/add.ts", `import "../amqp/codec.ts"`, "not doors/amqp"],
    ["a door an engine", "src/doors/http/add.ts", `import "../../engine/engine.ts"`, "not engine"],
    ["an engine in a broker", "src/broker/add.ts", `await import("../engines/memory/a.ts")`, "not engines/"],
    ["a broker in api", "src/api/queue.ts", `type Broker = import("../broker/b.ts").Broker`, "not broker"],
    ["api in worker", "src/worker/worker.ts", `export * from "../api/task.ts"`, "not api"],
    ["a broker at the front door", "src/index.ts", `export * from "./broker/add.ts"`, "not broker"],
    ["the decision of pools its neighbours", "src/pools/decide.ts", `import "./pool.ts"`, "core, not pools"],
    ["the decision of pools Node", "src/pools/decide.ts", `import "node:os"`, "Node's own modules"],
    ["a thread elsewhere", "src/api/a.ts", `ownFile("../broker/thread.ts", import.meta.url)`, "not broker"],
    ["a file elsewhere", "src/api/a.ts", `new URL("../broker/thread.ts", import.meta.url)`, "not broker"],
    [
      "a file that is not published",
      "src/engine/engine.ts",
      `import "./engine.test.ts"`,
      "not in the published",
    ],
    ["a file outside src", "src/api/version.ts", `import p from "../../package.json"`, "outside src"],
    ["code of the server in the page", "web/src/a.ts", `import "../../src/core/task/task.ts"`, "import type"],
    ["an engine in the page", "web/src/a.ts", `import type { A } from "../../src/engine/e.ts"`, "not engine"],
    ["Node in the page", "web/src/a.ts", `import "node:fs"`, "of npm packages, web may import"],
    ["a path that Node cannot run", "src/api/queue.ts", `import "../core/task.js"`, "end in .ts"],
  ])("the import table refuses %s", (_, file, source, problem) => {
    expect(problems(file, source)).toEqual([expect.stringContaining(problem)]);
  });

  test("a folder without a row is refused", () => {
    expect(problems("src/utils/misc.ts", "")).toEqual([expect.stringContaining("has no row")]);
  });
});

test("an import error names the file, the line, the import and what is allowed", () => {
  const source = `// a comment\n\nimport { settle } from "../broker/settle.ts";\n`;
  expect(problems("src/worker/run.ts", source)).toEqual([
    'src/worker/run.ts:3 imports "../broker/settle.ts": worker may import core and its own files, not broker',
  ]);
});
