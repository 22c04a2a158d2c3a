import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/engine/system-clock.ts";
import { openPostgres } from "../../../src/engines/postgres/engine.ts";
import { HeartbeatThread } from "../../../src/engines/postgres/heartbeat/heartbeats.ts";
import { ground } from "./kit.ts";

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
    async () => true,
  );
  onTestFinished(() => pulse.stop());
  pulse.join(1, 60_000, 0);
  await enough.promise;
  expect(told[0]!.error).toBeInstanceOf(TypeError);
  // 20, 40, 80 and 160 ms, whatever else it took.
  expect(told[4]!.at - told[0]!.at).toBeGreaterThan(299);
});

test("sessions get heartbeats from the process itself while no thread has started", async () => {
  const beaten = Promise.withResolvers<number[]>();
  const pulse = new HeartbeatThread(
    null as never,
    () => {},
    () => {},
    async (sessions) => {
      beaten.resolve(sessions);
      return true;
    },
  );
  onTestFinished(() => pulse.stop());
  pulse.join(1, 300, 0);
  expect(await beaten.promise).toEqual([1]);
});

test("sessions get heartbeats from the thread alone once it has started", async () => {
  const { url, schema } = await ground();
  const beaten = Promise.withResolvers<void>();
  let here = 0;
  const link = { url, schema, prepare: true, settings: {}, connectMs: 10_000 };
  await (await openPostgres({ url, schema })).close();
  const pulse = new HeartbeatThread(
    { link, tx: { session: true, durability: "full" }, where: "here", patience: 10_000 },
    (report) => {
      if ("ran" in report) beaten.resolve();
    },
    (error) => beaten.reject(error),
    async () => {
      here++;
      return true;
    },
  );
  onTestFinished(() => pulse.stop());
  // The thread takes less than the ten seconds until its first beat is due: this one is due at once.
  pulse.join(1, 30_000, systemClock.read().awake - 15_000);
  await beaten.promise;
  expect(here).toBe(0);
});
