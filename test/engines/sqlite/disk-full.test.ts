import { execFileSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { call, newTask, openEngine, QUEUE, tempFolder } from "./kit.ts";

const canMount = process.platform === "linux" && process.getuid?.() === 0;

/** A disk of its own, of this many KiB. */
function tinyDisk(size: number): string {
  const folder = tempFolder();
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}k`, "tmpfs", folder]);
  onTestFinished(() => void execFileSync("umount", ["-l", folder]));
  return folder;
}

test.skipIf(!canMount)(
  "a full disk is reported, loses nothing, and writes continue when there is room (needs root to mount a disk)",
  async () => {
    const folder = tinyDisk(4_096);
    const ballast = join(folder, "ballast");
    writeFileSync(ballast, Buffer.alloc(1_024 * 1_024));
    const engine = await openEngine({ path: join(folder, "work.db") });

    const acknowledged: string[] = [];
    const data = JSON.stringify("x".repeat(20_000));
    const fill = async (): Promise<never> => {
      for (;;) {
        const [added] = await call(engine, { verb: "add", tasks: [newTask({ data })] });
        acknowledged.push(added!.id);
      }
    };
    await expect(fill()).rejects.toMatchObject({
      code: "UNAVAILABLE",
      retryable: true,
      message: expect.stringMatching(/No room.*Make room/s),
    });
    const before = acknowledged.length;
    expect(before).toBeGreaterThan(10);
    await expect(fill()).rejects.toMatchObject({ code: "UNAVAILABLE" });

    rmSync(ballast);
    const [added] = await call(engine, { verb: "add", tasks: [newTask({ data })] });
    acknowledged.push(added!.id);
    const ends = await call(engine, { verb: "ends", ids: acknowledged });
    expect(ends).toEqual(acknowledged.map(() => "pending"));
    const { depth } = await call(engine, { verb: "stats", queue: QUEUE });
    expect(depth.ready).toBe(acknowledged.length);
  },
);
