import { describe, expect, it } from "vitest";
import type { DibsEvent } from "../../src/index.ts";
import { openStore, STORES } from "../stores.ts";

describe.each(STORES)("events on %s", (store) => {
  it("events report a task's life in order", async () => {
    const dibs = await openStore(store);
    const events = dibs.events();
    const queue = dibs.queue("told", { backoff: { type: "fixed", delay: 0 } });
    const task = await queue.add(1);
    queue.work(({ attempt }) => {
      if (attempt === 1) throw new Error("first");
    });
    const seen: DibsEvent[] = [];
    for await (const event of events) {
      if ("taskId" in event && event.taskId === task.id) seen.push(event);
      if (event.type === "task.done") break;
    }
    expect(seen.map((event) => event.type)).toEqual([
      "task.added",
      "task.claimed",
      "task.failed",
      "task.claimed",
      "task.done",
    ]);
  });

  it("events end when the signal aborts, when the reader stops, and when the store closes", async () => {
    const dibs = await openStore(store);
    const stop = new AbortController();
    const first = dibs.events({ signal: stop.signal });
    const pending = first.next();
    stop.abort();
    expect((await pending).done).toBe(true);
    const second = dibs.events();
    const waiting = second.next();
    await second.return!();
    expect((await waiting).done).toBe(true);
    const third = dibs.events().next();
    await dibs.close();
    expect((await third).done).toBe(true);
  });
});
