import { expect, onTestFinished, test } from "vitest";
import { HeartbeatThread } from "../../../src/engines/postgres/heartbeat/heartbeats.ts";

test("a thread that ends as soon as it is started is started again after longer and longer, and that is told", async () => {
  const told: { error: Error; at: number }[] = [];
  const enough = Promise.withResolvers<void>();
  // Without its data it cannot begin.
  const pulse = new HeartbeatThread(
    null as never,
    () => {},
    (error) => {
      if (told.push({ error, at: performance.now() }) === 5) enough.resolve();
    },
  );
  onTestFinished(() => pulse.stop());
  pulse.join(1, 60_000, 0);
  await enough.promise;
  expect(told[0]!.error).toBeInstanceOf(TypeError);
  // 20, 40, 80 and 160 ms, whatever else it took.
  expect(told[4]!.at - told[0]!.at).toBeGreaterThan(299);
});
