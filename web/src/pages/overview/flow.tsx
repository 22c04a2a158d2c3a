/** Whether work flows, at one glance: the throughput of all queues, a sentence, and the last quarter of an hour. */

import { call } from "../../api/call.ts";
import type { FlowHistory, FlowSeries } from "../../api/contract.ts";
import { showCount, showRate } from "../../format/number.ts";
import { totals } from "../../store/figures.ts";
import { useResource } from "../../store/resource.ts";
import { Chart, firstShown } from "../../ui/chart.tsx";
import { describeFlow } from "./describe-flow.ts";

const REFRESH_MS = 5_000;

export function FlowCard() {
  const figures = totals.value;
  const { value } = useResource((signal) => call<FlowHistory>("v1/history", { signal }), [], REFRESH_MS);
  if (!figures) return <section class="card flow" aria-label="The flow of all queues" />;
  const { sentence, isStuck } = describeFlow(figures);
  return (
    <section class="card flow" aria-label="The flow of all queues">
      <div>
        <h3>Throughput</h3>
        <p class="flow-number">
          <b>{showRate(figures.donePerSecond)}</b> tasks/s
        </p>
        <p class={isStuck ? "amber" : "quiet"}>{sentence}</p>
      </div>
      {value && <Charts history={value} />}
    </section>
  );
}

function Charts({ history: { from, step, series } }: { history: FlowHistory }) {
  const first = firstShown(series.depth);
  const times = series.depth.map((_, at) => (from + (at + 1) * step) / 1_000).slice(first);
  const shown = (name: FlowSeries) => series[name].slice(first);
  return (
    <>
      <Chart
        title="Tasks per second"
        times={times}
        show={showRate}
        least={0.1}
        height={HEIGHT}
        series={[
          { label: "in", colour: "quiet", values: shown("added") },
          { label: "out", colour: "accent", values: shown("done"), fill: true },
        ]}
      />
      <div class="wide-only">
        <Chart
          title="Waiting"
          times={times}
          show={showCount}
          least={1}
          height={HEIGHT}
          series={[{ label: "depth", colour: "accent", values: shown("depth"), fill: true }]}
        />
      </div>
    </>
  );
}

const HEIGHT = 104;
