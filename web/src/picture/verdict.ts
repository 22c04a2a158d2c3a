/** What limits the queue, as a sentence that a person would say. The judgement is the server's. */

import type { QueueFrame } from "../api/contract.ts";
import { countOf, showRate } from "../format/number.ts";
import { gateOf } from "./gate.ts";

export function verdictOf(frame: QueueFrame, workers: number): { sentence: string; detail: string } {
  const { advice, flow, stats, now } = frame;
  const { needed } = advice.workers;
  const detail = `${showRate(flow.donePerSecond)} of ${showRate(flow.addedPerSecond)} tasks/s with ${countOf(workers, "worker")}`;
  if (stats.paused) return { sentence: "The queue is paused: no task starts.", detail };
  const gate = gateOf(stats.heldBack, now);
  switch (advice.verdict) {
    case "idle":
      return { sentence: "Nothing is waiting, and nothing arrives.", detail: "" };
    case "contended":
      return {
        sentence: gate === null ? "Tasks wait although workers are free." : `Held back by ${gate}.`,
        detail: advice.summary[0] ?? detail,
      };
    case "producer-bound":
      return {
        sentence: `${countOf(workers, "worker")} ${workers === 1 ? "is" : "are"} keeping up.`,
        detail: `Arrival is the limit; more workers would idle. ${detail}.`,
      };
    case "worker-bound": {
      if (workers === 0)
        return {
          sentence: "No worker is connected: nothing starts.",
          detail: "Start one: dibs work QUEUE -- COMMAND",
        };
      const more = needed === null ? null : Math.max(1, needed - workers);
      const fix = more === null ? "." : more > 0 ? `: ${more} more would keep up.` : ".";
      return { sentence: `Workers are the bottleneck${fix}`, detail };
    }
  }
}
