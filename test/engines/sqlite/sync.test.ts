import * as fs from "node:fs";
import Database from "better-sqlite3";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import type { Durability } from "../../../src/engines/sqlite/journal.ts";
import { SqliteStore } from "../../../src/engines/sqlite/store.ts";
import { ask, newTask, now, QUEUE, tempPath } from "./kit.ts";

vi.mock("node:fs", async (original) => {
  const actual = await original<typeof fs>();
  return { ...actual, fdatasyncSync: vi.fn(actual.fdatasyncSync) };
});
const sync = vi.mocked(fs.fdatasyncSync);
beforeEach(() => void sync.mockClear());

function open(path: string, durability: Durability, readonly = false): SqliteStore {
  const store = new SqliteStore({ path, durability, readonly }, now());
  onTestFinished(() => store.close());
  return store;
}

function addTo(store: SqliteStore): string {
  return ask(store, { verb: "add", tasks: [newTask()] })[0]!.id;
}

test("every commit is synced before it is answered, and after others can see it", () => {
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

test("what changes nothing is not synced", () => {
  const store = open(tempPath(), "full");
  const id = addTo(store);
  ask(store, { verb: "get", id });
  sync.mockClear();
  ask(store, { verb: "get", id });
  ask(store, { verb: "stats", queue: QUEUE });
  ask(store, { verb: "claim", queues: ["empty"], max: 1, worker: "w" });
  ask(store, { verb: "tend" });
  expect(sync).not.toHaveBeenCalled();
});

test.each(["writer", "reader"])("what others committed is synced before a %s tells of it, once", (role) => {
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

test("events of others are synced before they are told", () => {
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

test("relaxed syncs nothing", () => {
  const store = open(tempPath(), "relaxed");
  ask(store, { verb: "get", id: addTo(store) });
  expect(sync).not.toHaveBeenCalled();
});

test("after a sync that failed nothing is acknowledged until the journal has started over", () => {
  const path = tempPath();
  const store = open(path, "full");
  addTo(store);
  sync.mockImplementationOnce(() => {
    throw new Error("EIO: i/o error, fdatasync");
  });
  expect(() => addTo(store)).toThrow(
    expect.objectContaining({ code: "OUTCOME_UNKNOWN", message: expect.stringContaining("EIO") }),
  );
  // It cannot start over while somebody reads from it.
  const reader = new Database(path, { readonly: true });
  onTestFinished(() => void reader.close());
  reader.exec("BEGIN");
  reader.prepare("SELECT count(*) FROM task").get();
  expect(() => addTo(store)).toThrow(expect.objectContaining({ code: "UNAVAILABLE", retryable: true }));
  reader.exec("COMMIT");
  const id = addTo(store);
  expect(ask(store, { verb: "get", id }).state).toBe("ready");
  expect(ask(store, { verb: "stats", queue: QUEUE }).depth.ready).toBe(3);
});
