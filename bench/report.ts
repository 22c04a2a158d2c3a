import { median } from "./measure.ts";
import type { FigureResult, Results } from "./results.ts";
import { ahead, show, spread, titleOf } from "./words.ts";

/** Every figure with its spread, and for each peer how many times better dibs is. */
export function report(results: Results): string {
  const lines: string[] = [];
  for (const { name, base, about, rounds, figures } of results.scenarios) {
    lines.push("", `${titleOf(name, base)}: ${about}`, `  median of ${rounds} (least … most)`);
    for (const figure of figures) lines.push(...describe(figure, base));
  }
  lines.push("", `Node ${results.node}, ${results.cores} cores. What an acknowledged task survives:`);
  for (const { name, durability } of results.contenders) lines.push(`  ${name}: ${durability}`);
  return lines.join("\n");
}

function describe(figure: FigureResult, base: string): string[] {
  return figure.contenders.map((contender, i) => {
    const label = i === 0 ? figure.name : "";
    const ratio =
      i > 0 && figure.contenders[0]!.name === base
        ? `  ${base}: × ${ahead(figure, contender).toFixed(2)}`
        : "";
    return `  ${label.padEnd(38)} ${contender.name.padEnd(30)} ${show(median(contender.values)).padStart(9)} ${figure.unit}  (${spread(contender)})${ratio}`;
  });
}
