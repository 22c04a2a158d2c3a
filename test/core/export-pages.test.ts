import { expect, test } from "vitest";
import type { StoreRecord } from "../../src/core/record/record.ts";
import { Pages } from "../../src/engine/pages.ts";
import { PAGE } from "../../src/engine/transfer.ts";

test("results and errors of removed children count in the pages of an export", () => {
  const text = "x".repeat(PAGE.bytes / 4);
  const child = { type: "child", id: "c", parent: "p", n: 1, name: "a", queue: "parts" } as const;
  for (const kept of [{ result: text }, { error: { name: "Error", message: text, stack: null } }]) {
    const pages = new Pages();
    const record: StoreRecord = { ...child, state: "done", ...kept };
    const full = Array.from({ length: 4 }, () => pages.add(record));
    expect(full.map((page) => page?.length)).toEqual([undefined, undefined, undefined, 4]);
  }
});
