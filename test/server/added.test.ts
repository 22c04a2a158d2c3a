// dibs_tasks_added_total counts all added tasks, not only those of add and publish.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { openPort } from "../../src/api/open.ts";
import type { Measured } from "../../src/core/commit.ts";
import { each, open } from "../../src/index.ts";
import { freshSchema } from "../postgres/shared.ts";
import { latch } from "../stores.ts";
import { startServer } from "./start.ts";

async function addressOf(store: "memory" | "sqlite" | "postgres") {
  if (store === "memory") return { url: ":memory:", options: {} };
  if (store === "postgres") {
    const { url, schema } = await freshSchema(onTestFinished);
    return { url, options: { schema } };
  }
  const folder = mkdtempSync(join(tmpdir(), "dibs-test-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return { url: join(folder, "work.db"), options: {} };
}

test.each(["memory", "sqlite", "postgres"] as const)(
  "dibs_tasks_added_total on %s counts tasks added by handlers, stages, verified queues and schedules",
  async (store) => {
    const { url, options } = await addressOf(store);
    let tell: (measured: Measured) => void = () => {};
    const port = await openPort(url, options, { measure: (measured) => tell(measured) });
    const server = await startServer(port, { onMeasured: (listener) => (tell = listener) });
    onTestFinished(async () => {
      await server.close();
      await port.close();
    });
    const dibs = await open(server.url);
    onTestFinished(() => dibs.close());

    const next = dibs.queue<number>("next");
    const topic = dibs.topic<number>("placed");
    await topic.subscription("stock").ready;
    dibs.queue<number>("handled").work(async (task) => {
      await task.add(next, 1);
      await task.add(next, 2, { idempotencyKey: "k" });
      await task.add(next, 3, { idempotencyKey: "k" });
      await task.publish(topic, 4);
    });
    await (await dibs.queue<number>("handled").add(1)).result();

    const checked = dibs.queue<number, number>("checked");
    await checked.verify(() => true).ready;
    checked.work((task) => task.data);
    await (await checked.add(1)).result();

    const report = dibs
      .pipeline<number[]>("report")
      .stage("split", (task) => each(task.data))
      .stage("double", (task) => task.data * 2)
      .join("sum", (task) => task.data.length);
    report.work();
    await (await report.add([1, 2, 3])).result();

    const fired = latch();
    dibs.queue("planned").work(() => fired.open());
    await dibs.schedule("soon", { every: "1s" }, { queue: "planned" }).ready;
    await fired.promise;
    await dibs.schedule("soon").delete();

    const text = await (await fetch(`${server.url}/metrics`)).text();
    const counted = Object.fromEntries(
      [...text.matchAll(/^dibs_tasks_added_total\{queue="(.*)"\} (\d+)$/gm)].map(([, queue, count]) => [
        queue,
        Number(count),
      ]),
    );
    expect(counted).toMatchObject({
      ...{ handled: 1, next: 2, checked: 1, "checked/verify": 1 },
      ...{ "report/split": 1, "report/double": 3, "report/sum": 1 },
    });
    expect(counted[topic.subscription("stock").name]).toBe(1);
    expect(counted["planned"]).toBeGreaterThanOrEqual(1);
  },
);
