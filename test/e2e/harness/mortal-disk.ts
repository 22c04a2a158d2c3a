import { execFile, spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { pause, type Stage } from "./stage.ts";

const run = promisify(execFile);

/** Sparse: it takes what is written. */
const SIZE = "2G";
/**
 * The file system writes nothing by itself: its journal would be committed every five seconds, and the kernel writes
 * data that is older than 30 seconds, which is longer than a round of the tests.
 */
const MOUNT = ["-t", "ext4", "-o", "loop,noatime,commit=600"];
/** An inode table that is written at once, and small. A zeroed table of the usual size would be 32 MB. */
const MAKE = ["-q", "-F", "-N", "16384", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"];
/** EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH: from now on nothing reaches the disk, and every write fails. */
const CUT = `open(my $disk, "<", $ARGV[0]) or die "$!\\n"; my $flag = pack("L", 2); ioctl($disk, 0x8004587d, $flag) or die "$!\\n";`;
/**
 * Waits until its standard input ends, however the process of the test ends. A PostgreSQL outlives that process if it is
 * killed; its processes work in their data folder. The disk's file is removed too: it may be in memory, and took 40 to
 * 130 MB.
 */
const GUARD = `cat >/dev/null
for each in /proc/[0-9]*; do
  case "$(readlink "$each/cwd")" in "$0"/*) kill -9 "\${each#/proc/}";; esac
done
if mountpoint -q "$0"; then umount -l "$0"; fi
rm -f "$0.ext4"`;
const UNMOUNT_MS = 20_000;

/** Why no such disk can be made here; undefined if one can. With CI set, it must be possible. */
export async function whyNoMortalDisk(): Promise<string | undefined> {
  const why = await findWhy();
  if (why !== undefined && process.env["CI"])
    throw new Error(`There is no disk whose power can be cut: ${why}, and CI is set.`);
  return why;
}

async function findWhy(): Promise<string | undefined> {
  if (process.platform !== "linux") return "this system is not Linux";
  if (userInfo().uid !== 0) return "only root may mount a disk of its own";
  const folder = mkdtempSync(join(tmpdir(), "dibs-disk-"));
  try {
    const disk = await MortalDisk.make(folder);
    try {
      await disk.cut(() => {});
      await disk.restore();
    } finally {
      await disk.remove();
    }
    return undefined;
  } catch (error) {
    return `this system does not let root make one (${(error as Error).message.trim()})`;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * A disk that can lose its power: an ext4 file system in a file, mounted as a loop device. A cut drops everything that
 * was written and not synced. What reached the device stays: a cache inside a disk is not simulated.
 */
export class MortalDisk {
  readonly path: string;
  readonly #image: string;
  readonly #guard;
  /** When the run itself is killed, vitest lets its test processes continue, and refuses `process.exit` there. */
  readonly #endWithRun = (): boolean => process.kill(process.pid, "SIGKILL");

  private constructor(folder: string) {
    this.path = join(folder, "disk");
    this.#image = join(folder, "disk.ext4");
    // Its own process group: Ctrl-C reaches only the test.
    this.#guard = spawn("sh", ["-c", GUARD, this.path], {
      detached: true,
      stdio: ["pipe", "ignore", "ignore"],
    });
    this.#guard.unref();
    process.once("disconnect", this.#endWithRun);
  }

  /** Below this folder. */
  static async make(folder: string): Promise<MortalDisk> {
    // PostgreSQL runs as another user, who has to reach its data.
    chmodSync(folder, 0o711);
    const disk = new MortalDisk(folder);
    mkdirSync(disk.path);
    await run("truncate", ["-s", SIZE, disk.#image]);
    await run("mkfs.ext4", [...MAKE, disk.#image]);
    await disk.#mount();
    return disk;
  }

  static async on(stage: Stage): Promise<MortalDisk> {
    const disk = await MortalDisk.make(stage.folder);
    stage.onEnd(() => disk.remove());
    return disk;
  }

  /** Syncs all that was written so far. */
  async sync(): Promise<void> {
    await run("sync", ["-f", this.path]);
  }

  /**
   * Kills the processes that use it first, without waiting for their end. At the moment of the cut, Linux answers some
   * calls of fdatasync as if they had succeeded: of 200 cuts under four writers, 54 on Linux 6.18. A process that is
   * killed does not get that answer.
   */
  async cut(kill: () => void): Promise<void> {
    kill();
    await run("perl", ["-e", CUT, this.path]);
  }

  /** The disk as a machine finds it when the power is back. */
  async restore(): Promise<void> {
    await this.#unmount();
    await this.#mount();
  }

  /** The loop device goes with the mount. */
  async remove(): Promise<void> {
    try {
      await this.#unmount();
    } finally {
      process.off("disconnect", this.#endWithRun);
      const gone = new Promise((resolve) => this.#guard.once("exit", resolve));
      this.#guard.ref();
      this.#guard.stdin.end();
      await gone;
    }
  }

  async #mount(): Promise<void> {
    await run("mount", [...MOUNT, this.#image, this.path]);
  }

  /** A process that was killed may take a moment to let its files go. */
  async #unmount(): Promise<void> {
    for (const until = performance.now() + UNMOUNT_MS; ; await pause(20)) {
      try {
        await run("umount", [this.path]);
        return;
      } catch (error) {
        if (!/busy/.test((error as Error).message) || performance.now() > until) throw error;
      }
    }
  }
}
