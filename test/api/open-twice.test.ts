import diagnostics from "node:diagnostics_channel";
import { linkSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { open, type OpenOptions } from "../../src/index.ts";

const logger = { warn: vi.fn(), error: vi.fn() };

function tempFolder(): string {
  logger.warn.mockClear();
  const folder = mkdtempSync(join(tmpdir(), "dibs-twice-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

async function opened(path: string, options: OpenOptions = {}) {
  const dibs = await open(path, { logger, ...options });
  onTestFinished(() => dibs.close());
  return dibs;
}

/** How many threads are started from here on. */
function countThreads(): () => number {
  let started = 0;
  const count = (): void => void started++;
  diagnostics.subscribe("worker_threads", count);
  onTestFinished(() => void diagnostics.unsubscribe("worker_threads", count));
  return () => started;
}

test("stores on one file, whatever its name, share a thread, and one warning says so", async () => {
  const folder = tempFolder();
  const path = join(folder, "work.db");
  symlinkSync(path, join(folder, "link.db"));
  const started = countThreads();
  await opened(path);
  expect(logger.warn).not.toHaveBeenCalled();
  await opened(join(folder, "link.db"));
  await opened(`file://${path}`);
  expect(started()).toBe(1);
  expect(logger.warn).toHaveBeenCalledExactlyOnceWith(
    expect.stringContaining(`${path} is open in this process already.`),
  );
  await opened(join(folder, "other.db"));
  expect(started()).toBe(2);
});

test.for(["first", "second"] as const)(
  "closing the %s store does not affect the other one",
  async (which) => {
    const path = join(tempFolder(), "work.db");
    const stores = [await opened(path), await opened(path)];
    const [closed, other] = which === "first" ? stores : stores.toReversed();
    const worker = other!.queue("q").work((task) => task.data);
    const task = await closed!.queue("q").add({ n: 1 });
    expect(await other!.task(task.id).result({ timeout: "30s" })).toEqual({ n: 1 });
    const waiting = other!.queue("later").claim({ wait: "30s" });
    await closed!.close();
    await other!.queue("later").add({ n: 2 });
    const [claim] = await waiting;
    expect(claim?.data).toEqual({ n: 2 });
    await claim!.ack();
    await worker.stop();
    await expect(closed!.queue("q").add({})).rejects.toMatchObject({ code: "CLOSED" });
  },
);

test("a waiting claim of one store does not answer the same one of the other", async () => {
  const path = join(tempFolder(), "work.db");
  const [one, two] = [await opened(path), await opened(path)];
  const seen: string[] = [];
  const done = Promise.withResolvers<void>();
  const both = (name: string) => (task: { data: unknown }) => {
    seen.push(`${name} ${String(task.data)}`);
    if (seen.length === 20) done.resolve();
  };
  one.queue("a").work(both("one"));
  two.queue("b").work(both("two"));
  for (let n = 0; n < 10; n++) {
    await two.queue("a").add(n);
    await one.queue("b").add(n);
  }
  await done.promise;
  const numbers = [...Array(10).keys()];
  expect(seen.toSorted()).toEqual(["one", "two"].flatMap((name) => numbers.map((n) => `${name} ${n}`)));
});

test("each store on a shared thread has its own options", async () => {
  const path = join(tempFolder(), "work.db");
  const relaxed = await opened(path, { durability: "relaxed", poll: "1h" });
  const full = await opened(path, { durability: "full", create: false });
  await relaxed.queue("q").add(1);
  expect((await full.queue("q").stats()).depth.ready).toBe(1);
});

test("after the last store on a file is closed, opening it again starts a thread without a warning", async () => {
  const path = join(tempFolder(), "work.db");
  const started = countThreads();
  for (let round = 1; round <= 2; round++) {
    const dibs = await open(path, { logger });
    await dibs.close();
    expect(started()).toBe(round);
  }
  expect(logger.warn).not.toHaveBeenCalled();
});

test("a file that was replaced can be opened while its old store is still open", async () => {
  const folder = tempFolder();
  const path = join(folder, "work.db");
  const old = await opened(path);
  await old.queue("q").add(1);
  for (const end of ["", "-wal", "-shm"]) rmSync(`${path}${end}`);
  const fresh = await opened(path);
  await fresh.queue("q").add({ n: 2 });
  expect((await fresh.queue("q").stats()).depth.ready).toBe(1);
  await expect(old.queue("q").add(3)).rejects.toMatchObject({ code: "UNAVAILABLE" });
});

test("a store that cannot be opened does not affect the one on the same thread", async () => {
  const path = join(tempFolder(), "work.db");
  const dibs = await opened(path);
  linkSync(path, `${path}-link`);
  await expect(open(path, { logger })).rejects.toThrow("has 2 names");
  await dibs.queue("q").add(1);
  expect((await dibs.queue("q").stats()).depth.ready).toBe(1);
});
