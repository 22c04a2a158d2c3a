import { showFigure, showMs } from "../core/answer/figures.ts";
import type { Measurements, Point } from "./measurements.ts";

/** Pictures of simulations: an SVG for documents, and strips of blocks for a terminal. `dibs simulate` calls it. */
export interface NamedRun {
  name: string;
  measurements: Measurements;
}

interface Panel {
  title: string;
  valueOf: (point: Point) => number | null;
  show: (value: number) => string;
}

const PANELS: Panel[] = [
  { title: "tasks added per second", valueOf: (point) => point.addedPerSecond, show: showFigure },
  { title: "tasks that wait", valueOf: ({ depth }) => depth, show: showFigure },
  { title: "mean wait", valueOf: ({ wait }) => wait, show: showMs },
  { title: "workers", valueOf: ({ workers }) => workers, show: showFigure },
];

const WIDTH = 760;
const MARGIN = 16;
const LEFT = 64;
const HEIGHT = 90;
const GAP = 40;
/** The heading, two lines for each run, and the title of the first panel. */
const HEADING = 42;
const RUN = 36;

/** Follows the reader's light or dark mode; outside a browser it is light. */
const STYLE = `
    svg { background: #ffffff; font: 12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
    text { fill: #1c1d1f; } .faint { fill: #6b6f76; } .heading { font-size: 15px; font-weight: 600; }
    .axis { stroke: #e6e6e3; } .line { fill: none; stroke-width: 1.6; stroke-linejoin: round; stroke-linecap: round; }
    .run0 { stroke: #0e7c86; } .run1 { stroke: #b45309; } .name0 { fill: #0e7c86; } .name1 { fill: #b45309; }
    .shared { stroke: #6b6f76; }
    @media (prefers-color-scheme: dark) {
      svg { background: #121316; } text { fill: #ecedee; } .faint { fill: #9ba1a6; } .axis { stroke: #2a2d33; }
      .run0 { stroke: #3cc5ce; } .run1 { stroke: #f0a04b; } .name0 { fill: #3cc5ce; } .name1 { fill: #f0a04b; }
      .shared { stroke: #9ba1a6; }
    }`;

/** One picture for one or two runs of the same length. */
export function drawSvg(heading: string, runs: readonly NamedRun[]): string {
  const top = MARGIN + HEADING + runs.length * RUN;
  const body = PANELS.flatMap((panel, at) => drawPanel(panel, runs, top + at * (HEIGHT + GAP)));
  const height = top + PANELS.length * (HEIGHT + GAP) + MARGIN;
  const legend = runs.flatMap(({ name, measurements }, at) => {
    const y = MARGIN + 34 + at * RUN;
    return [
      `  <text class="name${at}" x="${MARGIN}" y="${y}" font-weight="600">${escape(name)}</text>`,
      `  <text class="faint" x="${MARGIN}" y="${y + 16}">${escape(describeRun(measurements))}</text>`,
    ];
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" aria-label="${escape(heading)}">`,
    `  <style>${STYLE}\n  </style>`,
    `  <text class="heading" x="${MARGIN}" y="${MARGIN + 10}">${escape(heading)}</text>`,
    ...legend,
    ...body,
    ...drawTimes(runs, height - MARGIN),
    "</svg>",
    "",
  ].join("\n");
}

function describeRun({ summary }: Measurements): string {
  const { workerHours, wait } = summary;
  return `${showFigure(workerHours)} worker-hours; half of the tasks wait at most ${showMs(wait.p50)}, 95 % at most ${showMs(wait.p95)}, all at most ${showMs(wait.max)}`;
}

function drawPanel({ title, valueOf, show }: Panel, runs: readonly NamedRun[], top: number): string[] {
  const highest = highestOf(runs, valueOf);
  const bottom = top + HEIGHT;
  const paths = runs.map(({ measurements }) => pathOf(measurements.points.map(valueOf), highest, top));
  // Both policies get the same load: of two equal lines, one would hide the other.
  const isShared = paths.length > 1 && new Set(paths).size === 1;
  const lines = isShared
    ? [`  <path class="line shared" d="${paths[0]}"/>`]
    : paths.map((path, at) => `  <path class="line run${at}" d="${path}"/>`);
  return [
    `  <text class="faint" x="${LEFT}" y="${top - 8}">${title}</text>`,
    `  <line class="axis" x1="${LEFT}" y1="${top}" x2="${WIDTH - MARGIN}" y2="${top}"/>`,
    `  <line class="axis" x1="${LEFT}" y1="${bottom}" x2="${WIDTH - MARGIN}" y2="${bottom}"/>`,
    `  <text class="faint" x="${LEFT - 8}" y="${top + 4}" text-anchor="end">${show(highest)}</text>`,
    `  <text class="faint" x="${LEFT - 8}" y="${bottom + 4}" text-anchor="end">0</text>`,
    ...lines,
  ];
}

function highestOf(runs: readonly NamedRun[], valueOf: Panel["valueOf"]): number {
  const values = runs.flatMap(({ measurements }) => measurements.points.map((point) => valueOf(point) ?? 0));
  return values.reduce((most, each) => Math.max(most, each), 0) || 1;
}

/** A gap where there is no value. A single value between two gaps is a dot. */
function pathOf(values: (number | null)[], highest: number, top: number): string {
  const step = (WIDTH - MARGIN - LEFT) / Math.max(1, values.length - 1);
  let isDrawing = false;
  return values
    .map((value, at) => {
      if (value === null) {
        isDrawing = false;
        return "";
      }
      const point = `${(LEFT + at * step).toFixed(1)},${(top + HEIGHT - (value / highest) * HEIGHT).toFixed(1)}`;
      const isFirst = !isDrawing;
      isDrawing = true;
      return isFirst ? `M${point}h0` : `L${point}`;
    })
    .join("");
}

function drawTimes(runs: readonly NamedRun[], y: number): string[] {
  const duration = runs[0]!.measurements.points.at(-1)!.at;
  return [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const x = LEFT + share * (WIDTH - MARGIN - LEFT);
    const anchor = share === 0 ? "start" : share === 1 ? "end" : "middle";
    return `  <text class="faint" x="${x.toFixed(1)}" y="${y - 14}" text-anchor="${anchor}">${share === 0 ? "0" : showMs(share * duration)}</text>`;
  });
}

function escape(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}

/** For a terminal: each figure as a strip, the same scale for all runs. */
export function drawStrips(runs: readonly NamedRun[], width: number): string[] {
  const nameWidth = runs.reduce((most, { name }) => Math.max(most, name.length), 0);
  return PANELS.flatMap(({ title, valueOf, show }) => {
    const highest = highestOf(runs, valueOf);
    const room = Math.max(20, width - nameWidth - 2);
    const strips = runs.map(
      ({ name, measurements }) =>
        `${name.padEnd(nameWidth)}  ${stripOf(measurements.points.map(valueOf), highest, room)}`,
    );
    return [`${title}, up to ${show(highest)}`, ...strips, ""];
  });
}

const BLOCKS = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

function stripOf(values: (number | null)[], highest: number, width: number): string {
  const perSign = Math.max(1, Math.ceil(values.length / width));
  const signs: string[] = [];
  for (let at = 0; at < values.length; at += perSign) {
    const part = values.slice(at, at + perSign).filter((value) => value !== null);
    const most = part.length === 0 ? null : Math.max(...part);
    signs.push(most === null || most === 0 ? " " : BLOCKS[Math.min(7, Math.floor((most / highest) * 8))]!);
  }
  return signs.join("");
}
