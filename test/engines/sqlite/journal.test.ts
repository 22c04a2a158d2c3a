import { statSync } from "node:fs";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { JOURNAL_LIMIT } from "../../../src/engines/sqlite/connection/open.ts";
import { ask, newTask, openStore, tempPath } from "./kit.ts";

const MB = 1_024 * 1_024;

test("the journal shrinks again after a reader has kept it from starting over", () => {
  const path = tempPath();
  const store = openStore(path);
  const reader = new Database(path, { readonly: true });
  onTestFinished(() => void reader.close());
  const size = (): number => statSync(`${path}-wal`).size;
  const write = (): void => {
    const data = Buffer.alloc(256 * 1_024, 120).toString();
    for (let i = 0; i < 5; i++) {
      ask(store, { verb: "add", tasks: Array.from({ length: 64 }, () => newTask({ data })) });
    }
  };

  reader.exec("BEGIN");
  reader.prepare("SELECT count(*) FROM task").get();
  write();
  expect(size()).toBeGreaterThan(JOURNAL_LIMIT);
  reader.exec("COMMIT");
  store.limitJournal();
  expect(size()).toBeLessThan(JOURNAL_LIMIT);
  write();
  expect(size()).toBeLessThan(JOURNAL_LIMIT + 32 * MB);
});
