/** A line chart. All charts of a page share their x-range and one crosshair. */

import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { isDark } from "../store/preferences.ts";
import { readColour } from "./colour.ts";

export interface Series {
  label: string;
  /** A name of a colour token: "accent", "quiet", "red". */
  colour: string;
  values: (number | null)[];
  fill?: boolean;
}

interface ChartProps {
  title: string;
  /** Seconds since 1970, as uPlot wants them. */
  times: number[];
  series: Series[];
  /** Of the y axis, the crosshair and the label at the end of a line. */
  show: (value: number) => string;
  /** The smallest step of the y axis, so that two of its numbers never look the same. */
  least?: number;
  height?: number;
}

/** A young store would show a line at the very end of an empty chart: until it has more, a chart has 18 values. */
const LEAST_VALUES = 18;

/** Where a chart begins whose first values were not recorded. */
export function firstShown(values: readonly (number | null)[]): number {
  const least = Math.max(0, values.length - LEAST_VALUES);
  const first = values.findIndex((value) => value !== null);
  return first < 0 ? least : Math.min(first, least);
}

const SYNC = uPlot.sync("page");
const LABEL_WIDTH = 76;

export function Chart({ title, times, series, show, least = 0, height = 132 }: ChartProps) {
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const dark = isDark.value;
  const shape = series.map(({ label }) => label).join();
  const latest = useRef({ series, show });
  latest.current = { series, show };

  useEffect(() => {
    const element = host.current!;
    const made = new uPlot(optionsFor(series, { height, least }, latest), dataOf(times, series), element);
    plot.current = made;
    SYNC.sub(made);
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      SYNC.unsub(made);
      made.destroy();
    };
  }, [shape, dark, height]);

  useEffect(() => plot.current?.setData(dataOf(times, series)), [times, series]);

  const last = series.map(({ label, values }) => `${label} ${lastOf(values, show)}`).join(", ");
  return (
    <figure class="chart">
      <figcaption>
        <h3>{title}</h3>
        <span class="chart-keys">
          {series.map(({ label, colour, values }) => (
            <span key={label} style={{ color: `var(--${colour})` }}>
              {label} <b>{lastOf(values, show)}</b>
            </span>
          ))}
        </span>
      </figcaption>
      <div ref={host} role="img" aria-label={`${title}: ${last}`} />
    </figure>
  );
}

function lastOf(values: (number | null)[], show: (value: number) => string): string {
  const value = values.findLast((each) => each !== null);
  return value == null ? "–" : show(value);
}

function dataOf(times: number[], series: Series[]): uPlot.AlignedData {
  return [times, ...series.map(({ values }) => values)];
}

type Latest = { current: Pick<ChartProps, "series" | "show"> };

function optionsFor(
  series: Series[],
  { height, least }: { height: number; least: number },
  latest: Latest,
): uPlot.Options {
  const font = `11px ${getComputedStyle(document.body).fontFamily}`;
  const axis = { stroke: readColour("quiet"), font, ticks: { show: false } };
  const grid = { stroke: readColour("line"), width: 1 };
  return {
    width: 600,
    height,
    padding: [8, 20, 0, 0],
    legend: { show: false },
    cursor: { sync: { key: SYNC.key }, drag: { x: false, y: false }, y: false, points: { size: 6 } },
    scales: { x: { time: true }, y: { range: (_plot, _low, high) => [0, (high || 1) * 1.08] } },
    axes: [
      { ...axis, grid: { show: false }, size: 28, space: 56, values: TIMES },
      {
        ...axis,
        grid,
        ...(least > 0 && { incrs: STEPS.map((step) => step * least) }),
        size: 52,
        space: 36,
        values: (_plot, splits) => splits.map((at) => latest.current.show(at)),
      },
    ],
    series: [
      {},
      ...series.map(({ label, colour, fill }) => ({
        label,
        stroke: readColour(colour),
        width: 1.5,
        // A single value between two gaps has no line: it is a point.
        points: { size: 4, filter: alone },
        // A gap in the history is shown as a gap.
        spanGaps: false,
        ...(fill && { fill: readColour(`${colour}-soft`) }),
      })),
    ],
    plugins: [crosshairValues(latest)],
  };
}

const STEPS = Array.from({ length: 9 }, (_, power) => [1, 2, 5].map((factor) => factor * 10 ** power)).flat();

const alone: uPlot.Series.Points.Filter = (plot, series) => {
  const values = plot.data[series]!;
  const has = (at: number) => values[at] != null;
  return Array.from(values.keys()).filter((at) => has(at) && !has(at - 1) && !has(at + 1));
};

const TIMES: uPlot.Axis.Values = (_plot, splits, _axis, _space, increment) =>
  splits.map((at) => {
    const date = new Date(at * 1_000);
    if (increment >= 86_400) return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
    const time = date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
    return increment < 60 ? `${time}:${String(date.getSeconds()).padStart(2, "0")}` : time;
  });

/** A small box at the crosshair with the exact values there. */
function crosshairValues(latest: Latest): uPlot.Plugin {
  const box = document.createElement("div");
  box.className = "chart-box";
  return {
    hooks: {
      init: (plot) => plot.over.append(box),
      setCursor: (plot) => {
        const { idx, left = -1 } = plot.cursor;
        box.hidden = idx == null || left < 0;
        if (box.hidden) return;
        const lines = latest.current.series.map(({ label, values }) => {
          const value = values[idx!];
          return `${label} ${value == null ? "not recorded" : latest.current.show(value)}`;
        });
        box.textContent = [new Date(plot.data[0][idx!]! * 1_000).toLocaleTimeString("en-GB"), ...lines].join(
          "\n",
        );
        const isRight = left > plot.over.clientWidth - LABEL_WIDTH * 2;
        box.style.transform = `translateX(${isRight ? left - box.offsetWidth - 8 : left + 8}px)`;
      },
    },
  };
}
