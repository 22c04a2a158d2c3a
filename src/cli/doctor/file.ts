import { accessSync, constants, statfsSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { realPathOf } from "../../engine/real-file.ts";
import { formatBytes } from "../human.ts";
import { type Finding, ok, problem, warning } from "./finding.ts";

/** Checks of a store in a file, before it is opened: the file, its folder, its file system, its -wal. */
export function checkFile(given: string): Finding[] {
  const path = realPathOf(given);
  const stats = statSync(path, { throwIfNoEntry: false });
  if (!stats)
    return [
      problem(
        "file",
        `There is no file ${path}.`,
        "Name the store with --url or DIBS_URL, or create it: dibs add QUEUE JSON",
      ),
    ];
  return [
    ok("file", `${path}, ${formatBytes(stats.size)}.`),
    checkPermissions(path, stats.mode),
    checkFileSystem(path),
    checkSpace(path),
    checkWal(path, stats.size),
  ];
}

function checkPermissions(path: string, mode: number): Finding {
  const { R_OK, W_OK, X_OK } = constants;
  if (!isAllowed(path, R_OK | W_OK))
    return problem(
      "permissions",
      "This user may not read and write the file.",
      `Change its owner or mode, or run dibs as its owner: ls -l ${path}`,
    );
  if (!isAllowed(dirname(path), W_OK | X_OK))
    return problem(
      "permissions",
      "This user may not create files in its folder, where SQLite keeps -wal and -shm.",
      `Make the folder writable: ${dirname(path)}`,
    );
  if ((mode & 0o002) !== 0)
    return warning("permissions", "Every user of this machine may write the file.", `chmod o-w ${path}`);
  return ok("permissions", "This user may read and write the file and its folder.");
}

function isAllowed(path: string, mode: number): boolean {
  try {
    accessSync(path, mode);
    return true;
  } catch {
    return false;
  }
}

/** Linux's numbers of file systems on which SQLite's locks or shared memory do not work between machines. */
const NETWORKS = new Map([
  [0x69_69, "NFS"],
  [0x51_7b, "SMB"],
  [0xff_53_4d_42, "CIFS"],
  [0xfe_53_4d_42, "SMB2"],
  [0x01_02_19_97, "9p"],
]);
const TMPFS = 0x01_02_19_94;

function checkFileSystem(path: string): Finding {
  const { type } = statfsSync(path);
  const network = NETWORKS.get(type);
  if (network !== undefined)
    return problem(
      "file system",
      `The file is on ${network}. SQLite's locks do not work between machines there, and a store can be damaged.`,
      "Move it to a local disk, use PostgreSQL, or let one machine run dibs serve.",
    );
  if (type === TMPFS)
    return warning(
      "file system",
      "The file is in memory (tmpfs), and gone after a restart of the machine.",
      "Move it to a disk, unless that is intended.",
    );
  return ok("file system", "The file is on a local file system.");
}

const LEAST_SPACE = 100_000_000;

function checkSpace(path: string): Finding {
  const { bavail, bsize } = statfsSync(path);
  const free = bavail * bsize;
  if (free >= LEAST_SPACE) return ok("space", `${formatBytes(free)} are free.`);
  return problem(
    "space",
    `Only ${formatBytes(free)} are free on its disk. With none left, every add fails.`,
    "Free some space, or lower the retention of queues: dibs queue set QUEUE retention.age=1h",
  );
}

/** SQLite cuts it to 64 MiB when no reader needs an old state. */
const LARGEST_WAL = 256_000_000;

function checkWal(path: string, fileSize: number): Finding {
  const size = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  if (size <= Math.max(LARGEST_WAL, fileSize)) return ok("wal", `The -wal file has ${formatBytes(size)}.`);
  return warning(
    "wal",
    `The -wal file has ${formatBytes(size)}: some process has been reading one state for long, so it cannot be written back.`,
    `Find and end it: fuser ${path}`,
  );
}
