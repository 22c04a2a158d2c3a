import { describe, expect, test } from "vitest";
import { openingAt, parseWindow } from "../../src/core/queue/window.ts";

const at = (text: string): number => Date.parse(text);

function openAt(hours: string, tz: string, moment: string): { open: boolean; until: string } {
  const { open, until } = openingAt(parseWindow({ hours, tz }), at(moment));
  return { open, until: new Date(until).toISOString().slice(0, 16) };
}

describe("window", () => {
  test("a window within a day opens and closes", () => {
    expect(openAt("09:00-17:30", "UTC", "2026-03-02T08:59:59.999Z")).toEqual({
      open: false,
      until: "2026-03-02T09:00",
    });
    expect(openAt("09:00-17:30", "UTC", "2026-03-02T09:00Z")).toEqual({
      open: true,
      until: "2026-03-02T17:30",
    });
    expect(openAt("09:00-17:30", "UTC", "2026-03-02T17:30Z")).toEqual({
      open: false,
      until: "2026-03-03T09:00",
    });
  });

  test("a window may span midnight", () => {
    expect(openAt("22:00-06:00", "UTC", "2026-03-02T23:00Z")).toEqual({
      open: true,
      until: "2026-03-03T06:00",
    });
    expect(openAt("22:00-06:00", "UTC", "2026-03-02T06:00Z")).toEqual({
      open: false,
      until: "2026-03-02T22:00",
    });
  });

  test("a window may end at midnight", () => {
    expect(openAt("18:00-24:00", "UTC", "2026-03-02T23:59Z")).toEqual({
      open: true,
      until: "2026-03-03T00:00",
    });
  });

  test("a window follows its time zone and daylight saving time", () => {
    expect(openAt("22:00-06:00", "Europe/London", "2026-01-10T21:59Z").open).toBe(false);
    expect(openAt("22:00-06:00", "Europe/London", "2026-07-10T21:00Z").open).toBe(true);
    // The night of March 29 has seven hours, that of October 25 nine.
    expect(openAt("22:00-06:00", "Europe/London", "2026-03-28T23:00Z").until).toBe("2026-03-29T05:00");
    expect(openAt("22:00-06:00", "Europe/London", "2026-10-24T22:00Z").until).toBe("2026-10-25T06:00");
  });

  test("a window end that is skipped takes effect after the skipped hour; one that occurs twice, the first time", () => {
    expect(openAt("22:00-01:30", "Europe/London", "2026-03-28T23:00Z").until).toBe("2026-03-29T01:00");
    expect(openAt("22:00-01:30", "Europe/London", "2026-10-24T23:00Z").until).toBe("2026-10-25T00:30");
  });

  test.each([
    "22-6",
    "22:00",
    "22:00-22:00",
    "00:00-24:00",
    "25:00-06:00",
    "22:60-06:00",
    "",
    5,
    null,
    {},
    { hours: "x" },
  ])("the window %j is refused", (options) => {
    expect(() => parseWindow(options as never)).toThrow(/window/);
  });

  test("a window with an unknown time zone is refused", () => {
    expect(() => parseWindow({ hours: "22:00-06:00", tz: "Mars/Olympus" })).toThrow("Mars/Olympus");
  });
});
