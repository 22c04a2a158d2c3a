/** Finds what a mistyped verb, flag value or name of a queue probably means. Commands call it for their error messages. */

/** The known name that is most like the given one; undefined if none is like it. */
export function nearest(given: string, known: Iterable<string>): string | undefined {
  const wanted = given.toLowerCase();
  let least = Infinity;
  let found: string | undefined;
  for (const name of known) {
    // Names that differ by more than a third of their characters are different names.
    const most = Math.max(1, Math.floor(Math.max(name.length, given.length) / 3));
    if (Math.abs(name.length - given.length) > most) continue;
    const edits = editsBetween(wanted, name.toLowerCase());
    if (edits <= most && edits < least) [least, found] = [edits, name];
  }
  return found;
}

/** A sentence to append to an error message, with a blank before it; empty if no name is near. */
export function didYouMean(given: string, known: Iterable<string>): string {
  const found = nearest(given, known);
  return found === undefined ? "" : ` Did you mean "${found}"?`;
}

/** Characters to insert, delete, replace or swap with their neighbour (the restricted Damerau-Levenshtein distance). */
function editsBetween(a: string, b: string): number {
  let [beforeLast, last]: [number[], number[]] = [[], Array.from({ length: b.length + 1 }, (_, at) => at)];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = last[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      const isSwapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const swapped = isSwapped ? beforeLast[j - 2]! + 1 : replaced;
      row.push(Math.min(replaced, swapped, last[j]! + 1, row[j - 1]! + 1));
    }
    [beforeLast, last] = [last, row];
  }
  return last[b.length]!;
}
