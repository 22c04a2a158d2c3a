/** Depth, rates, waits and failures over minutes to days. All charts share their range and one crosshair. */

import { call } from "../../api/call.ts";
import type { History, HistorySeries } from "../../api/contract.ts";
import { showDuration } from "../../format/duration.ts";
import { showCount, showRate } from "../../format/number.ts";
import { filter, route } from "../../router/route.ts";
import { serverNow } from "../../store/clock.ts";
import { useResource } from "../../store/resource.ts";
import { Chart, firstShown } from "../../ui/chart.tsx";
import { Failure } from "../../ui/dialog.tsx";

const SHORT_MS = 900_000;
const RANGES: Record<string, { name: string; ms: number }> = {
  "15m": { name: "15 min", ms: SHORT_MS },
  "3h": { name: "3 h", ms: 10_800_000 },
  "1d": { name: "1 day", ms: 86_400_000 },
  "7d": { name: "7 days", ms: 604_800_000 },
};
const POINTS = 180;
const REFRESH_MS = 5_000;

export function HistoryCard({ queue }: { queue: string }) {
  const range = route.value.query.get("range") ?? "15m";
  const { ms } = RANGES[range] ?? RANGES["15m"]!;
  const { value, failure } = useResource(
    (signal) => {
      const to = serverNow();
      const query = { from: Math.floor(to - ms), to: Math.floor(to), points: POINTS };
      return call<History>(`v1/queues/${encodeURIComponent(queue)}/history`, { query, signal });
    },
    [queue, ms],
    REFRESH_MS,
  );
  return (
    <section class="card">
      <div class="card-head">
        <h3>History</h3>
        <div class="tabs" role="group" aria-label="Range">
          {Object.entries(RANGES).map(([key, { name }]) => (
            <button
              key={key}
              type="button"
              class="tab"
              aria-pressed={key === range}
              onClick={() => filter({ range: key })}
            >
              {name}
            </button>
          ))}
        </div>
      </div>
      <Failure text={failure} />
      {value && <Charts history={value} isShort={ms === SHORT_MS} />}
    </section>
  );
}

function Charts({ history: { from, step, series }, isShort }: { history: History; isShort: boolean }) {
  const all = series.depth.map((_, at) => (from + (at + 1) * step) / 1_000);
  const first = isShort ? firstShown(series.depth) : 0;
  const times = all.slice(first);
  const shown = (name: HistorySeries) => series[name].slice(first);
  return (
    <div class="charts">
      <Chart
        title="Waiting"
        times={times}
        show={showCount}
        least={1}
        series={[{ label: "depth", colour: "accent", values: shown("depth"), fill: true }]}
      />
      <Chart
        title="Tasks per second"
        times={times}
        show={showRate}
        least={0.1}
        series={[
          { label: "in", colour: "quiet", values: shown("added") },
          { label: "out", colour: "accent", values: shown("done") },
        ]}
      />
      <Chart
        title="Time"
        times={times}
        show={showDuration}
        series={[
          { label: "wait", colour: "quiet", values: shown("wait") },
          { label: "run", colour: "accent", values: shown("service") },
        ]}
      />
      <Chart
        title="Failures per second"
        times={times}
        show={showRate}
        least={0.1}
        series={[{ label: "failed", colour: "red", values: shown("failed") }]}
      />
    </div>
  );
}
