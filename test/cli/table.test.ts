// How the shell shows values to people: tables, widths, durations, suggestions.

import { describe, expect, test } from "vitest";
import { formatAge, formatBytes, formatDuration, formatRate } from "../../src/cli/human.ts";
import { didYouMean, nearest } from "../../src/cli/nearest.ts";
import { isColourful } from "../../src/cli/output.ts";
import { type Column, formatTable } from "../../src/cli/table.ts";
import { clipTo, widthOf } from "../../src/cli/width.ts";

interface Row {
  name: string;
  size: number;
  note?: string;
}

const COLUMNS: Column<Row>[] = [
  { head: "NAME", cell: ({ name }) => name },
  { head: "SIZE", cell: ({ size }) => size },
  { head: "NOTE", cell: ({ note }) => note ?? "", isOptional: true, isCut: true },
];

describe("tables", () => {
  test("numbers are right-aligned, and a column that is empty everywhere is left out", () => {
    const rows = [
      { name: "emails", size: 7 },
      { name: "b", size: 1_200 },
    ];
    expect(formatTable(rows, COLUMNS)).toEqual(["NAME    SIZE", "emails     7", "b       1200"]);
  });

  test("wide characters are counted with two columns, combining ones with none", () => {
    const rows = [
      { name: "日本", size: 1 },
      { name: "e\u0301te\u0301", size: 2 },
    ];
    expect(formatTable(rows, COLUMNS)).toEqual(["NAME  SIZE", "日本     1", "e\u0301te\u0301      2"]);
    expect(widthOf("日本")).toBe(4);
    expect(clipTo("日本語", 4)).toBe("日…");
  });

  test("control characters in cells are escaped", () => {
    const [, line] = formatTable([{ name: "a\u001b[31m\nb", size: 1 }], COLUMNS);
    expect(line).toBe(String.raw`a\u001b[31m\u000ab     1`);
  });

  test("the long column is cut to the width of the terminal, and not without one", () => {
    const rows = [{ name: "a", size: 1, note: "x".repeat(100) }];
    expect(formatTable(rows, COLUMNS, 40)[1]).toHaveLength(40);
    expect(formatTable(rows, COLUMNS)[1]).toContain("x".repeat(100));
  });
});

test("colours are for terminals, and not with NO_COLOR or a dumb terminal", () => {
  const before = { ...process.env };
  try {
    delete process.env["NO_COLOR"];
    process.env["TERM"] = "xterm";
    expect(isColourful({ isTTY: true })).toBe(true);
    expect(isColourful({ isTTY: false })).toBe(false);
    process.env["NO_COLOR"] = "1";
    expect(isColourful({ isTTY: true })).toBe(false);
    delete process.env["NO_COLOR"];
    process.env["TERM"] = "dumb";
    expect(isColourful({ isTTY: true })).toBe(false);
  } finally {
    process.env = before;
  }
});

test.each([
  [0, "0ms"],
  [999, "999ms"],
  [1_449, "1.4s"],
  [59_900, "59s"],
  [200_000, "3m 20s"],
  [3_600_000, "1h"],
  [187_200_000, "2d 4h"],
])("%i ms are shown as %s", (ms, shown) => {
  expect(formatDuration(ms)).toBe(shown);
});

test("ages, rates and sizes are short", () => {
  expect(formatAge(new Date(1_000), 66_000)).toBe("1m 5s");
  expect(formatAge(new Date(66_000), 1_000)).toBe("in 1m 5s");
  expect([0, 0.05, 1.25, 12_345].map(formatRate)).toEqual(["0", "0.05", "1.3", "12,345"]);
  expect([12, 1_234, 5_600_000].map(formatBytes)).toEqual(["12 bytes", "1.2 kB", "5.6 MB"]);
});

describe("the nearest name", () => {
  test.each([
    ["emials", "emails"],
    ["Emails", "emails"],
    ["emal", "emails"],
    ["repotrs", "reports"],
  ])("%s probably means %s", (given, meant) => {
    expect(nearest(given, ["emails", "reports", "x"])).toBe(meant);
  });

  test("a name that is like none has no suggestion", () => {
    expect(nearest("invoices", ["emails", "reports"])).toBeUndefined();
    expect(didYouMean("invoices", ["emails"])).toBe("");
    expect(didYouMean("emial", ["emails"])).toBe(` Did you mean "emails"?`);
  });
});
