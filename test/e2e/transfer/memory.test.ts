import { join } from "node:path";
import { expect, test } from "vitest";
import { EXIT } from "../../../src/cli/exit.ts";
import { ended, fill, makeFolder, start } from "./dibs.ts";
import { isLong } from "../../run/long.ts";

// A million tasks take minutes: only with `npm run test:long`, or with the number in DIBS_TASKS.
const tasks = Number(process.env["DIBS_TASKS"] ?? 1_000_000);
// Above the memory of an idle process, which is 100 MB from sources and 60 MB as a package. So the total is below 200
// MB.
const MOST = 125 * 1024 * 1024;

test.runIf(isLong || process.env["DIBS_TASKS"])(
  `export, import and move of ${tasks} tasks take less than 125 MB of memory`,
  { timeout: 120_000 + tasks },
  async () => {
    const folder = makeFolder();
    const [file, lines, copy, moved] = ["a.db", "a.jsonl", "b.db", "c.db"].map((name) =>
      join(folder, name),
    ) as [string, string, string, string];
    await fill(file, tasks);
    const idle = await ended(start(folder, "--version"));
    const peaks = {
      export: await ended(start(folder, "export", file), { into: lines }),
      import: await ended(start(folder, "import", copy), { from: lines }),
      move: await ended(start(folder, "move", copy, moved)),
    };
    for (const [verb, { code, peak }] of Object.entries(peaks)) {
      console.log(verb, Math.round(peak / 1024 / 1024), "MB");
      expect({ verb, code }).toEqual({ verb, code: EXIT.done });
      expect(peak - idle.peak).toBeLessThan(MOST);
    }
  },
);
