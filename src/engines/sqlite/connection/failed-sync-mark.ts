import { closeSync, constants, openSync, readFileSync, readSync, rmSync, writeFileSync } from "node:fs";

/**
 * A failed sync is told by the kernel to those who have the journal open, once. Whoever opens it later learns of it by
 * a mark beside the store: a small file that names the journal, which gets another name whenever it starts over.
 */

/** A link of that name is not followed: it could lead to any file. Windows has no such flag. */
const NO_LINK = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | (constants.O_NOFOLLOW ?? 0);

/** To be asked after the journal was opened: whoever has it open by then is told by the kernel. */
export function isMarked(path: string, journal: number): boolean {
  try {
    return readFileSync(markOf(path), "utf8") === nameOf(journal);
  } catch {
    // The usual case: there is none.
    return false;
  }
}

/** As good as it can be done on a disk that fails: who marks remembers it anyway. */
export function mark(path: string, journal: number): void {
  try {
    const file = openSync(markOf(path), NO_LINK, 0o600);
    try {
      writeFileSync(file, nameOf(journal));
    } finally {
      closeSync(file);
    }
  } catch {}
}

/** A mark that stays is of a journal that is no more, and does no harm. */
export function unmark(path: string): void {
  try {
    rmSync(markOf(path), { force: true });
  } catch {}
}

function markOf(path: string): string {
  return `${path}-doubt`;
}

/** The salts in its header, new each time it starts over. Empty while it is. */
function nameOf(journal: number): string {
  const salts = Buffer.alloc(8);
  return salts.toString("hex", 0, readSync(journal, salts, 0, 8, 16));
}
