// What the guide says to give as `tx` is what the tests run.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { LIBRARIES } from "./libraries.ts";

const read = (path: string): string => readFileSync(join(import.meta.dirname, path), "utf8");

/** Without what TypeScript adds, and however it is broken into lines. */
function bare(code: string): string {
  return code.replaceAll(/: string|: unknown\[\]| as never\[\]|\s|,(?=\s*\))|;/g, "");
}

test("the adapters of the guide are those that are tested, one for each library", () => {
  const guide = /^```js\n([^]*?)^```$/m.exec(read("../../docs/guides/postgres.md"))![1]!;
  const tested = bare(read("libraries.ts"));
  const lines = guide.split("\n").filter((line) => line !== "");
  const names = lines.flatMap((line) => /^\/\/ ([\w.]+):/.exec(line)?.[1] ?? []);
  expect(["pg", ...names]).toEqual(Object.keys(LIBRARIES));
  const code = lines.filter((line) => !line.startsWith("//"));
  expect(code.length).toBeGreaterThanOrEqual(names.length);
  for (const line of code) expect(tested).toContain(bare(line.replace(/^tx = /, "")));
});
