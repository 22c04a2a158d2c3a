// In which order the tests of a mutant run. Most mutants fail one of the first tests that execute them, so that few
// tests run before all others.

import { dirname } from "node:path";
import type { TestsByFile } from "./reach.ts";
import type { Tests } from "./tests.ts";

/** One run of vitest: the paths of test files, and names where not all tests of these run. */
export interface Stage {
  paths: string[];
  names?: string[];
}

/** The first stage ends at this many tests, files or milliseconds. A run of vitest takes a second a file to start. */
const FIRST = { tests: 60, files: 3, ms: 4_000 };
/** With more names than this, the tests of a file run as a whole, up to the first that fails. */
const MOST_NAMES = 300;

export function stagesOf(
  mutated: string,
  reached: TestsByFile | undefined,
  { recorded, others }: Tests,
): Stage[] {
  const last: Stage[] = others.length > 0 ? [{ paths: others }] : [];
  if (!reached) return [{ paths: recorded }, ...last];
  if (reached.size === 0) return last;
  const first = quickest(mutated, reached);
  const rest = new Map(
    [...reached].map(([file, tests]) => [
      file,
      tests && [...tests.keys()].filter((name) => !first.has(name)),
    ]),
  );
  const left = [...rest].filter(([, names]) => names === null || names.length > 0);
  const names = left.flatMap(([, each]) => each ?? []);
  const asWhole = names.length > MOST_NAMES || left.some(([, each]) => each === null);
  return [
    ...(first.size > 0 ? [{ paths: [...new Set(first.values())], names: [...first.keys()] }] : []),
    ...(left.length > 0 ? [{ paths: left.map(([file]) => file), ...(!asWhole && { names }) }] : []),
    ...last,
  ];
}

/** Names and files of the quickest tests; those of the mutant's own folder come before all others. */
function quickest(mutated: string, reached: TestsByFile): Map<string, string> {
  const ownFolder = `${dirname(mutated).replace(/^src/, "test")}/`;
  const tests = [...reached]
    .flatMap(([file, names]) => [...(names ?? [])].map(([name, ms]) => ({ file, name, ms })))
    .toSorted(
      (a, b) => Number(b.file.startsWith(ownFolder)) - Number(a.file.startsWith(ownFolder)) || a.ms - b.ms,
    );
  const chosen = new Map<string, string>();
  const files = new Set<string>();
  let left = FIRST.ms;
  for (const { file, name, ms } of tests) {
    if (chosen.size === FIRST.tests || ms > left) break;
    if (files.size === FIRST.files && !files.has(file)) continue;
    files.add(file);
    chosen.set(name, file);
    left -= ms;
  }
  return chosen;
}
