import { describe, expect, test } from "vitest";
import { describeValue, revealed } from "./value.ts";

describe("a payload as text", () => {
  test("a payload of JSON is shown indented", () => {
    expect(describeValue({ data: { a: 1 } })).toEqual({ text: '{\n  "a": 1\n}', kind: "JSON", bytes: 7 });
  });

  test("a payload of bytes is shown as a hexadecimal listing", () => {
    const { text, bytes } = describeValue({
      data: btoa("\0dibs"),
      contentType: "application/octet-stream",
      encoding: "base64",
    });
    expect(text).toMatch(/^000000 {2}00 64 69 62 73 .*·dibs$/);
    expect(bytes).toBe(5);
  });

  test("a shortened payload is marked as a beginning", () => {
    expect(describeValue({ data: '{"a', truncated: 9_000 }).kind).toContain("its beginning");
  });
});

test("characters that hide or reorder text are written as numbers", () => {
  expect(revealed("ab\u202Ecd\n")).toEqual([
    { text: "ab", hidden: false },
    { text: "\\u202E", hidden: true, name: "U+202E, which is not visible" },
    { text: "cd\n", hidden: false },
  ]);
});
