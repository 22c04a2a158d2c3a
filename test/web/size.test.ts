import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { buildWeb } from "../../scripts/build-web.ts";

const MOST_BYTES = 150_000;

test("the whole page is below 150 kB compressed", async () => {
  const folder = await buildWeb();
  const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) =>
    file.endsWith(".gz"),
  );
  const bytes = files.reduce((sum, file) => sum + statSync(join(folder, file)).size, 0);
  expect(files.length).toBeGreaterThan(3);
  expect(bytes).toBeLessThan(MOST_BYTES);
});
