/** The geometry of the knee plot: throughput against the number of workers, min(N × rate, arrival). Pure. */

import type { KneePoint } from "../api/contract.ts";
import { niceCeil } from "./layout.ts";

export interface KneeInput {
  /** Tasks per second that one worker can do; null: not known. */
  ratePerWorker: number | null;
  arrivals: number;
  workers: number;
  throughput: number;
  observed: KneePoint[];
}

export interface KneePlot {
  /** Of the expected line, as an SVG path; null: the rate of a worker is not known. */
  line: string | null;
  arrivalY: number;
  dots: { x: number; y: number }[];
  current: { x: number; y: number };
  ticks: { x: number; label: number }[];
  baseY: number;
  left: number;
  right: number;
}

const [LEFT, RIGHT, TOP, BASE] = [8, 292, 22, 164] as const;

export function plotKnee({ ratePerWorker, arrivals, workers, throughput, observed }: KneeInput): KneePlot {
  const kneeAt = ratePerWorker ? arrivals / ratePerWorker : 0;
  const seen = Math.max(0, ...observed.map((point) => point.workers));
  const most = niceWorkers(Math.max(4, workers * 1.5, seen, Math.min(kneeAt * 1.4, workers * 6 + 8)));
  const rates = observed.map((point) => point.donePerSecond);
  const highest = niceCeil(Math.max(1, arrivals, throughput, ...rates) * 1.05);
  const x = (count: number) => LEFT + ((RIGHT - LEFT) * Math.min(count, most)) / most;
  const y = (rate: number) => BASE - ((BASE - TOP) * Math.min(rate, highest)) / highest;
  const bend = Math.min(kneeAt, most);
  const line =
    ratePerWorker === null
      ? null
      : `M${x(0)} ${y(0)}L${round(x(bend))} ${round(y(bend * ratePerWorker))}L${x(most)} ${round(y(Math.min(most * ratePerWorker, arrivals)))}`;
  const step = Math.max(1, niceWorkers(most / 6));
  const ticks = Array.from({ length: Math.floor(most / step) }, (_, at) => (at + 1) * step);
  return {
    line,
    arrivalY: y(arrivals),
    dots: observed
      .filter((point) => point.workers !== workers)
      .map((point) => ({ x: x(point.workers), y: y(point.donePerSecond) })),
    current: { x: x(workers), y: y(throughput) },
    ticks: ticks.map((label) => ({ x: x(label), label })),
    ...{ baseY: BASE, left: LEFT, right: RIGHT },
  };
}

/** A whole number whose sixth part is a pleasant step. */
function niceWorkers(value: number): number {
  return value <= 12 ? Math.ceil(value) : niceCeil(value);
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
