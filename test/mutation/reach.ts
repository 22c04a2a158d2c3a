// Which tests execute which blocks of the sources. A mutant in a block that five tests execute is run against those five
// only, which takes three seconds instead of a minute, and one that no test executes survives without a run.

import { readFileSync } from "node:fs";
import { parseSync, Visitor } from "vite";
import type { Mutant } from "./mutants.ts";

/** One line of the record: a test has executed these blocks. Without a name: what a file executes outside of its tests. */
export interface Reached {
  file: string;
  name: string | null;
  /** How long the test took. */
  ms: number;
  blocks: string[];
}

interface Block {
  id: string;
  start: number;
  end: number;
}

interface Parsed {
  blocks: Block[];
  /** Ranges and names of what is declared at the top of the file. */
  declared: { name: string; start: number; end: number }[];
}

function parse(file: string, source: string): Parsed {
  const { program } = parseSync(file, source, { lang: "ts" });
  const blocks: Block[] = [];
  new Visitor({
    BlockStatement: ({ start, end }) => void blocks.push({ id: `${file}:${start}`, start, end }),
  }).visit(program);
  const declared = program.body.flatMap((statement) => {
    const declaration = statement.type === "ExportNamedDeclaration" ? statement.declaration : statement;
    if (declaration?.type === "VariableDeclaration")
      return declaration.declarations.flatMap(({ id, start, end }) =>
        id.type === "Identifier" ? { name: id.name, start, end } : [],
      );
    if (declaration?.type !== "ClassDeclaration" && declaration?.type !== "FunctionDeclaration") return [];
    return declaration.id
      ? { name: declaration.id.name, start: declaration.start, end: declaration.end }
      : [];
  });
  return { blocks, declared };
}

/** The source with a mark at the beginning of each block. `record.ts` collects them for each test. */
export function addMarks(file: string, source: string): string {
  let marked = source;
  for (const { id, start } of parse(file, source).blocks.toSorted((a, b) => b.start - a.start))
    marked = `${marked.slice(0, start + 1)} globalThis.dibsReached?.add("${id}");${marked.slice(start + 1)}`;
  return marked;
}

/** The tests that execute a mutant, by file: names with the time they took; `null` instead for all tests of a file. */
export type TestsByFile = Map<string, Map<string, number> | null>;

export class Reach {
  readonly #parsed = new Map<string, Parsed & { source: string }>();
  readonly #testsOf = new Map<string, Reached[]>();

  constructor(root: string, files: string[], record: Reached[]) {
    for (const file of files) {
      const source = readFileSync(`${root}/${file}`, "utf8");
      this.#parsed.set(file, { ...parse(file, source), source });
    }
    for (const test of record)
      for (const block of test.blocks) this.#testsOf.set(block, [...(this.#testsOf.get(block) ?? []), test]);
  }

  /** Undefined where it cannot be told: any test may execute it. */
  testsOf({ file, start, end }: Mutant): TestsByFile | undefined {
    const { blocks, declared } = this.#parsed.get(file)!;
    const around = (each: { start: number; end: number }): boolean => each.start <= start && end <= each.end;
    const innermost = blocks
      .filter(around)
      .reduce<Block | undefined>(
        (found, each) => (found && found.start > each.start ? found : each),
        undefined,
      );
    if (innermost) return this.#collect([innermost.id]);
    // A constant or a function without a block: whatever names it.
    const name = declared.find(around)?.name;
    const users = name === undefined ? [] : this.#blocksThatName(name);
    return users.length > 0 ? this.#collect(users) : undefined;
  }

  #blocksThatName(name: string): string[] {
    const word = new RegExp(String.raw`(?<![\w$])${name.replaceAll("$", String.raw`\$`)}(?![\w$])`);
    return [...this.#parsed.values()].flatMap(({ source, blocks }) =>
      word.test(source)
        ? blocks.filter(({ start, end }) => word.test(source.slice(start, end))).map(({ id }) => id)
        : [],
    );
  }

  #collect(blocks: string[]): TestsByFile {
    const found: TestsByFile = new Map();
    for (const { file, name, ms } of blocks.flatMap((block) => this.#testsOf.get(block) ?? [])) {
      const names = found.get(file);
      if (name === null || names === null) found.set(file, null);
      else found.set(file, (names ?? new Map<string, number>()).set(name, ms));
    }
    return found;
  }
}
