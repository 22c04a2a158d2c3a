import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect } from "vitest";
import { open } from "../../src/index.ts";
import { fill, mountSmallDisk } from "./harness/disk.ts";
import { actsOf, test, until } from "./harness/stage.ts";

describe.concurrent("a full disk", () => {
  test("a full disk is reported clearly, loses nothing that was acknowledged, and recovers by itself", async ({
    stage,
    skip,
  }) => {
    const disk = mountSmallDisk(stage, "8m");
    skip(disk === undefined, "needs the right to mount a small disk (root on Linux)");
    const file = join(disk!, "work.db");
    const worker = await stage.startWorker({ file, policy: { lease: "2s" }, work: { concurrency: 4 } });
    const dibs = await open(file);
    stage.onEnd(() => dibs.close());
    const queue = actsOf(dibs);

    const acknowledged = await queue.addMany(
      Array.from({ length: 50 }, () => ({ data: { do: "echo" as const } })),
    );
    const held = await queue.add({ do: "pass", gate: "room" });
    await worker.hears("start", (saying) => saying.id === held.id);

    const makeRoom = fill(disk!);
    const refused: unknown[] = [];
    const value = "x".repeat(20_000);
    while (refused.length < 5) {
      try {
        acknowledged.push(await queue.add({ do: "echo", value }));
      } catch (error) {
        refused.push(error);
      }
    }
    for (const error of refused) {
      expect(error).toMatchObject({ code: "UNAVAILABLE", retryable: true });
      expect((error as Error).message).toMatch(/no room/i);
    }
    // The worker has a result that it cannot store.
    worker.tell({ open: "room" });
    await worker.hears("warned", (saying) => /no room/i.test(saying["message"] as string));

    makeRoom();
    await until("there is room", async () => {
      try {
        acknowledged.push(await queue.add({ do: "echo", value: "after" }));
        return true;
      } catch (error) {
        expect(error).toMatchObject({ code: "UNAVAILABLE" });
        return false;
      }
    });
    expect(await held.result({ timeout: "25s" })).toBe("room");
    await Promise.all(acknowledged.map((task) => task.result({ timeout: "25s" })));
    // Nothing that was refused has been stored.
    expect((await queue.stats()).depth).toEqual({
      done: acknowledged.length + 1,
      ...{ ready: 0, waiting: 0, scheduled: 0, claimed: 0, parked: 0, verifying: 0 },
      ...{ dead: 0, cancelled: 0, expired: 0 },
    });
    expect(await worker.stop()).toEqual({ code: 0, signal: null });
    await dibs.close();
    const db = new Database(file);
    expect(db.pragma("integrity_check", { simple: true })).toBe("ok");
    db.close();
  });

  test("the claims of a worker that stops while the disk is full return when its lease ends", async ({
    stage,
    skip,
  }) => {
    const disk = mountSmallDisk(stage, "8m");
    skip(disk === undefined, "needs the right to mount a small disk (root on Linux)");
    const dibs = await open(join(disk!, "work.db"));
    stage.onEnd(() => dibs.close());
    const queue = dibs.queue<number>("work", { lease: "2s" });
    const tasks = await queue.addMany([{ data: 1 }, { data: 2 }]);
    const { promise: started, resolve: start } = Promise.withResolvers<void>();
    const worker = queue.work(
      () => {
        start();
        return new Promise(() => {});
      },
      { prefetch: 1 },
    );
    await started;
    const makeRoom = fill(disk!);
    await until("the disk is full", async () => {
      try {
        await queue.add(3);
        return false;
      } catch {
        return true;
      }
    });
    // It gives up before there is room again: from then on only its lease counts.
    await worker.stop({ timeout: 0 });
    makeRoom();
    queue.work(() => {});
    await Promise.all(tasks.map((task) => task.result({ timeout: "25s" })));
  });
});
