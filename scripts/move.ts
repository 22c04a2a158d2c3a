// Moves the tasks of one store to another: npm run move -- FROM TO [--queue NAME]… [--follow]
// Each is an address as open() takes it: work.db, postgres://user@host/database. May be stopped, killed and run again.

import { parseArgs } from "node:util";
import { isDibsError } from "../src/core/errors.ts";
import { move } from "../src/index.ts";

const USAGE = `Usage: npm run move -- FROM TO [--queue NAME]… [--follow]

Moves all tasks of the store FROM to the store TO: docs/guides/move.md.
  --queue NAME   only this queue; may be given several times
  --follow       go on when nothing is left, until Ctrl-C
`;

/** As the shell's own tools: 0 all is moved, 1 it failed or something is left, 2 it was called wrongly. */
async function main(): Promise<number> {
  const { positionals, values } = readArguments();
  const [from, to, ...rest] = positionals;
  if (from === undefined || to === undefined || rest.length > 0) {
    process.stderr.write(USAGE);
    return 2;
  }
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());
  const { moved, left, queues } = await move(from, to, {
    queues: values.queue,
    follow: values.follow,
    signal: stop.signal,
    onProgress: ({ queue, moved: count }) => process.stdout.write(`${queue}: ${count} moved\n`),
  });
  process.stdout.write(`${moved} tasks moved, ${left} left\n`);
  for (const { name } of queues.filter((queue) => queue.paused))
    process.stdout.write(`${name} is paused there: resume it when its workers are ready\n`);
  return left === 0 || values.follow ? 0 : 1;
}

function readArguments() {
  return parseArgs({
    allowPositionals: true,
    options: { queue: { type: "string", multiple: true }, follow: { type: "boolean", default: false } },
  });
}

try {
  process.exitCode = await main();
} catch (error) {
  const isCall = (error as { code?: string }).code?.startsWith("ERR_PARSE_ARGS");
  if (!isCall && !isDibsError(error)) throw error;
  process.stderr.write(`${(error as Error).message}\n${isCall ? `\n${USAGE}` : ""}`);
  process.exitCode = isCall ? 2 : 1;
}
