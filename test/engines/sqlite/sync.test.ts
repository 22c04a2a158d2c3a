import * as fs from "node:fs";
import Database from "better-sqlite3";
import { beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import type { Durability } from "../../../src/engines/sqlite/connection/journal.ts";
import { SqliteStore } from "../../../src/engines/sqlite/batch/store.ts";
import { ask, newTask, now, QUEUE, tempPath, worker } from "./kit.ts";

vi.mock("node:fs", async (original) => {
  const actual = await original<typeof fs>();
  return { ...actual, fdatasyncSync: vi.fn(actual.fdatasyncSync), fsyncSync: vi.fn(actual.fsyncSync) };
});
const sync = vi.mocked(fs.fdatasyncSync);
const folderOrLength = vi.mocked(fs.fsyncSync);
beforeEach(() => void sync.mockClear());

function open(path: string, durability: Durability, readonly = false): SqliteStore {
  const store = new SqliteStore({ path, durability, readonly }, now());
  onTestFinished(() => store.close());
  return store;
}

function addTo(store: SqliteStore): string {
  return ask(store, { verb: "add", tasks: [newTask()] })[0]!.id;
}

test("every commit is synced before its answer, and after other processes can see it", () => {
  const path = tempPath();
  const store = open(path, "full");
  const onlooker = new Database(path, { readonly: true });
  onTestFinished(() => void onlooker.close());
  const seen: unknown[] = [];
  sync.mockImplementation(() => void seen.push(onlooker.prepare("SELECT count(*) FROM task").pluck().get()));
  onTestFinished(() => void sync.mockReset());
  addTo(store);
  expect(seen).toEqual([1]);
  ask(store, { verb: "claim", queues: [QUEUE], max: 1, worker: "w" });
  expect(seen).toEqual([1, 1]);
});

test("a batch that changes nothing is not synced", () => {
  const store = open(tempPath(), "full");
  const id = addTo(store);
  ask(store, { verb: "get", id });
  sync.mockClear();
  ask(store, { verb: "get", id });
  ask(store, { verb: "stats", queue: QUEUE });
  ask(store, { verb: "claim", queues: ["empty"], max: 1, worker: "w" });
  ask(store, { verb: "housekeep" });
  expect(sync).not.toHaveBeenCalled();
});

test.each(["writer", "reader"])("commits of other processes are synced once before a %s answers", (role) => {
  const path = tempPath();
  const other = open(path, "relaxed");
  const store = open(path, "full", role === "reader");
  for (let round = 0; round < 2; round++) {
    const id = addTo(other);
    sync.mockClear();
    ask(store, { verb: "get", id });
    expect(sync).toHaveBeenCalledOnce();
    ask(store, { verb: "get", id });
    expect(sync).toHaveBeenCalledOnce();
  }
});

test("events of other processes are synced before they are returned", () => {
  const path = tempPath();
  const other = open(path, "relaxed");
  const store = open(path, "full");
  const listener = { verb: "listen", listener: "me", limit: 10 } as const;
  const { cursor } = ask(store, { ...listener, after: null });
  addTo(other);
  sync.mockClear();
  expect(ask(store, { ...listener, after: cursor }).events.length).toBeGreaterThan(0);
  expect(sync).toHaveBeenCalledOnce();
});

test("a store with relaxed durability syncs nothing", () => {
  const store = open(tempPath(), "relaxed");
  ask(store, { verb: "get", id: addTo(store) });
  expect(sync).not.toHaveBeenCalled();
});

describe("after a sync that failed", () => {
  /** Like the kernel, which reports a failure once: the next sync succeeds whether or not the pages were written. */
  function failOnce(): void {
    sync.mockImplementationOnce(() => {
      throw new Error("EIO: i/o error, fdatasync");
    });
  }

  /** Opens a reader, so that the journal cannot start over. Returns the function that closes it. */
  function readFrom(path: string): () => void {
    const reader = new Database(path, { readonly: true });
    onTestFinished(() => void reader.close());
    reader.exec("BEGIN");
    reader.prepare("SELECT count(*) FROM task").get();
    return () => void reader.exec("COMMIT");
  }

  const journalOf = (path: string): number => fs.statSync(`${path}-wal`).size;
  const mark = (path: string): string => `${path}-doubt`;
  const inDoubt = expect.objectContaining({ code: "UNAVAILABLE", retryable: true });

  test("after a failed sync the journal starts over at once, without an error", () => {
    const path = tempPath();
    const store = open(path, "full");
    addTo(store);
    failOnce();
    const id = addTo(store);
    expect(journalOf(path)).toBe(0);
    expect(fs.existsSync(mark(path))).toBe(false);
    expect(ask(store, { verb: "get", id }).state).toBe("ready");
  });

  test("after a failed sync nothing is written, read or reported before the journal has started over", () => {
    const path = tempPath();
    const store = open(path, "full");
    const id = addTo(store);
    const letGo = readFrom(path);
    failOnce();
    expect(() => addTo(store)).toThrow(
      expect.objectContaining({ code: "OUTCOME_UNKNOWN", message: expect.stringContaining("EIO") }),
    );
    for (const attempt of [
      () => addTo(store),
      () => ask(store, { verb: "get", id }),
      () => ask(store, { verb: "ends", ids: [id] }),
      () => ask(store, { verb: "stats", queue: QUEUE }),
      () => ask(store, { verb: "claim", queues: ["empty"], max: 1, worker: "w" }),
      () => ask(store, { verb: "housekeep" }),
      () => ask(store, { verb: "listen", listener: "me", after: null, limit: 1 }),
    ])
      expect(attempt).toThrow(inDoubt);
    letGo();
    expect(ask(store, { verb: "stats", queue: QUEUE }).depth.ready).toBe(2);
    expect(journalOf(path)).toBe(0);
  });

  test.each(["writer", "reader"])("a %s that opens later knows of the failed sync", (role) => {
    const path = tempPath();
    const store = open(path, "full");
    const letGo = readFrom(path);
    failOnce();
    expect(() => addTo(store)).toThrow(expect.objectContaining({ code: "OUTCOME_UNKNOWN" }));
    expect(fs.statSync(mark(path)).mode & 0o777).toBe(0o600);
    const later = open(path, "full", role === "reader");
    const look = (): number => ask(later, { verb: "stats", queue: QUEUE }).depth.ready;
    expect(look).toThrow(inDoubt);
    letGo();
    expect(look()).toBe(1);
    expect(journalOf(path)).toBe(0);
    expect(fs.existsSync(mark(path))).toBe(false);
  });

  test("a reader that gets the sync error starts the journal over too", () => {
    const path = tempPath();
    const writer = open(path, "relaxed");
    const reader = open(path, "full", true);
    addTo(writer);
    const letGo = readFrom(path);
    const look = (): number => ask(reader, { verb: "stats", queue: QUEUE }).depth.ready;
    failOnce();
    expect(look).toThrow(inDoubt);
    expect(look).toThrow(inDoubt);
    letGo();
    expect(look()).toBe(1);
    expect(journalOf(path)).toBe(0);
  });

  test("a mark is ignored if its journal has started over since", () => {
    const path = tempPath();
    const store = open(path, "full");
    fs.writeFileSync(mark(path), "0123456789abcdef");
    addTo(store);
    const letGo = readFrom(path);
    expect(ask(open(path, "full"), { verb: "stats", queue: QUEUE }).depth.ready).toBe(1);
    letGo();
  });

  test("after a failed sync the journal's new length must be on disk too", () => {
    const path = tempPath();
    const store = open(path, "full");
    addTo(store);
    failOnce();
    folderOrLength.mockImplementationOnce(() => {
      throw new Error("EIO: i/o error, fsync");
    });
    expect(() => addTo(store)).toThrow(expect.objectContaining({ code: "OUTCOME_UNKNOWN" }));
    expect(ask(store, { verb: "stats", queue: QUEUE }).depth.ready).toBe(2);
    expect(fs.existsSync(mark(path))).toBe(false);
  });
});

test("commits on which a refusal depends are synced before the refusal is returned", () => {
  const path = tempPath();
  const other = open(path, "full");
  const store = open(path, "full");
  const { session } = ask(other, { verb: "join", worker: worker("w"), lease: 30_000 });
  ask(other, { verb: "leave", session });
  ask(store, { verb: "claim", queues: ["empty"], max: 1, worker: "w" });
  sync.mockClear();
  expect(() => ask(store, { verb: "claim", queues: ["empty"], max: 1, worker: "w", session })).toThrow(
    expect.objectContaining({ code: "CLAIM_LOST" }),
  );
  expect(sync).toHaveBeenCalledOnce();
});
