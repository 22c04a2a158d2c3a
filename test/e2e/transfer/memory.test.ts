import { join } from "node:path";
import { expect, test } from "vitest";
import { EXIT } from "../../../src/cli/exit.ts";
import { ended, fill, makeFolder, start } from "./dibs.ts";
import { isLong } from "../../run/long.ts";

// A million tasks take minutes: only with `npm run test:long`, or with as many as DIBS_TASKS says.
const tasks = Number(process.env["DIBS_TASKS"] ?? 1_000_000);
// Beyond what the process has that does nothing: run from its sources that is 100 MB, and 60 as a package. So it has less than 200 MB.
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
