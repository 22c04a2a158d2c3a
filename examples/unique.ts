// A search index is rebuilt once, a moment after the last of many changes, and with the latest data.

import assert from "node:assert/strict";
import { open } from "../src/index.ts";

await using dibs = await open(process.argv[2] ?? ":memory:");
const rebuilds = dibs.queue<{ version: number }, number>("rebuilds");

const changes = [];
for (let version = 1; version <= 20; version++) {
  changes.push(
    await rebuilds.add(
      { version },
      { delay: "100ms", unique: { key: "index", while: "waiting", on: "debounce" } },
    ),
  );
}
assert.equal(new Set(changes.map(({ id }) => id)).size, 1);
assert.equal(changes.filter(({ existing }) => !existing).length, 1);

let built = 0;
rebuilds.work(async (task) => {
  built++;
  return task.data.version;
});
assert.equal(await changes[0]!.result({ timeout: "30s" }), 20);
console.log(`20 changes, ${built} rebuild`);

// It is over: the next change is a new task.
const next = await rebuilds.add({ version: 21 }, { unique: { key: "index", while: "waiting" } });
assert.equal(next.existing, false);
