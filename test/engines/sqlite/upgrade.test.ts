import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { openDatabase } from "../../../src/engines/sqlite/connection/open.ts";
import { latestVersion, MIGRATIONS } from "../../../src/engines/sqlite/schema/migrations.ts";
import { FIRST_VERSION } from "../../../src/engines/sqlite/schema/schema.ts";
import { now, openEngine, tempPath } from "./kit.ts";

function setVersion(path: string, version: number): void {
  const db = new Database(path);
  db.pragma(`user_version = ${version}`);
  db.close();
}

test.each([1, 11, 100])(
  "a store of schema %i, from before the first release, is refused",
  async (version) => {
    const path = tempPath();
    await (await openEngine({ path })).close();
    setVersion(path, version);
    await expect(openEngine({ path })).rejects.toMatchObject({
      code: "UNSUPPORTED",
      message: expect.stringMatching(
        new RegExp(
          `before its first release \\(schema \\d+; this one reads ${FIRST_VERSION} and later\\).*Export it`,
        ),
      ),
    });
  },
);

test("a store of the previous schema gets the missing step, and keeps its rows", () => {
  const path = tempPath();
  openDatabase({ path, store: 7 }, now()).close();
  const before = latestVersion();
  (MIGRATIONS as string[]).push(`ALTER TABLE queue ADD COLUMN more INTEGER NOT NULL DEFAULT 5`);
  try {
    const db = openDatabase({ path }, now());
    db.exec(`INSERT INTO queue (name, named, paused, created_at) VALUES ('q', '{}', 0, 1)`);
    expect(db.prepare(`SELECT salt, more FROM store, queue`).get()).toEqual({ salt: 7, more: 5 });
    expect(db.pragma("user_version", { simple: true })).toBe(before + 1);
    db.close();
  } finally {
    (MIGRATIONS as string[]).pop();
  }
});
