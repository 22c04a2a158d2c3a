import type { FigureResult, Results } from "./results.ts";
import { ahead, show } from "./words.ts";

/** Markdown: a row for each figure, the peers beside dibs, best first. */
export function table(results: Results): string {
  const rows = results.scenarios.flatMap(({ name, figures }) =>
    figures.map((figure) => {
      const [dibs, ...peers] = figure.contenders;
      return `| ${name} | ${figure.name} | **${show(dibs!.median)}** ${figure.unit} | ${describe(figure, peers)} |`;
    }),
  );
  const durability = results.contenders.map(({ name, durability }) => `- ${name}: ${durability}`);
  return [
    `${results.day}, ${results.cores} cores, Node ${results.node}; medians. In brackets: how many times better dibs is.`,
    "",
    "| scenario | | dibs | peers |",
    "|---|---|---|---|",
    ...rows,
    "",
    "What an acknowledged task survives in these figures:",
    "",
    ...durability,
  ].join("\n");
}

function describe(figure: FigureResult, peers: FigureResult["contenders"]): string {
  return peers
    .toSorted((a, b) => ahead(figure, a) - ahead(figure, b))
    .map((peer) => `${peer.name} ${show(peer.median)} (× ${ahead(figure, peer).toFixed(2)})`)
    .join(" · ");
}
