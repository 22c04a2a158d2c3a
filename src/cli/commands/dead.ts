import { Command } from "commander";
import type { Dibs } from "../../api/dibs.ts";
import type { DeadPatternInfo, DeadSelection } from "../../api/dead-letters.ts";
import type { Duration } from "../../core/time/duration.ts";
import { invalid } from "../../core/errors/errors.ts";
import { escapeControls, show } from "../../core/errors/show.ts";
import { confirm, type ConfirmFlags, withConfirmation } from "../confirm.ts";
import { notFound } from "../exit.ts";
import { count, formatAge } from "../human.ts";
import { print, printJson, say, write } from "../output.ts";
import { requireQueue, type StoreFlags, useStore, withStore } from "../store.ts";
import { type Column, printTable } from "../table.ts";
import { DEAD_COLUMNS, printTask } from "../task-lines.ts";
import { numberBetween, withPages } from "../values.ts";

interface SelectionFlags extends StoreFlags {
  id?: string[];
  pattern?: string;
  error?: string;
}

/** `dibs dead`: the dead letters of a queue. */
export function deadCommand(): Command {
  const group = new Command("dead");
  const of = (name: string, about: string): Command =>
    new Command(name).description(about).argument("<queue>", "the queue's name");
  group.addCommand(
    withStore(withPages(withSelection(of("ls", "list them, the earliest death first")))).action(ls),
  );
  group.addCommand(
    withStore(of("show", "show one with its error and its ledger"))
      .argument("[id]", "its id; default: the earliest death")
      .action(showOne),
  );
  group.addCommand(
    withStore(of("patterns", "count the kinds of failure, the most frequent first"))
      .option("--by <what>", "fingerprint, worker or header:NAME", "fingerprint")
      .option("--limit <number>", "at most this many, up to 1000", numberBetween(1, 1_000), 50)
      .action(patterns),
  );
  group.addCommand(
    withStore(withSelection(of("redrive", "put them into the line again, with all their attempts")))
      .option("--rate <max/per>", "this many in a span of time, such as 10/1s; default: all at once")
      .option("--fresh", "without the steps of earlier attempts")
      .option("--dry-run", "print how many, and change nothing")
      .action(redrive),
  );
  group.addCommand(
    withStore(withConfirmation(withSelection(of("discard", "remove them for good"))))
      .option("--all", "all dead letters of the queue")
      .action(discard),
  );
  group.addCommand(
    withStore(
      withSelection(
        of("export", "write them to standard output, each as a line of JSON with its whole payload"),
      ),
    ).action(exportAll),
  );
  return group;
}

function withSelection(command: Command): Command {
  return command
    .option("--id <id...>", "those with these ids")
    .option("--pattern <fingerprint>", "those of a kind of failure, as dibs dead patterns prints it")
    .option("--error <text>", "those whose error contains this text");
}

function selectionOf({ id, pattern, error }: SelectionFlags): DeadSelection {
  return {
    ...(id !== undefined && { ids: id }),
    ...(pattern !== undefined && { pattern }),
    ...(error !== undefined && { error }),
  };
}

async function ls(queue: string, flags: SelectionFlags & { limit: number; after?: string }): Promise<void> {
  await useStore(flags, async (dibs) => {
    await requireQueue(dibs, queue);
    const { limit, after } = flags;
    const page = { ...selectionOf(flags), limit, after, payloads: "preview" as const };
    const { tasks, next } = await dibs.queue(queue).dead.list(page);
    if (flags.json) return printJson({ tasks, next });
    if (tasks.length === 0) return say(`${queue} has no such dead letters.`);
    printTable(tasks, DEAD_COLUMNS);
    if (next !== null) say(`There are more: --after '${next}'`);
  });
}

async function showOne(queue: string, id: string | undefined, flags: StoreFlags): Promise<void> {
  await useStore(flags, async (dibs) => {
    await requireQueue(dibs, queue);
    const { tasks } = await dibs.queue(queue).dead.list({ ...(id !== undefined && { ids: [id] }), limit: 1 });
    if (tasks[0] === undefined)
      throw notFound(
        id === undefined
          ? `${queue} has no dead letters.`
          : `${queue} has no dead letter ${show(id)}. See dibs dead ls ${queue}.`,
      );
    await printTask(dibs, tasks[0].id, flags.json === true);
  });
}

const PATTERN_COLUMNS: readonly Column<DeadPatternInfo>[] = [
  { head: "COUNT", cell: (row) => row.count },
  { head: "SHARE", cell: ({ share }) => `${(share * 100).toFixed(1)} %` },
  { head: "LAST", cell: ({ lastAt }) => formatAge(lastAt) },
  { head: "FIRST", cell: ({ firstAt }) => formatAge(firstAt) },
  { head: "PATTERN", cell: ({ pattern }) => pattern },
  {
    head: "LATEST ERROR",
    cell: ({ sample: { error } }) => (error ? `${error.name}: ${error.message}` : ""),
    colour: () => "red",
    isCut: true,
  },
];

async function patterns(queue: string, flags: StoreFlags & { by: string; limit: number }): Promise<void> {
  const by = flags.by as "fingerprint";
  await useStore(flags, async (dibs) => {
    await requireQueue(dibs, queue);
    const found = await dibs.queue(queue).dead.patterns({ by, limit: flags.limit });
    if (flags.json) return printJson(found);
    if (found.length === 0) return say(`${queue} has no dead letters.`);
    printTable(found, PATTERN_COLUMNS);
  });
}

async function redrive(
  queue: string,
  flags: SelectionFlags & { rate?: string; fresh?: boolean; dryRun?: boolean },
): Promise<void> {
  const rate = flags.rate === undefined ? {} : { rate: parseRate(flags.rate) };
  const selection = selectionOf(flags);
  const { fresh = false, dryRun = false } = flags;
  await useStore(flags, async (dibs) => {
    await requireQueue(dibs, queue);
    const redriven = dryRun
      ? await countDead(dibs, queue, selection)
      : (await dibs.queue(queue).dead.redrive({ ...selection, ...rate, fresh })).count;
    if (flags.json) printJson({ queue, redriven, ...(dryRun && { dryRun }) });
    else print(`${dryRun ? "would redrive" : "redrove"} ${count(redriven, "task")}`);
  });
}

async function discard(
  queue: string,
  flags: SelectionFlags & ConfirmFlags & { all?: boolean },
): Promise<void> {
  const selection = selectionOf(flags);
  if (Object.keys(selection).length === 0 && !flags.all)
    throw invalid("Say which dead letters to discard: --id, --pattern, --error, or --all.");
  await useStore(flags, async (dibs) => {
    await requireQueue(dibs, queue);
    const found = await countDead(dibs, queue, selection);
    const isReal = await confirm(`Discard ${count(found, "dead letter")} of ${queue} for good`, flags);
    const all = flags.all ? { all: true } : {};
    const discarded = isReal ? (await dibs.queue(queue).dead.discard({ ...selection, ...all })).count : found;
    if (flags.json) printJson({ queue, discarded, ...(!isReal && { dryRun: true }) });
    else if (isReal) print(`discarded ${count(discarded, "task")}`);
  });
}

async function exportAll(queue: string, flags: SelectionFlags): Promise<void> {
  await useStore(flags, async (dibs) => {
    await requireQueue(dibs, queue);
    let after: string | undefined;
    let written = 0;
    do {
      const page = await dibs.queue(queue).dead.list({ ...selectionOf(flags), after, limit: 500 });
      await write(page.tasks.map((task) => `${escapeControls(JSON.stringify(task))}\n`).join(""));
      written += page.tasks.length;
      after = page.next ?? undefined;
    } while (after !== undefined);
    say(`Exported ${count(written, "dead letter")} of ${queue}.`);
  });
}

/** How many a selection means. The store counts only all of a queue, so others are listed. */
async function countDead(dibs: Dibs, queue: string, selection: DeadSelection): Promise<number> {
  if (Object.keys(selection).length === 0) return (await dibs.queue(queue).stats()).depth.dead;
  let found = 0;
  let after: string | undefined;
  do {
    const page = await dibs
      .queue(queue)
      .dead.list({ ...selection, after, limit: 1_000, payloads: "preview" });
    found += page.tasks.length;
    after = page.next ?? undefined;
  } while (after !== undefined);
  return found;
}

function parseRate(text: string): { max: number; per: Duration } {
  const [, max, per] = /^(\d+)\/(.+)$/.exec(text) ?? [];
  if (max === undefined)
    throw invalid(`--rate is a number and a span of time, such as 10/1s; got ${show(text)}.`);
  return { max: Number(max), per: per as Duration };
}
