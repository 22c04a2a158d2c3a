import { expect, onTestFinished, test } from "vitest";
import { createBroker } from "../../src/broker/broker.ts";
import { openMemory } from "../../src/engines/memory/engine.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";

test("a new schedule fires when it is due, before the next poll of the store", async () => {
  const clock = new ManualClock();
  const port = createBroker(openMemory({ clock }), { clock });
  onTestFinished(() => port.close());
  await port.schedule("s", { every: 1_000, missed: "once", task: { queue: "q", data: "{}" } });
  await clock.advance(1_000);
  expect((await port.list({ queue: "q", state: "ready", limit: 10 })).tasks).toHaveLength(1);
});
