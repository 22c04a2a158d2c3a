// Changes the sources in small ways, one at a time, and says which changes no test notices.
// A hundred changes, drawn by a seed:      npm run mutate -- --seed 7
// More, or of some files only:             npm run mutate -- --count 500 --only src/broker
// What would be changed:                   npm run mutate -- --list
//
// Each change (a mutant) is made in a copy of the tree. First all tests run once, on sources that record which test
// executes which block. Of the tests that execute a mutant, the quickest run first (stages.ts). A survivor is either a
// missing test, or code that does nothing, or a change that only costs time: all of them are worth a look.

import { createHash } from "node:crypto";
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { Random } from "../simulation/random.ts";
import { Copy, type Verdict } from "./copy.ts";
import { findMutants, type Mutant } from "./mutants.ts";
import { Reach, type Reached } from "./reach.ts";
import { FOLDERS, testsFor } from "./tests.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    count: { type: "string", default: "100" },
    /** A file or a folder; `src/broker/gather.ts:80` for a line. */
    only: { type: "string", default: "src" },
    /** Copies of the tree in which mutants run side by side. */
    workers: { type: "string", default: "2" },
    /** Seconds after which the tests of a mutant count as hung. */
    limit: { type: "string", default: "300" },
    list: { type: "boolean", default: false },
  },
});

const files = FOLDERS.flatMap((folder) => globSync(`${folder}/**/*.ts`)).toSorted();
const sources = new Map(files.map((file) => [file, readFileSync(file, "utf8")]));
const mutants = draw(files.flatMap((file) => findMutants(file, sources.get(file)!)).filter(isWanted));
if (values.list) for (const mutant of mutants) console.log(show(mutant));
else await run();

function isWanted({ file, line }: Mutant): boolean {
  const [path = "", number] = values.only.split(":");
  return file.startsWith(path) && (number === undefined || Number(number) === line);
}

function draw(all: Mutant[]): Mutant[] {
  const { between } = new Random(Number(values.seed));
  const count = Math.min(Number(values.count), all.length);
  return Array.from({ length: count }, () => all.splice(between(0, all.length - 1), 1)[0]!);
}

async function run(): Promise<void> {
  const copies = Array.from({ length: Number(values.workers) }, () => new Copy(process.cwd()));
  process.on("exit", () => copies.forEach((copy) => copy.remove()));
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => process.exit(1));
  const reach = await record(copies[0]!);
  const verdicts = new Map<Mutant, Verdict>();
  const queue = mutants.values();
  await Promise.all(
    copies.map(async (copy) => {
      for (const mutant of queue) {
        const verdict = await judge(copy, mutant, reach);
        verdicts.set(mutant, verdict);
        const seconds = verdict.seconds.toFixed(0).padStart(4);
        console.log(
          `${verdict.fate.padEnd(8)} ${seconds} s  ${mutant.file}:${mutant.line}  ${mutant.kind}  ${verdict.by}`,
        );
        if (verdict.fate === "survived") console.log(show(mutant));
      }
    }),
  );
  report(verdicts);
}

/** All tests of the folders that are mutated, on marked sources. They have to pass. Kept until a source or test changes. */
async function record(copy: Copy): Promise<Reach> {
  const folders = FOLDERS.filter((folder) => mutants.some(({ file }) => file.startsWith(folder)));
  const kept = join("node_modules/.cache/dibs-mutation", `${hashOf(folders)}.json`);
  if (existsSync(kept))
    return new Reach(process.cwd(), files, JSON.parse(readFileSync(kept, "utf8")) as Reached[]);
  const began = performance.now();
  const reached = await copy.record(
    folders.flatMap((folder) => testsFor(folder).recorded),
    sources,
  );
  const seconds = ((performance.now() - began) / 1_000).toFixed(0);
  console.log(
    `Recorded in ${seconds} s what ${reached.length} tests execute. ${mutants.length} mutants follow.`,
  );
  mkdirSync(dirname(kept), { recursive: true });
  writeFileSync(kept, JSON.stringify(reached));
  return new Reach(process.cwd(), files, reached);
}

function hashOf(folders: string[]): string {
  const hash = createHash("sha256").update(folders.join());
  for (const file of globSync("{src,test}/**/*.ts").toSorted()) hash.update(file).update(readFileSync(file));
  return hash.digest("hex").slice(0, 16);
}

async function judge(copy: Copy, mutant: Mutant, reach: Reach): Promise<Verdict> {
  const source = sources.get(mutant.file)!;
  copy.write(mutant.file, source.slice(0, mutant.start) + mutant.replacement + source.slice(mutant.end));
  try {
    return await copy.test(
      mutant.file,
      reach.testsOf(mutant),
      testsFor(mutant.file),
      Number(values.limit) * 1_000,
    );
  } finally {
    copy.write(mutant.file, source);
  }
}

/** As a diff of the lines that it changes. */
function show({ file, line, kind, start, end, replacement }: Mutant): string {
  const source = sources.get(file)!;
  const from = source.lastIndexOf("\n", start - 1) + 1;
  const to = source.indexOf("\n", end);
  const before = source.slice(from, to);
  const after = source.slice(from, start) + replacement + source.slice(end, to);
  const mark = (sign: string, text: string): string => text.replaceAll(/^/gm, sign);
  return `--- ${file}:${line} (${kind})\n${mark("-", before)}\n${mark("+", after)}\n`;
}

function report(verdicts: Map<Mutant, Verdict>): void {
  const rows: Record<string, Record<Verdict["fate"] | "mutants", number>> = {};
  for (const [{ file, kind }, { fate }] of verdicts) {
    const folder = FOLDERS.find((each) => file.startsWith(each))!;
    for (const name of [folder, kind, "all"]) {
      const row = (rows[name] ??= { mutants: 0, caught: 0, hung: 0, types: 0, survived: 0 });
      row.mutants++;
      row[fate]++;
    }
  }
  console.table(rows);
}
