import { expect, test } from "vitest";
import type { QueueFrame } from "../api/contract.ts";
import { verdictOf } from "./verdict.ts";

function frame(
  verdict: string,
  needed: number | null,
  rates: { done: number; arrivals: number },
): QueueFrame {
  return {
    now: 0,
    advice: { verdict, workers: { needed }, knee: { arrivals: rates.arrivals }, summary: [] },
    stats: { paused: false, heldBack: null, rates: { donePerSecond: rates.done } },
  } as unknown as QueueFrame;
}

test("the verdict on too few workers says how many more are needed", () => {
  const { sentence, detail } = verdictOf(frame("worker-bound", 5, { done: 20, arrivals: 34 }), 3);
  expect(sentence).toBe("Workers are the bottleneck: 2 more would keep up.");
  expect(detail).toBe("20.0 of 34.0 tasks/s in the last minute, with 3 workers.");
});

test("workers that are enough on average are not called the bottleneck during a wave", () => {
  const { sentence, detail } = verdictOf(frame("worker-bound", 3, { done: 35, arrivals: 30 }), 3);
  expect(sentence).toBe("3 workers are busy, and enough on average.");
  expect(detail).toBe("35.0 tasks/s done, 30.0 arrived in the last minute, with 3 workers.");
});

test("the verdict without a service time names no number of workers", () => {
  const { sentence } = verdictOf(frame("worker-bound", null, { done: 0, arrivals: 10 }), 2);
  expect(sentence).toBe("Workers are the bottleneck.");
});
