/** Below the picture: throughput against arrival, the depth with its trend, and the oldest wait. */

import type { QueueFrame } from "../api/contract.ts";
import { showSeconds } from "../format/duration.ts";
import { countOf, showCount, showExact, showRate } from "../format/number.ts";

export function Gauge({ frame }: { frame: QueueFrame }) {
  const { flow, stats, trend } = frame;
  const { addedPerSecond: arrival, donePerSecond: throughput } = flow;
  const share = throughput === 0 ? 0 : Math.min(1, throughput / Math.max(arrival, throughput));
  const [arrow, direction] = trendOf(trend);
  return (
    <div class="gauge">
      <span class="gauge-number">
        <b>{showRate(throughput)}</b>
        {throughput > arrival ? ` tasks/s, ${showRate(arrival)} arrive` : ` of ${showRate(arrival)} tasks/s`}
      </span>
      <div
        class="meter"
        role="meter"
        aria-label="Throughput of all workers against the arrival rate"
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={Math.round(share * 100)}
      >
        <i style={{ transform: `scaleX(${share})` }} />
      </div>
      <span
        class="depth"
        title={`${countOf(stats.depth.ready, "task")} ready, ${showExact(stats.depth.waiting)} behind their group; ${direction}`}
      >
        depth <b>{showCount(stats.depth.ready + stats.depth.waiting)}</b>
        <span role="img" aria-label={direction}>
          {arrow}
        </span>
      </span>
      <span class="oldest">
        oldest <b>{stats.oldestAge === null ? "–" : showSeconds(stats.oldestAge)}</b>
      </span>
    </div>
  );
}

/** Smaller changes per second than this are noise. */
const STEADY = 0.2;

function trendOf(trend: number | null): [string, string] {
  if (trend === null || Math.abs(trend) < STEADY) return ["→", "steady"];
  const rate = `${showRate(Math.abs(trend))} per second`;
  return trend > 0 ? ["↗", `growing by ${rate}`] : ["↘", `shrinking by ${rate}`];
}
