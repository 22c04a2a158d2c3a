// Records RabbitMQ's answers: node test/doors/amqp/compare/record.ts [THEME…]      (Debian: rabbitmq-server)

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { serveRabbit } from "../../../../bench/peers/rabbitmq-server.ts";
import { recordingOf } from "./recordings.ts";
import { runScript } from "./run-script.ts";
import { THEMES } from "./scripts/index.ts";

const asked = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), "dibs-record-"));
const rabbit = await serveRabbit(folder);
try {
  for (const [theme, scripts] of Object.entries(THEMES)) {
    if (asked.length > 0 && !asked.includes(theme)) continue;
    const record: Record<string, string[]> = {};
    for (const [name, script] of Object.entries(scripts))
      record[name] = await runScript(rabbit.address, script);
    writeFileSync(recordingOf(theme), `${JSON.stringify(record, null, 2)}\n`);
    console.log(`${theme}: ${Object.keys(record).length} scripts`);
  }
} finally {
  await rabbit.stop();
  rmSync(folder, { recursive: true, force: true });
}
