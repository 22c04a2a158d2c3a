// Draws what was measured: a plot for docs/, and the table in bench/README.md.
// To run it alone: node bench/draw.ts [RESULTS.json]

import { readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { plot } from "./plot.ts";
import { latest, load, type Results } from "./results.ts";
import { table } from "./table.ts";

const README = join(import.meta.dirname, "README.md");
const PLOT = join(import.meta.dirname, "..", "docs", "benchmarks.svg");
const [BEGIN, END] = ["<!-- figures: drawn from results/ -->", "<!-- end of figures -->"];

export function draw(results: Results): void {
  writeFileSync(PLOT, plot(results));
  const readme = readFileSync(README, "utf8");
  const [before, after] = [readme.split(BEGIN)[0]!, readme.split(END)[1]!];
  writeFileSync(README, `${before}${BEGIN}\n${table(results)}\n${END}${after}`);
  console.log(`${[PLOT, README].map((path) => relative(process.cwd(), path)).join(", ")} are up to date`);
}

if (import.meta.main) {
  const results = process.argv[2] === undefined ? latest() : load(process.argv[2]);
  if (results === undefined) throw new Error("There are no results yet: npm run bench -- --save");
  draw(results);
}
