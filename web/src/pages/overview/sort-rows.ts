import type { QueueRow } from "../../api/contract.ts";

/** Numbers, the largest first. Rows with the same number are in the order of their names, so that they do not jump. */
const NUMBERS: Record<string, (row: QueueRow) => number> = {
  depth: ({ depth }) => depth.ready + depth.waiting,
  in: ({ rates }) => rates.addedPerSecond,
  out: ({ rates }) => rates.donePerSecond,
  oldest: ({ oldestAt }) => (oldestAt === null ? -Infinity : -oldestAt),
  failing: ({ failureRate }) => failureRate ?? -1,
  dead: ({ depth }) => depth.dead,
};

const byName = new Intl.Collator("en", { numeric: true });

export function sortRows(rows: QueueRow[], sort: string, wanted: string): QueueRow[] {
  const text = wanted.toLowerCase();
  const found = text === "" ? rows : rows.filter(({ name }) => name.toLowerCase().includes(text));
  const number = NUMBERS[sort];
  return found.sort((a, b) => (number ? number(b) - number(a) : 0) || byName.compare(a.name, b.name));
}
