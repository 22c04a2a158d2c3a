import { CONTENDERS } from "./contenders.ts";
import { median } from "./measure.ts";
import type { FigureResult, Results, ScenarioResult } from "./results.ts";
import { canRun } from "./scenario.ts";
import { SCENARIOS } from "./scenarios/index.ts";
import { ahead, show, spread, titleOf } from "./words.ts";

/** Markdown: a row for each figure, with dibs and its peers, best first. */
export function table(results: Results): string {
  const rows = results.scenarios.flatMap((scenario) =>
    scenario.figures.map((figure) => {
      const [dibs, ...peers] = figure.contenders;
      const own = `**${show(median(dibs!.values))}** ${figure.unit} | ${spread(dibs!)}`;
      return `| ${titleOf(scenario.name, scenario.base)} | ${figure.name} | ${scenario.rounds} | ${own} | ${describe(scenario, figure, peers)} |`;
    }),
  );
  const durability = results.contenders.map(({ name, durability }) => `| ${name} | ${durability} |`);
  return [
    `${results.day}, ${results.cores} cores, Node ${results.node}; medians of the rounds. In brackets: how many times better dibs is.`,
    "",
    "| scenario | | rounds | dibs | least … most | peers |",
    "|---|---|---|---|---|---|",
    ...rows,
    ...notMeasured(results),
    "",
    "What an acknowledged task survives in these figures:",
    "",
    "| contender | an acknowledged task |",
    "|---|---|",
    ...durability,
  ].join("\n");
}

function describe(
  { rounds }: ScenarioResult,
  figure: FigureResult,
  peers: FigureResult["contenders"],
): string {
  return peers
    .toSorted((a, b) => ahead(figure, a) - ahead(figure, b))
    .map((peer) => {
      // A peer that failed in some rounds is compared by its other rounds.
      const fewer = peer.values.length < rounds ? `, ${peer.values.length} of ${rounds} rounds` : "";
      return `${peer.name} ${show(median(peer.values))} (× ${ahead(figure, peer).toFixed(2)}${fewer})`;
    })
    .join(" · ");
}

/** Peers that were compared with the same dibs that day, support the scenario, and were not measured in it. */
function notMeasured(results: Results): string[] {
  const lines = results.scenarios.flatMap(({ name, base, figures }) => {
    const measured = namesIn(figures);
    const there = namesIn(
      results.scenarios.filter((other) => other.base === base).flatMap((other) => other.figures),
    );
    const scenario = SCENARIOS.find((each) => each.name === name);
    if (measured.size < 2 || !scenario) return [];
    const missing = CONTENDERS.filter(
      (each) => there.has(each.name) && !measured.has(each.name) && canRun(scenario, each),
    );
    return missing.length === 0
      ? []
      : [`- ${titleOf(name, base)}: ${missing.map((each) => each.name).join(" · ")}`];
  });
  return lines.length === 0 ? [] : ["", "Not measured in these runs, though they can do it:", "", ...lines];
}

function namesIn(figures: readonly FigureResult[]): Set<string> {
  return new Set(figures.flatMap(({ contenders }) => contenders.map((each) => each.name)));
}
