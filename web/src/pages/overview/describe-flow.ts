import type { TotalsFrame } from "../../api/contract.ts";
import { countOf, showRate } from "../../format/number.ts";

/** The sentence says so if more than this multiple of what is done arrives. */
const PILING_UP = 1.1;

/** What happens in all queues together, as a person would say it. */
export function describeFlow({
  waiting,
  running,
  addedPerSecond,
  donePerSecond,
}: Pick<TotalsFrame, "waiting" | "running" | "addedPerSecond" | "donePerSecond">): {
  sentence: string;
  isStuck: boolean;
} {
  const calm = (sentence: string) => ({ sentence, isStuck: false });
  const wait = `${countOf(waiting, "task")} ${waiting === 1 ? "waits" : "wait"}`;
  if (donePerSecond === 0) {
    if (waiting > 0 && running === 0) return { sentence: `${wait}, and none is being done.`, isStuck: true };
    if (running > 0) return calm(`${countOf(running, "task")} ${running === 1 ? "is" : "are"} being done.`);
    // Failed or not due: tasks that wait for their time are not counted as waiting.
    if (addedPerSecond > 0) return calm(`${showRate(addedPerSecond)} tasks/s arrive, and none is done yet.`);
    return calm("Nothing is waiting, and nothing arrives.");
  }
  if (waiting > 0 && addedPerSecond > donePerSecond * PILING_UP)
    return { sentence: `Work is piling up: ${showRate(addedPerSecond)} tasks/s arrive.`, isStuck: true };
  if (addedPerSecond === 0) return calm(waiting > 0 ? `Nothing arrives; ${wait}.` : "Nothing is waiting.");
  if (waiting === 0) return calm("Everything is done as it arrives.");
  return calm(`Work is flowing: ${showRate(addedPerSecond)} tasks/s arrive.`);
}
