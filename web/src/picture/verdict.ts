/** What limits the queue, as a sentence that a person would say. The judgement is the server's. */

import type { QueueFrame } from "../api/contract.ts";
import { countOf, showRate } from "../format/number.ts";
import { gateOf } from "./gate.ts";

export function verdictOf(frame: QueueFrame, workers: number): { sentence: string; detail: string } {
  const { advice, stats, now } = frame;
  const { needed } = advice.workers;
  const detail = `${ratesOf(frame)} in the last minute, with ${countOf(workers, "worker")}`;
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
          detail: `Start one: dibs work ${stats.queue} -- COMMAND`,
        };
      if (needed === null) return { sentence: "Workers are the bottleneck.", detail };
      if (needed > workers)
        return {
          sentence: `Workers are the bottleneck: ${needed - workers} more would keep up.`,
          detail: `${detail}.`,
        };
      return {
        sentence: `${countOf(workers, "worker")} ${workers === 1 ? "is" : "are"} busy, and enough on average.`,
        detail: `${detail}.`,
      };
    }
  }
}

/** As the verdict saw them: over a minute, so that a short wave of tasks does not contradict it. */
export function ratesOf({ advice, stats }: QueueFrame): string {
  const [done, arrivals] = [stats.rates.donePerSecond, advice.knee.arrivals];
  return done > arrivals
    ? `${showRate(done)} tasks/s done, ${showRate(arrivals)} arrived`
    : `${showRate(done)} of ${showRate(arrivals)} tasks/s`;
}
