import { expect, test } from "vitest";
import { findMutants } from "../mutation/mutants.ts";
import { stagesOf } from "../mutation/stages.ts";

function mutate(source: string): string[] {
  return findMutants("a.ts", source).map(
    ({ start, end, replacement }) => source.slice(0, start) + replacement + source.slice(end),
  );
}

test.each([
  ["if (a) b = c;", ["if (!(a)) b = c;", "if (a) {}"]],
  ["while (a < b) f();", ["while (!(a < b)) f();", "while (a <= b) f();", "while (a < b) {}"]],
  ["const a = b === c ? d : e", ["const a = b !== c ? d : e"]],
  ["const a = b && (c || d)", ["const a = b || (c || d)", "const a = b && (c && d)"]],
  ["const a = b ?? c", ["const a = b"]],
  ["const a = b + 1 - c", ["const a = b + 1 + c", "const a = b - 1 - c", "const a = b + 2 - c"]],
  ["const a = 'b' + c", []],
  ["let a = 60_000; a += b", ["let a = 120000; a += b", "let a = 60_000; {}", "let a = 60_000; a -= b"]],
  ["type A = true | 1; const a = true", ["type A = true | 1; const a = false"]],
  ["const a = Math.min(b, c)", ["const a = Math.max(b, c)"]],
  ["for (const a of b) { continue; }", ["for (const a of b) { {} }"]],
  ["function f() { return g(); }", []],
])("the mutants of %s are found", (source, mutants) => {
  expect(mutate(source).toSorted()).toEqual(mutants.toSorted());
});

test("a function that returns nothing may do nothing", () => {
  expect(mutate("function f() { a(); b(); }")).toContain("function f() {}");
});

test("statements lose bounds, conditions and their order, and keep their parameters", () => {
  expect(mutate('const A = "SELECT a FROM b WHERE c < ? AND d = ? ORDER BY e LIMIT 1"')).toEqual([
    'const A = "SELECT a FROM b WHERE c <= ? AND d = ? ORDER BY e LIMIT 1"',
    'const A = "SELECT a FROM b WHERE c < ? AND (d = ? OR 1) ORDER BY e LIMIT 1"',
    'const A = "SELECT a FROM b WHERE c < ? AND d = ? ORDER BY e DESC LIMIT 1"',
  ]);
});

test("the quickest tests that execute a mutant run first, those of its own folder before all others", () => {
  const reached = new Map([
    [
      "test/api/queue.test.ts",
      new Map([
        ["slow", 9_000],
        ["quick", 5],
      ]),
    ],
    ["test/broker/gather.test.ts", new Map([["own", 200]])],
    ["test/api/limits.test.ts", null],
  ]);
  expect(stagesOf("src/broker/gather.ts", reached, { recorded: ["test/api"], others: ["test/e2e"] })).toEqual(
    [
      { paths: ["test/broker/gather.test.ts", "test/api/queue.test.ts"], names: ["own", "quick"] },
      { paths: ["test/api/queue.test.ts", "test/api/limits.test.ts"] },
      { paths: ["test/e2e"] },
    ],
  );
});

test("a mutant that no recorded test executes runs against the others only", () => {
  const tests = { recorded: ["test/api"], others: ["test/e2e"] };
  expect(stagesOf("src/broker/gather.ts", new Map(), tests)).toEqual([{ paths: ["test/e2e"] }]);
  expect(stagesOf("src/broker/gather.ts", undefined, tests)).toEqual([
    { paths: ["test/api"] },
    { paths: ["test/e2e"] },
  ]);
});
