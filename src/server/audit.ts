import { escapeControls, show } from "../core/errors/show.ts";

/** Longer than any valid name. */
const LONGEST = 300;

/** An audit entry with texts from clients cut to the size of names: one call must not be able to fill the log. */
export function boundEntry<Entry extends object>(entry: Entry): Entry {
  const fields = Object.entries(entry).map(([name, value]) => [name, bound(value)] as const);
  return Object.fromEntries(fields) as Entry;
}

function bound(value: unknown): unknown {
  if (typeof value === "boolean") return value;
  // A client may send an object of any size where a verb takes a name or an id.
  if (typeof value !== "string") return show(value);
  return escapeControls(value.length > LONGEST ? `${value.slice(0, LONGEST - 1)}…` : value);
}
