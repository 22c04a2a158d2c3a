import { closeSync, constants, openSync, readFileSync, readSync, rmSync, writeFileSync } from "node:fs";

/**
 * The kernel reports a failed sync once, to the processes that have the journal open. A process that opens it later
 * learns of it by a mark: a small file next to the store that names the journal. The journal gets another name whenever
 * it starts over.
 */

/** A link of that name is not followed: it could lead to any file. Windows has no such flag. */
const NO_LINK = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | (constants.O_NOFOLLOW ?? 0);

/** Call it after the journal was opened: the kernel reports later failures itself. */
export function isMarked(path: string, journal: number): boolean {
  try {
    return readFileSync(markOf(path), "utf8") === nameOf(journal);
  } catch {
    // Usually there is none.
    return false;
  }
}

/** Best effort on a disk that fails. The process that writes the mark remembers the failure anyway. */
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

/** A mark that stays names a journal that no longer exists, and does no harm. */
export function unmark(path: string): void {
  try {
    rmSync(markOf(path), { force: true });
  } catch {}
}

function markOf(path: string): string {
  return `${path}-doubt`;
}

/** The salts in its header, which are new each time it starts over. Empty while it has no header. */
function nameOf(journal: number): string {
  const salts = Buffer.alloc(8);
  return salts.toString("hex", 0, readSync(journal, salts, 0, 8, 16));
}
