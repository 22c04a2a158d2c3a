// Moves the tasks of one store to another: npm run move -- FROM TO. May be stopped, killed and run again.

import { parseArgs, type ParseArgsOptionsConfig } from "node:util";
import { EXIT, exitCodeOf } from "../src/cli/exit.ts";
import { isDibsError } from "../src/core/errors.ts";
import { move, type Moved, type MoveWait, type OpenOptions } from "../src/index.ts";

const USAGE = `Usage: npm run move -- FROM TO [flags]

Moves all tasks of the store FROM, which must be there, to the store TO, which is made if it is not. Each is an address
as open() takes it: work.db, postgres://user@host/database, http://host:7411. docs/guides/move.md says the rest.

  --queue NAME         only this queue; may be given several times
  --follow             go on when nothing is left, and move what is still added, until Ctrl-C
  --from-schema NAME   where the tables of FROM are in PostgreSQL; dibs unless set
  --to-schema NAME     the same of TO
  --from-pooler        FROM is behind a transaction pooler such as PgBouncer
  --to-pooler          the same of TO
  --help               this

Exit codes: 0 nothing is left, 1 something is left or it failed, 2 it was called wrongly, 3 a store cannot be reached,
4 a server forbids it. After 1 and 3 it can be run again.
`;

const FLAGS = {
  queue: { type: "string", multiple: true },
  follow: { type: "boolean", default: false },
  "from-schema": { type: "string" },
  "to-schema": { type: "string" },
  "from-pooler": { type: "boolean", default: false },
  "to-pooler": { type: "boolean", default: false },
  help: { type: "boolean", short: "h", default: false },
} as const satisfies ParseArgsOptionsConfig;

// npm runs a script in the project's folder: a file is meant as it is seen from where it was called.
const { npm_lifecycle_event: script, INIT_CWD: calledIn } = process.env;
if (script === "move" && calledIn) process.chdir(calledIn);

async function main(): Promise<number> {
  const { positionals, values } = parseArgs({ allowPositionals: true, options: FLAGS });
  if (values.help) {
    process.stdout.write(USAGE);
    return EXIT.done;
  }
  const [from, to, ...rest] = positionals;
  if (from === undefined || to === undefined || rest.length > 0) {
    process.stderr.write(USAGE);
    return EXIT.usage;
  }
  const moved = await move(from, to, {
    queues: values.queue,
    follow: values.follow,
    from: howToOpen(values["from-schema"], values["from-pooler"]),
    to: howToOpen(values["to-schema"], values["to-pooler"]),
    signal: hearSignal(),
    onProgress: ({ queue, moved: count }) => sayOnce(`${queue}: ${count} moved`),
    onWait: (wait) => sayOnce(describeWait(wait)),
  });
  sayResult(moved);
  return moved.left === 0 ? EXIT.done : EXIT.failed;
}

function howToOpen(schema: string | undefined, pooler: boolean): OpenOptions {
  return { ...(schema !== undefined && { schema }), ...(pooler && { listen: false }) };
}

/** The first one stops it after the batch under way, the next one at once: nothing is lost by that either. */
function hearSignal(): AbortSignal {
  const stop = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const)
    process.once(signal, () => {
      say("stopping after the batch under way; it can be run again");
      stop.abort();
    });
  return stop.signal;
}

function describeWait({ running, error }: MoveWait): string {
  return error
    ? `a store does not answer, and is tried again: ${error.message}`
    : `waiting for ${running} that run`;
}

function sayResult({ moved, left, queues, schedules }: Moved): void {
  say(`${moved} tasks moved, ${left} left${left === 0 ? "" : ": run it again to move them"}`);
  for (const { name } of queues.filter((queue) => queue.paused))
    say(`${name} is paused there: resume it when its workers are ready`);
  if (schedules.length > 0)
    say(
      `these schedules stay behind and fire there: ${schedules.join(", ")}. Delete them, and define them in the new store`,
    );
}

let last = "";

/** The same again is no news. */
function sayOnce(line: string): void {
  if (line !== last) say(line);
}

function say(line: string): void {
  last = line;
  process.stdout.write(`${line}\n`);
}

// Whoever reads this may leave, as `head` does: what it was told to do is done all the same.
process.stdout.on("error", () => {});
try {
  process.exitCode = await main();
} catch (error) {
  const isCall = (error as { code?: string }).code?.startsWith("ERR_PARSE_ARGS");
  if (!isCall && !isDibsError(error)) throw error;
  process.stderr.write(`${(error as Error).message}\n${isCall ? `\n${USAGE}` : ""}`);
  process.exitCode = isCall ? EXIT.usage : exitCodeOf(error);
}
