import { expect, test } from "vitest";
import { EventWriter, timeOf, typeOf } from "../../src/core/event/event-text.ts";
import type { DibsEvent } from "../../src/core/event/events.ts";

const QUEUE = 'a "queue"\n';
const about = { type: "task.done", at: 1, queue: QUEUE, worker: 'w"', attempt: 1 } as const;

test("events that differ in one field each are written as what they are", () => {
  const writer = new EventWriter();
  const events: DibsEvent[] = [
    { ...about, taskId: "1" },
    { ...about, taskId: "2" },
    { ...about, taskId: "2", at: 2 },
    { ...about, taskId: "2", type: "task.claimed" },
    { ...about, taskId: "2", queue: "other" },
    { ...about, taskId: "2", worker: "w2" },
    { ...about, taskId: "2", worker: "w2", attempt: 2 },
    { ...about, taskId: "2", worker: "w2", attempt: 2, detail: "why" },
    { type: "task.added", at: 2, queue: QUEUE, taskId: "3" },
    { type: "task.added", at: 2, queue: QUEUE, taskId: "4" },
    { type: "task.released", at: 2, queue: QUEUE, taskId: "4", worker: "w" },
    { type: "task.expired", at: 2, queue: QUEUE, taskId: "4", attempt: 3 },
    { type: "queue.paused", at: 2, queue: QUEUE },
    { type: "worker.lost", at: 2, worker: "w" },
    { ...about, taskId: "5" },
  ];
  const texts = events.map((event) => writer.textOf(event));
  expect(texts.map((text) => JSON.parse(text) as DibsEvent)).toEqual(events);
  expect(texts.map(typeOf)).toEqual(events.map(({ type }) => type));
  expect(texts.map(timeOf)).toEqual(events.map(({ at }) => at));
  for (const text of texts) expect(text).not.toContain("\n");
});
