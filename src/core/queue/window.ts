import { checkTimeZone, firingTimesOf, UTC } from "../time/calendar.ts";
import { invalid } from "../errors/errors.ts";
import { checkNames } from "../input/options.ts";
import { show } from "../errors/show.ts";

/** The hours of a day in which tasks start, in a time zone. They may span midnight. */
export interface Window {
  /** Such as "22:00-06:00". */
  hours: string;
  tz: string;
}

/** In UTC unless a time zone is named. */
export type WindowOptions = string | { hours: string; tz?: string };

const HOURS = /^((?:[01]\d|2[0-3]):[0-5]\d)-((?:[01]\d|2[0-3]):[0-5]\d|24:00)$/;

export function parseWindow(options: WindowOptions): Window {
  if (typeof options === "object" && options !== null && !Array.isArray(options))
    checkNames(options, ["hours", "tz"], "window");
  const { hours, tz = UTC } = typeof options === "string" ? { hours: options } : (options ?? {});
  const [, from, to] = (typeof hours === "string" && HOURS.exec(hours)) || [];
  if (from === undefined) {
    throw invalid(
      `window must be one span of hours such as "22:00-06:00" (UTC), or { hours: "22:00-06:00", tz: "Europe/London" }; ` +
        `got ${show(hours ?? options)}.`,
    );
  }
  // 24:00 is 00:00 of the next day.
  if (from === to!.replace("24:00", "00:00")) {
    throw invalid(
      `window must end at another time than it begins; got ${show(hours)}. For the whole day leave it out, or give null.`,
    );
  }
  return { hours, tz: checkTimeZone(tz, "window.tz") };
}

/** Whether the window is open, and until when. */
export interface Opening {
  open: boolean;
  until: number;
}

/**
 * Daylight saving time: if clocks skip the start or end of the window, it takes effect right after the skipped hour. If
 * that time of day occurs twice, the first one counts.
 */
export function openingAt(window: Window, now: number): Opening {
  const name = `${window.hours} ${window.tz}`;
  const last = known.get(name);
  if (last && last.since <= now && now < last.until) return last;
  const [from, to] = window.hours.split("-") as [string, string];
  const opens = nextTime(from, window.tz, now);
  const closes = nextTime(to, window.tz, now);
  const opening = { open: closes < opens, until: Math.min(opens, closes), since: now };
  if (known.size >= MOST_KNOWN) known.clear();
  known.set(name, opening);
  return opening;
}

/** Cached, because every claim asks and the answer changes twice a day. */
const known = new Map<string, Opening & { since: number }>();
const MOST_KNOWN = 1_000;

function nextTime(time: string, tz: string, now: number): number {
  const [hour, minute] = time.split(":").map(Number);
  return firingTimesOf({ cron: `${minute} ${hour! % 24} * * *`, tz }, 0).after(now)!;
}
