import { AnswerSize } from "../../../core/answer/answer-size.ts";

/**
 * Reads the rows of a page one by one until it is full, for verbs that list. At most one row is read in vain, whatever
 * its size.
 */
export function readPage<Key, Row>(
  keys: readonly Key[],
  read: (key: Key) => Row,
  sizeOf: (row: Row) => number,
): Row[] {
  const size = new AnswerSize();
  const rows: Row[] = [];
  for (const key of keys) {
    const row = read(key);
    const bytes = sizeOf(row);
    if (!size.fits(bytes)) break;
    size.add(bytes);
    rows.push(row);
  }
  return rows;
}
