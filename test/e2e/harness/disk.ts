import { execFileSync } from "node:child_process";
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Stage } from "./stage.ts";

/** Undefined if this process may not mount. */
export function mountSmallDisk(stage: Stage, size: string): string | undefined {
  const path = join(stage.folder, "disk");
  mkdirSync(path);
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "dibs-e2e", path], { stdio: "pipe" });
  } catch {
    return undefined;
  }
  stage.onEnd(() => execFileSync("umount", [path], { stdio: "pipe" }));
  return path;
}

/** Fills a disk to the last page. The returned function makes room again. */
export function fill(disk: string): () => void {
  const filler = join(disk, "filler");
  const fd = openSync(filler, "w");
  for (let size = 1 << 20; size >= 1;) {
    try {
      writeSync(fd, Buffer.alloc(size));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      size >>= 1;
    }
  }
  closeSync(fd);
  return () => rmSync(filler);
}
