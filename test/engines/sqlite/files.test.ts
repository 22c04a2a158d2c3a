import { execFileSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { Op } from "../../../src/engine/engine.ts";
import { Tokens } from "../../../src/server/tokens.ts";
import { ask, call, newTask, now, openEngine, openStore, QUEUE, tempFolder, tempPath } from "./kit.ts";

const LOST = { code: "UNAVAILABLE", retryable: false };
const add: Op<"add"> = { verb: "add", tasks: [newTask()] };

/** Files are checked every few milliseconds: calls go through until then. Resolves with the first refusal. */
async function refusalOf(run: () => unknown): Promise<unknown> {
  for (;;) {
    try {
      await run();
    } catch (error) {
      return error;
    }
  }
}

describe("an open store refuses every call, and says why, once", () => {
  const changes: [string, (path: string) => void, string][] = [
    ["its file was deleted", (path) => rmSync(path), "work.db was deleted"],
    [
      "all its files were deleted",
      (path) => ["", "-wal", "-shm"].forEach((end) => rmSync(path + end)),
      "work.db was deleted",
    ],
    ["its file was moved away", (path) => renameSync(path, `${path}.old`), "work.db was deleted or moved"],
    [
      "its file was replaced by a copy",
      (path) => (copyFileSync(path, `${path}.copy`), renameSync(`${path}.copy`, path)),
      "work.db was replaced",
    ],
    [
      "its folder was moved",
      (path) => renameSync(join(path, ".."), join(path, "../../moved")),
      "was deleted or moved",
    ],
    ["its -wal was deleted", (path) => rmSync(`${path}-wal`), "work.db-wal was deleted"],
    [
      "its -wal was replaced",
      (path) => (rmSync(`${path}-wal`), writeFileSync(`${path}-wal`, "")),
      "work.db-wal was replaced",
    ],
    ["its -shm was deleted", (path) => rmSync(`${path}-shm`), "work.db-shm was deleted"],
  ];

  test.each(changes)("%s", async (_, change, words) => {
    const folder = join(tempFolder(), "folder");
    mkdirSync(folder);
    const path = join(folder, "work.db");
    // Two connections are used instead of two processes: to SQLite they are the same. The engine has a thread for
    // reading, too.
    const engine = await openEngine({ path });
    const other = openStore(path);
    await call(engine, add);
    await call(engine, { verb: "stats", queue: QUEUE });
    ask(other, add);
    change(path);
    const refusal = { ...LOST, message: expect.stringContaining(words) };
    expect(await refusalOf(() => engine.execute([add]))).toMatchObject(refusal);
    await expect(engine.execute([add])).rejects.toMatchObject(refusal);
    await expect(engine.execute([{ verb: "housekeep" }])).rejects.toMatchObject(refusal);
    // These are answered by a thread of their own.
    const look = () => engine.execute([{ verb: "stats", queue: QUEUE }]);
    expect(await refusalOf(look)).toMatchObject(refusal);
    await expect(look()).rejects.toMatchObject(refusal);
    expect(await refusalOf(() => other.execute([add], now()))).toMatchObject(refusal);
    expect(() => other.execute([add], now())).toThrow(expect.objectContaining(refusal));
  });

  test("a new store that another process created in its place is refused", async () => {
    const path = tempPath();
    const engine = await openEngine({ path });
    await call(engine, add);
    for (const end of ["", "-wal", "-shm"]) rmSync(path + end);
    const next = await openEngine({ path });
    expect(await refusalOf(() => engine.execute([add]))).toMatchObject(LOST);
    expect(await call(next, add)).toMatchObject([{ state: "ready" }]);
    expect((await call(next, { verb: "stats", queue: QUEUE })).depth.ready).toBe(1);
  });
});

describe("a store at a symbolic link", () => {
  test("a store opened through a symbolic link is the one at its target", async () => {
    const folder = tempFolder();
    const path = join(folder, "work.db");
    const first = await openEngine({ path });
    await call(first, add);
    symlinkSync(path, join(folder, "link.db"));
    symlinkSync(folder, join(folder, "to-folder"));
    for (const name of ["link.db", "to-folder/work.db", "to-folder/link.db"]) {
      const engine = await openEngine({ path: join(folder, name) });
      expect((await call(engine, { verb: "stats", queue: QUEUE })).depth.ready).toBe(1);
      await engine.close();
    }
    expect(existsSync(join(folder, "link.db-wal"))).toBe(false);
  });

  test("a link to a missing file creates the store at its target, readable by its owner only", async () => {
    const folder = tempFolder();
    mkdirSync(join(folder, "data"));
    symlinkSync("data/real.db", join(folder, "link.db"));
    const engine = await openEngine({ path: join(folder, "link.db") });
    await call(engine, add);
    for (const end of ["", "-wal", "-shm"])
      expect(statSync(join(folder, `data/real.db${end}`)).mode & 0o777).toBe(0o600);
    expect(lstatSync(join(folder, "link.db")).isSymbolicLink()).toBe(true);
  });

  test("a link into a missing folder is refused with a clear message", async () => {
    const folder = tempFolder();
    symlinkSync("missing/real.db", join(folder, "link.db"));
    await expect(openEngine({ path: join(folder, "link.db") })).rejects.toMatchObject({
      ...{ code: "INVALID", message: expect.stringContaining("no folder") },
    });
  });

  test("a link to itself is refused with a clear message", async () => {
    const path = tempPath();
    symlinkSync(path, path);
    await expect(openEngine({ path })).rejects.toMatchObject({
      ...{ code: "INVALID", message: expect.stringContaining("leads to itself") },
    });
  });
});

describe("a store that is not a regular file with one name", () => {
  // A device of its own: code that fails this test would change the mode of the machine's.
  test.runIf(process.getuid?.() === 0)("a device", async () => {
    const path = tempPath();
    execFileSync("mknod", ["-m", "666", path, "c", "1", "3"]);
    await expect(openEngine({ path })).rejects.toMatchObject({
      ...{ code: "INVALID", message: expect.stringContaining("not a regular file") },
    });
    expect(statSync(path).mode & 0o777).toBe(0o666);
  });

  test("a store at a named pipe is refused", async () => {
    const path = tempPath();
    execFileSync("mkfifo", [path]);
    await expect(openEngine({ path })).rejects.toMatchObject({ code: "INVALID" });
  });

  test("a store file with two names is refused", async () => {
    const path = tempPath();
    writeFileSync(path, "");
    linkSync(path, `${path}.other`);
    await expect(openEngine({ path: `${path}.other` })).rejects.toMatchObject({
      ...{ code: "INVALID", message: expect.stringContaining("2 names (hard links)") },
    });
    expect(statSync(path)).toMatchObject({ size: 0 });
  });
});

describe("the tokens of a server", () => {
  test("tokens at a symbolic link are in the file at its target", () => {
    const folder = tempFolder();
    mkdirSync(join(folder, "secret"));
    const link = join(folder, "tokens.json");
    symlinkSync("secret/tokens.json", link);
    new Tokens(link).add("ada", ["admin:*"]);
    expect(lstatSync(link).isSymbolicLink()).toBe(true);
    expect(statSync(join(folder, "secret/tokens.json")).mode & 0o777).toBe(0o600);
    expect(new Tokens(link).list()).toMatchObject([{ name: "ada" }]);
  });

  test("tokens are not read from or written to a device, or written to a file with two names", () => {
    const folder = tempFolder();
    const path = join(folder, "tokens.json");
    execFileSync("mkfifo", [path]);
    expect(() => new Tokens(path).add("ada", ["admin:*"])).toThrow(/not a regular file/);
    // Reading the pipe would block until another process writes to it.
    expect(() => new Tokens(path).list()).toThrow(/not a regular file/);
    expect(lstatSync(path).isFIFO()).toBe(true);
    const linked = join(folder, "linked.json");
    new Tokens(linked).add("ada", ["admin:*"]);
    linkSync(linked, `${linked}.other`);
    const before = readFileSync(linked, "utf8");
    expect(() => new Tokens(linked).revoke("ada")).toThrow(/hard links/);
    expect(readFileSync(linked, "utf8")).toBe(before);
  });
});
