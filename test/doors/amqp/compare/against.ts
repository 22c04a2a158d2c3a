// Runs the scripts against any server and prints what differs from RabbitMQ's recorded answers:
// AMQP_URL=amqp://127.0.0.1:5672 node test/doors/amqp/compare/against.ts [THEME…] [--only TEXT]

import { parseArgs } from "node:util";
import { isDeepStrictEqual } from "node:util";
import { expectedOf } from "./differences.ts";
import { runScript } from "./run-script.ts";
import { THEMES } from "./scripts/index.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { only: { type: "string", default: "" } },
});
const url = process.env["AMQP_URL"] ?? "amqp://127.0.0.1:5672";
let [same, other] = [0, 0];
for (const [theme, scripts] of Object.entries(THEMES)) {
  if (positionals.length > 0 && !positionals.includes(theme)) continue;
  for (const [name, script] of Object.entries(scripts)) {
    if (!name.includes(values.only)) continue;
    const expected = expectedOf(theme, name);
    const got = await runScript(url, script, expected);
    if (isDeepStrictEqual(got, expected)) same++;
    else {
      other++;
      console.log(`\n## ${name}`);
      const most = Math.max(got.length, expected.length);
      for (let at = 0; at < most; at++) {
        if (got[at] === expected[at]) console.log(`   ${got[at]}`);
        else {
          if (expected[at] !== undefined) console.log(` - ${expected[at]}`);
          if (got[at] !== undefined) console.log(` + ${got[at]}`);
        }
      }
    }
  }
}
console.log(`\n${same} equal, ${other} different`);
