import { Command } from "commander";
import { kindOf } from "../../core/process/address.ts";
import { invalid } from "../../core/errors/errors.ts";
import { inherited } from "../../programs/facts.ts";
import { findProgram } from "../../programs/find-program.ts";
import { Programs } from "../../programs/programs.ts";
import { resolveWork } from "../../worker/options.ts";
import type { Task } from "../../worker/task.ts";
import type { Worker } from "../../worker/worker.ts";
import { EXIT } from "../exit.ts";
import { count } from "../human.ts";
import { aborted, onInterrupt } from "../interrupt.ts";
import { say } from "../output.ts";
import { addressOf, mentionMissingQueue, openToWork, type StoreFlags, withStore } from "../store.ts";
import { choiceOption, duration, numberBetween } from "../values.ts";
import { ProgramReport } from "../program-report.ts";

/** `dibs work`: any program becomes a worker. docs/guides/programs.md describes what a program gets and answers. */

interface Flags extends StoreFlags {
  concurrency: number;
  prefetch?: number;
  once?: boolean;
  wait?: number;
  name?: string;
  order?: "strict" | "fair";
  stopTimeout: number;
  killAfter: number;
  showOutput?: boolean;
}

export function workCommand(): Command {
  const command = new Command("work")
    .usage("[options] <queue...> -- <command> [argument...]")
    .argument("<queue...>", "the queues, and after -- the program that handles their tasks")
    .option("--concurrency <number>", "programs that run at once", numberBetween(1, 10_000), 1)
    .option("--prefetch <number>", "tasks to claim ahead of the programs that run", numberBetween(0, 10_000))
    .option("--once", "handle one task, and end: exit code 0 if it succeeded")
    .option("--wait <duration>", "with --once: end if no task comes in this time", duration)
    .option("--name <name>", "a label for people, in the ledger and in lists")
    .addOption(choiceOption("--order <order>", "with several queues: strict or fair", ["strict", "fair"]))
    .option("--stop-timeout <duration>", "after Ctrl-C, programs have this long to finish", duration, 30_000)
    .option("--kill-after <duration>", "between TERM and KILL for a program that must end", duration, 3_000)
    .option("--show-output", "print what programs write to standard error");
  return withStore(command).action(run);
}

async function run(words: string[], flags: Flags): Promise<void> {
  const { queues, command } = split(words);
  checkFlags(flags);
  const file = findProgram(command[0]!);
  const address = addressOf(flags.url);
  const interrupt = onInterrupt();
  await using dibs = await openToWork(flags, { isDrone: flags.once === true });
  for (const queue of queues) await mentionMissingQueue(dibs, queue);
  const report = new ProgramReport(flags);
  const programs = new Programs({
    command: [file, ...command.slice(1)],
    env: inherited(process.env, kindOf(address) === "postgres"),
    findQueue: (name) => dibs.queue(name),
    killAfter: flags.killAfter,
    concurrency: flags.once ? null : flags.concurrency,
    onEnded: (task, ended) => report.ended(task, ended),
    onError: flags.showOutput ? (task, chunk) => report.wrote(task, chunk) : undefined,
    onNotStarted: (error) => {
      say(`dibs: ${file} could not be started: ${error.message}. The task was released.`);
      process.exitCode = EXIT.failed;
      void worker.stop();
    },
  });
  const { once, name, order, concurrency, prefetch } = flags;
  const refused = (task: Task, error: unknown): void => report.refused(task, error);
  const on = { done: (task: Task) => report.stored(task), failed: refused, dead: refused };
  const options = { name, order, on, ...(once ? { limit: 1 } : { concurrency, prefetch }) };
  const handles = [...new Set(queues)].map((queue) => dibs.queue(queue));
  const handler = (task: Task): unknown => programs.handle(task, worker.id);
  // The report says more about a failure than the worker's log.
  const worker: Worker = dibs.startWorker(handles, handler as never, {
    ...resolveWork(options),
    isLogging: false,
  });
  interrupt.endNow = (exitCode) => {
    process.exitCode = exitCode;
    // The claims are released after the programs are gone: no task runs twice at a time.
    void programs.kill().then(() => worker.stop({ timeout: 0 }));
  };
  const drainIfInterrupted = async (): Promise<void> => {
    await aborted(interrupt.signal);
    report.isInterrupted = true;
    const running = count(programs.active, "program");
    if (programs.active > 0) say(`dibs: waiting for ${running} to finish. Press Ctrl-C again to end now.`);
    await worker.stop({ timeout: flags.stopTimeout });
  };
  void drainIfInterrupted();
  const { wait } = flags;
  const giveUp = (): (() => void) => (wait === undefined ? () => {} : giveUpAfter(wait, worker, report));
  let stopWaiting = giveUp();
  try {
    await worker.ready;
    // Only now may a task come. To give up in the middle of its first claim would release a task that never started.
    stopWaiting();
    stopWaiting = giveUp();
    await worker.stopped;
  } finally {
    stopWaiting();
    await worker.stop();
    await programs.close();
  }
  report.end(flags);
}

/** What follows `--` is the program. Commander drops the mark, so it is looked up in the words as they were given. */
function split(words: string[]): { queues: string[]; command: string[] } {
  const at = process.argv.indexOf("--");
  const command = at < 0 ? [] : process.argv.slice(at + 1);
  if (command.length === 0)
    throw invalid("The program is missing. Name it after --, as in: dibs work emails -- ./send-mail.sh");
  const queues = words.slice(0, words.length - command.length);
  if (queues.length === 0) throw invalid("Name at least one queue before --, as in: dibs work emails -- cat");
  return { queues, command };
}

function checkFlags({ once = false, wait }: Flags): void {
  if (wait !== undefined && !once)
    throw invalid("--wait needs --once: other workers wait for as long as they run.");
}

/** With --wait: no task came in time. */
function giveUpAfter(ms: number, worker: Worker, report: ProgramReport): () => void {
  const timer = setTimeout(() => {
    if (worker.active > 0) return;
    report.isEmpty = true;
    void worker.stop();
  }, ms);
  return () => clearTimeout(timer);
}
