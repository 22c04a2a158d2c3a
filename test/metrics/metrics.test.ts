import { describe, expect, it } from "vitest";
import { openStore, STORES } from "../stores.ts";

describe.each(STORES)("dibs.metrics() on %s", (store) => {
  it("metrics count what this process did, and show what is in the store", async () => {
    const dibs = await openStore(store);
    const queue = dibs.queue<number>("work");
    await queue.addMany([{ data: 1 }, { data: 2 }, { data: 3 }, { data: 4 }]);
    const [first, second] = await queue.claim({ max: 2 });
    await first!.ack();
    await second!.reject(new Error("no"));
    const worker = queue.work(() => 1, { limit: 1 });
    await worker.stopped;
    const lines = (await dibs.metrics()).split("\n");
    for (const line of [
      "# TYPE dibs_tasks_added_total counter",
      'dibs_tasks_added_total{queue="work"} 4',
      'dibs_tasks_claimed_total{queue="work"} 3',
      'dibs_tasks_settled_total{queue="work",settlement="ack",state="done"} 2',
      'dibs_tasks_settled_total{queue="work",settlement="reject",state="dead"} 1',
      'dibs_task_service_seconds_count{queue="work"} 3',
      'dibs_queue_depth{queue="work",state="ready"} 1',
      'dibs_queue_depth{queue="work",state="dead"} 1',
    ]) {
      expect(lines).toContain(line);
    }
    expect(lines.at(-1)).toBe("");
    expect(lines.filter((line) => line.startsWith("dibs_clients"))).toEqual([]);
  });
});
