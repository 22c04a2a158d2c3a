// The adapters for `tx` in the guide are the ones that the tests run.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { ground } from "../engines/postgres/kit.ts";
import { LIBRARIES } from "./libraries.ts";

const read = (path: string): string => readFileSync(join(import.meta.dirname, path), "utf8");

/** Without what TypeScript adds, and independent of line breaks. */
function bare(code: string): string {
  return code.replaceAll(/: string|: unknown\[\]| as never\[\]|\s|,(?=\s*\))|;/g, "");
}

test("the guide contains the tested adapters, one for each library", () => {
  const guide = /^```js\n([^]*?)^```$/m.exec(read("../../docs/guides/postgres.md"))![1]!;
  const tested = bare(read("libraries.ts"));
  const lines = guide.split("\n").filter((line) => line !== "");
  const names = lines.flatMap((line) => /^\/\/ ([\w.]+):/.exec(line)?.[1] ?? []);
  expect(["pg", ...names]).toEqual(Object.keys(LIBRARIES));
  const code = lines.filter((line) => !line.startsWith("//"));
  expect(code.length).toBeGreaterThanOrEqual(names.length);
  for (const line of code) expect(tested).toContain(bare(line.replace(/^tx = /, "")));
});

test("a user with the rights that the guide gives can work with a store of another owner", async () => {
  const { url, schema, open, client } = await ground();
  await (await open()).close();
  const [admin, worker] = [await client(), `worker_of_${schema}`];
  const sql = /^```sql\n([^]*?)^```$/m.exec(read("../../docs/guides/postgres.md"))![1]!;
  await admin.query(`CREATE ROLE ${worker} LOGIN PASSWORD 'secret'`);
  onTestFinished(async () => void (await admin.query(`DROP OWNED BY ${worker}; DROP ROLE ${worker}`)));
  await admin.query(
    sql.replaceAll("SCHEMA dibs", `SCHEMA ${schema}`).replaceAll("TO worker", `TO ${worker}`),
  );
  const address = new URL(url);
  address.username = worker;
  address.password = "secret";
  const theirs = await open({}, address.href);
  const working = theirs.queue<number, number>("work").work((task) => task.data + 1);
  const task = await theirs.queue<number, number>("work").add(1);
  expect(await task.result()).toBe(2);
  await working.stop();
});
