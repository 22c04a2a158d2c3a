import { chmodSync, existsSync, mkdtempSync, rmSync, statfsSync } from "node:fs";
import { join } from "node:path";

const MEMORY = "/dev/shm";
const ENOUGH_BYTES = 4 * 1024 ** 3;

/**
 * Before all tests: puts temporary files into memory, where Linux has a file system for that with enough room. Most tests
 * make a store of their own, and wait for the disk otherwise: the conformance suite on SQLite took 88 s on a disk and 41 s
 * in memory. A killed process loses nothing by it. TMPDIR names another place.
 */
export default function setUp(): (() => void) | undefined {
  if (process.env["TMPDIR"] || !existsSync(MEMORY)) return undefined;
  const { bavail, bsize } = statfsSync(MEMORY);
  if (bavail * bsize < ENOUGH_BYTES) return undefined;
  const folder = mkdtempSync(join(MEMORY, "dibs-tests-"));
  // PostgreSQL runs as another user, who has to reach its own folder inside.
  chmodSync(folder, 0o711);
  process.env["TMPDIR"] = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}
