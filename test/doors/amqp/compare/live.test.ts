// The recorded answers are those of a real RabbitMQ: where one is installed, it is asked again.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { missingRabbit, serveRabbit } from "../../../../bench/peers/rabbitmq-server.ts";
import { readRecording } from "./recordings.ts";
import { runScript } from "./run-script.ts";
import { THEMES } from "./scripts/index.ts";

const missing = missingRabbit();
const reason = missing === undefined ? "" : ` (skipped: ${missing})`;

describe.skipIf(missing)(`RabbitMQ answers as recorded${reason}`, () => {
  const folder = mkdtempSync(join(tmpdir(), "dibs-rabbit-"));
  let rabbit: Awaited<ReturnType<typeof serveRabbit>>;
  beforeAll(async () => {
    rabbit = await serveRabbit(folder);
  });
  afterAll(async () => {
    await rabbit.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  describe.concurrent.each(Object.keys(THEMES))("%s", (theme) => {
    const recorded = readRecording(theme);
    for (const [name, script] of Object.entries(THEMES[theme]!))
      test(name, async ({ expect }) => {
        expect(await runScript(rabbit.address, script, recorded[name])).toEqual(recorded[name]);
      });
  });

  test("every script is recorded, and nothing else", () => {
    for (const [theme, scripts] of Object.entries(THEMES))
      expect(Object.keys(readRecording(theme))).toEqual(Object.keys(scripts));
  });
});
