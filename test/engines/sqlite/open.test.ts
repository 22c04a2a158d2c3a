import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import Database from "better-sqlite3";
import { describe, expect, onTestFinished, test } from "vitest";
import { openDatabase } from "../../../src/engines/sqlite/connection/open.ts";
import { call, codeOf, newTask, now, openEngine, QUEUE, tempFolder, tempPath } from "./kit.ts";

async function refusal(path: string): Promise<{ code: string; message: string; retryable: boolean }> {
  try {
    await openEngine({ path });
  } catch (error) {
    return error as { code: string; message: string; retryable: boolean };
  }
  throw new Error(`${path} was opened`);
}

describe("opening a file", () => {
  test("opening refuses an SQLite file of another program, and does not change it", async () => {
    const path = tempPath();
    new Database(path).exec("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)").close();
    const before = readFileSync(path);
    expect(await refusal(path)).toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("another program"),
    });
    expect(readFileSync(path)).toEqual(before);
    expect(existsSync(`${path}-wal`)).toBe(false);
  });

  test("opening refuses a missing store, with create: false", async () => {
    const there = tempPath();
    openDatabase({ path: there }, now()).close();
    await openEngine({ path: there, create: false });
    const [missing, empty] = [tempPath(), tempPath()];
    writeFileSync(empty, "");
    for (const path of [missing, empty]) {
      await expect(openEngine({ path, create: false })).rejects.toMatchObject({
        ...{ code: "INVALID", message: expect.stringContaining(`no store ${path}`) },
      });
    }
    expect(existsSync(missing)).toBe(false);
    expect(statSync(empty).size).toBe(0);
    // A file with a header, and nothing in it.
    const other = tempPath();
    new Database(other).exec("CREATE TABLE t (x); DROP TABLE t").close();
    await expect(openEngine({ path: other, create: false })).rejects.toMatchObject({ code: "INVALID" });
  });

  test("opening refuses a file that is no database, and does not change it", async () => {
    const path = tempPath();
    const text = "dear diary\n".repeat(1_000);
    writeFileSync(path, text);
    expect(await refusal(path)).toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("not an SQLite database"),
    });
    expect(readFileSync(path, "utf8")).toBe(text);
  });

  test("opening refuses a store of a newer version", async () => {
    const path = tempPath();
    openDatabase({ path }, now()).close();
    const db = new Database(path);
    db.pragma("user_version = 9999");
    db.close();
    expect(await refusal(path)).toMatchObject({
      code: "UNSUPPORTED",
      message: expect.stringMatching(/newer dibs.*Update dibs/s),
    });
  });

  test("opening refuses a damaged store", async () => {
    const path = tempPath();
    openDatabase({ path }, now()).close();
    const bytes = readFileSync(path);
    bytes.fill(0xff, 100);
    writeFileSync(path, bytes);
    expect(await refusal(path)).toMatchObject({
      code: "UNAVAILABLE",
      retryable: false,
      message: expect.stringContaining("damaged"),
    });
  });

  test("opening refuses a folder", async () => {
    const path = join(tempFolder(), "folder");
    mkdirSync(path);
    expect(await refusal(path)).toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("is a folder"),
    });
  });

  test("opening refuses a file in a folder that does not exist", async () => {
    const path = join(tempFolder(), "missing", "work.db");
    expect(await refusal(path)).toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("no folder"),
    });
  });

  test("opening refuses a file that may not be written", async () => {
    const folder = tempFolder();
    chmodSync(folder, 0o500);
    // Root may write anywhere but here.
    const path = process.getuid?.() === 0 ? "/sys/work.db" : join(folder, "work.db");
    expect(await refusal(path)).toMatchObject({
      code: "INVALID",
      message: expect.stringContaining("may not write"),
    });
  });

  test("opening refuses a store that another program keeps locked", async () => {
    const path = tempPath();
    openDatabase({ path }, now()).close();
    const other = new Database(path);
    onTestFinished(() => void other.close());
    other.pragma("locking_mode = EXCLUSIVE");
    other.exec("BEGIN EXCLUSIVE");
    expect(await refusal(path)).toMatchObject({
      code: "UNAVAILABLE",
      retryable: true,
      message: expect.stringContaining("locked"),
    });
  });
});

test("only the owner of a store may read its files", async () => {
  const path = tempPath();
  const engine = await openEngine({ path });
  await call(engine, { verb: "add", tasks: [newTask()] });
  for (const file of [path, `${path}-wal`, `${path}-shm`]) expect(statSync(file).mode & 0o777).toBe(0o600);
});

test("the file is in WAL mode, with checkpoints that are synced and a journal that is bounded", () => {
  const db = openDatabase({ path: tempPath() }, now());
  onTestFinished(() => void db.close());
  expect(db.pragma("synchronous", { simple: true })).toBe(1);
  expect(db.pragma("journal_mode", { simple: true })).toBe("wal");
  expect(db.pragma("wal_autocheckpoint", { simple: true })).toBe(4_000);
  expect(db.pragma("journal_size_limit", { simple: true })).toBe(64 * 1024 * 1024);
});

test("added tasks are there when the store is opened again", async () => {
  const path = tempPath();
  const first = await openEngine({ path });
  const [added] = await call(first, { verb: "add", tasks: [newTask({ data: "kept" })] });
  await first.close();
  const second = await openEngine({ path });
  expect(await call(second, { verb: "get", id: added!.id })).toMatchObject({ data: "kept", state: "ready" });
});

test("ten processes may open a new file at the same moment", async () => {
  const path = tempPath();
  const program = fileURLToPath(new URL("programs/add-one.ts", import.meta.url));
  const codes = await Promise.all(
    Array.from({ length: 10 }, async () => {
      const child = spawn(process.execPath, [program, path, QUEUE], { stdio: "inherit" });
      const [code] = (await once(child, "exit")) as [number | null];
      return code;
    }),
  );
  expect(codes).toEqual(Array(10).fill(0));
  const engine = await openEngine({ path });
  expect((await call(engine, { verb: "stats", queue: QUEUE })).depth.ready).toBe(10);
});

test("calls after closing are refused", async () => {
  const engine = await openEngine();
  const adding = engine.execute([{ verb: "add", tasks: [newTask()] }]);
  const closing = engine.close();
  expect((await adding)[0]).toMatchObject({ ok: [{ state: "ready" }] });
  await closing;
  expect(await codeOf(() => engine.execute([{ verb: "housekeep" }]))).toBe("CLOSED");
  expect(await codeOf(() => engine.execute([{ verb: "queues", limit: 1_000 }]))).toBe("CLOSED");
  await engine.close();
});
