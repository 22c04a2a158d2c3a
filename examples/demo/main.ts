// npm run demo: processes add and handle tasks on one file. Some are stopped and some crash.
// With --url they use a server, or any other store: npm start -- --demo.
// The figures are real: they come from the store, and at the end every task is looked up.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { type Dibs, open, type Queue } from "../../src/index.ts";
import { type Audit, audit } from "./audit.ts";
import { bold, green, number, red } from "./paint.ts";
import { type Done, type Job, jobs } from "./queue.ts";
import { show } from "./screen.ts";
import { play, USUAL_SECONDS } from "./script.ts";
import { Story } from "./story.ts";
import { Supervisor } from "./supervisor.ts";

const LOOK_MS = 200;
/** The last tasks may wait for a lease to end and for a retry. */
const LEFTOVERS_MS = 15_000;

process.exitCode = await main();

async function main(): Promise<number> {
  const options = readOptions();
  if (options === undefined) {
    console.error("Usage: npm run demo [-- --seconds N --url STORE], N from 5 to 3600");
    return 2;
  }
  const { seconds, url } = options;
  const interrupt = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => interrupt.abort());

  const folder = url === undefined ? mkdtempSync(join(tmpdir(), "dibs-demo-")) : undefined;
  const path = url ?? join(folder!, "work.db");
  try {
    await using dibs = await open(path);
    const story = new Story();
    const found = await run(dibs, path, story, seconds, interrupt.signal);
    report(story, found, path, folder !== undefined);
    return found.lost + found.doubled > 0 ? 1 : interrupt.signal.aborted ? 130 : 0;
  } finally {
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  }
}

async function run(
  dibs: Dibs,
  path: string,
  story: Story,
  seconds: number,
  signal: AbortSignal,
): Promise<Audit> {
  const queue = dibs.queue(jobs);
  const over = new AbortController();
  await queue.ready;
  const supervisor = new Supervisor(
    path,
    (added) => story.hearOf(added),
    (trouble) => story.tell(trouble),
  );
  const following = story.follow(dibs, over.signal);
  const looking = lookAgainAndAgain(story, queue, over.signal);
  const hide = show({ story, supervisor, seconds });
  try {
    await play({ dibs, supervisor, story, signal }, seconds);
    await untilDrained(story, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    await supervisor.close();
    over.abort();
    await Promise.all([following, looking]);
    hide();
  }
  return audit(queue, (id) => dibs.task(id), story.known.keys());
}

async function lookAgainAndAgain(story: Story, queue: Queue<Job, Done>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    await story.look(queue);
    await sleep(LOOK_MS, undefined, { signal }).catch(() => {});
  }
}

async function untilDrained(story: Story, signal: AbortSignal): Promise<void> {
  for (let waited = 0; waited < LEFTOVERS_MS; waited += LOOK_MS) {
    const { ready = 0, waiting = 0, scheduled = 0, claimed = 0 } = story.stats?.depth ?? {};
    if (ready + waiting + scheduled + claimed === 0) return;
    await sleep(LOOK_MS, undefined, { signal });
  }
}

function report(story: Story, found: Audit, path: string, isOwn: boolean): void {
  const place = isOwn ? "on one SQLite file" : `on ${path}`;
  const total = story.known.size;
  const verdict =
    found.lost + found.doubled === 0
      ? green("lost 0, doubled 0")
      : red(`lost ${found.lost}, doubled ${found.doubled}`);
  console.log(`${bold("What you saw")}, in ${Math.round(story.seconds)} s ${place}:
  ${number(total)} jobs added, by one process, for workers that came and went
  ${number(found.done)} done, ${found.dead} dead (riddles that nobody could solve), ${found.pending} still to do
  ${verdict}: each job was looked up just now, with its ledger
  ${found.cutShort} attempts were cut short by a kill; the jobs came back by themselves
  ${found.elsewhere} jobs failed at one worker and were done by another

${bold("To try next")}
  npx node examples/agents.ts    one idea in one small file; more beside it
  npm run demo -- --seconds 120  the same, slower
  npm test                       what is promised, checked
${isOwn ? `\nThe store was ${path}; it is removed now.` : ""}`);
}

function readOptions(): { seconds: number; url: string | undefined } | undefined {
  try {
    const { values } = parseArgs({
      options: { seconds: { type: "string", default: String(USUAL_SECONDS) }, url: { type: "string" } },
    });
    const seconds = Number(values.seconds);
    return seconds >= 5 && seconds <= 3_600 ? { seconds, url: values.url } : undefined;
  } catch {
    return undefined;
  }
}
