import type { QueueFrame } from "../api/contract.ts";
import { countOf, showRate } from "../format/number.ts";
import { plotKnee } from "./knee.ts";
import { ratesOf, verdictOf } from "./verdict.ts";

/** Throughput by workers with what was observed, and the verdict as a sentence. */
export function KneeCard({ frame }: { frame: QueueFrame }) {
  const { advice, stats, knee, workers, moreWorkers } = frame;
  const { arrivals } = advice.knee;
  const count = workers.filter(({ state }) => state !== "lost").length + moreWorkers;
  const plot = plotKnee({
    ...{ ratePerWorker: advice.knee.ratePerWorker, arrivals, workers: count },
    ...{ throughput: stats.rates.donePerSecond, observed: knee },
  });
  const { sentence, detail } = verdictOf(frame, count);
  const summary = `${countOf(count, "worker")}: ${ratesOf(frame)}`;
  return (
    <section class="card">
      <h3>Throughput by workers</h3>
      <svg class="knee" viewBox="0 0 300 188" role="img" aria-label={summary}>
        <line x1={plot.left} x2={plot.right} y1={plot.baseY} y2={plot.baseY} stroke="var(--line)" />
        <line
          x1={plot.left}
          x2={plot.right}
          y1={plot.arrivalY}
          y2={plot.arrivalY}
          stroke="var(--line-strong)"
          stroke-dasharray="2 4"
        />
        <text x={plot.right} y={plot.arrivalY - 6} text-anchor="end">
          arrival {showRate(arrivals)}/s
        </text>
        {plot.line && (
          <path d={plot.line} fill="none" stroke="var(--accent)" stroke-width="2" stroke-linejoin="round" />
        )}
        {plot.dots.map(({ x, y }) => (
          <circle key={`${x}`} cx={x} cy={y} r="3" fill="var(--accent)" opacity="0.55" />
        ))}
        <circle
          cx={plot.current.x}
          cy={plot.current.y}
          r="6.5"
          fill="var(--card)"
          stroke="var(--accent)"
          stroke-width="2"
        />
        <circle cx={plot.current.x} cy={plot.current.y} r="3" fill="var(--accent)" />
        {plot.ticks.map(({ x, label }) => (
          <text key={label} x={x} y={plot.baseY + 16} text-anchor="middle">
            {label}
          </text>
        ))}
      </svg>
      <p class="verdict">{sentence}</p>
      <p class="quiet">{detail}</p>
    </section>
  );
}
