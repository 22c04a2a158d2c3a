import { median } from "./measure.ts";
import type { FigureResult, Results } from "./results.ts";
import { OURS } from "./contenders.ts";
import { show, titleOf } from "./words.ts";

const WIDTH = 760;
const LABEL_WIDTH = 190;
const VALUE_WIDTH = 110;
const BAR = 16;
const GAP = 4;
const TITLE = 34;
const MARGIN = 16;
const HEADER = 34;
/** A shorter bar would be invisible. */
const SHORTEST = 2;

/** Follows the reader's light or dark mode; outside a browser it is light. */
const STYLE = `
    svg { background: #ffffff; font: 13px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
    text { fill: #1f2328; } .faint { fill: #59636e; } .peer { fill: #8c959f; } .dibs { fill: #1f6feb; }
    .unsynced { fill: #d8dee4; }
    .title, .own { font-weight: 600; } .heading { font-size: 15px; font-weight: 600; }
    @media (prefers-color-scheme: dark) {
      svg { background: #0d1117; } text { fill: #e6edf3; } .faint { fill: #9198a1; }
      .peer { fill: #6e7681; } .dibs { fill: #4493f8; } .unsynced { fill: #343b44; }
    }`;

/** Bars for each figure with peers, the best at the top; without peers, the rates of dibs. */
export function plot(results: Results): string {
  const figures = worthDrawing(results);
  const unsynced = new Set(results.contenders.filter(({ synced }) => !synced).map(({ name }) => name));
  const body: string[] = [];
  let y = MARGIN + HEADER;
  for (const { title, figure } of figures) {
    body.push(...drawFigure(title, figure, unsynced, y));
    y += TITLE + figure.contenders.length * (BAR + GAP) + GAP;
  }
  const heading = `${results.day}, Node ${results.node}, ${results.cores} cores; medians. Faint: may lose work at a power cut`;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${y + MARGIN}" role="img" aria-label="dibs and its peers, measured">`,
    `  <style>${STYLE}\n  </style>`,
    `  <text class="heading" x="${MARGIN}" y="${MARGIN + 12}">dibs and its peers</text>`,
    `  <text class="faint" x="${WIDTH - MARGIN}" y="${MARGIN + 12}" text-anchor="end">${escape(heading)}</text>`,
    ...body,
    "</svg>",
    "",
  ].join("\n");
}

function worthDrawing({ scenarios }: Results): { title: string; figure: FigureResult }[] {
  const all = scenarios.flatMap(({ name, base, figures }) =>
    figures.map((figure) => ({ title: `${titleOf(name, base)}: ${figure.name}`, figure })),
  );
  const compared = all.filter(({ figure }) => figure.contenders.length > 1);
  return compared.length > 0 ? compared : all.filter(({ figure }) => figure.unit === "tasks/s");
}

function drawFigure(
  title: string,
  { unit, better, contenders }: FigureResult,
  unsynced: Set<string>,
  top: number,
): string[] {
  const bars = contenders.map(({ name, values }) => ({ name, value: median(values) }));
  const longest = Math.max(...bars.map(({ value }) => value));
  const sorted = bars.toSorted((a, b) => (better === "more" ? b.value - a.value : a.value - b.value));
  const hint = `${unit}, ${better === "more" ? "longer" : "shorter"} is better`;
  const lines = [
    `  <text x="${MARGIN}" y="${top + TITLE - 12}"><tspan class="title">${escape(title)}</tspan> <tspan class="faint" dx="6">${hint}</tspan></text>`,
  ];
  for (const [i, { name, value }] of sorted.entries()) {
    const y = top + TITLE + i * (BAR + GAP);
    const room = WIDTH - 2 * MARGIN - LABEL_WIDTH - VALUE_WIDTH;
    const length = Math.max(SHORTEST, (value / longest) * room);
    const x = MARGIN + LABEL_WIDTH;
    const isDibs = OURS.some((ours) => ours.name === name);
    const kind = isDibs ? "dibs" : unsynced.has(name) ? "unsynced" : "peer";
    const textY = y + BAR - 4;
    lines.push(
      `  <text ${isDibs ? 'class="own" ' : ""}x="${x - 8}" y="${textY}" text-anchor="end">${escape(name)}</text>`,
      `  <rect class="${kind}" x="${x}" y="${y}" width="${length.toFixed(1)}" height="${BAR}" rx="2"/>`,
      `  <text ${isDibs ? 'class="own" ' : ""}x="${(x + length + 6).toFixed(1)}" y="${textY}">${show(value)}</text>`,
    );
  }
  return lines;
}

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
