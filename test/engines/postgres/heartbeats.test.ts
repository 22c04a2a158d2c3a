import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/engine/system-clock.ts";
import { openPostgres } from "../../../src/engines/postgres/engine.ts";
import { HeartbeatThread } from "../../../src/engines/postgres/heartbeat/heartbeats.ts";
import { ground } from "./kit.ts";

test("a heartbeat thread that ends at its start is restarted after longer and longer pauses, and each failure is reported", async () => {
  const failures: { error: Error; at: number }[] = [];
  const enough = Promise.withResolvers<void>();
  // Without its data the thread fails at its start.
  const heartbeats = new HeartbeatThread(
    null as never,
    () => {},
    (error) => {
      if (failures.push({ error, at: performance.now() }) === 5) enough.resolve();
    },
    async () => true,
  );
  onTestFinished(() => heartbeats.stop());
  heartbeats.join(1, 60_000, 0);
  await enough.promise;
  expect(failures[0]!.error).toBeInstanceOf(TypeError);
  // The pauses are 20, 40, 80 and 160 ms: at least 300 ms in total.
  expect(failures[4]!.at - failures[0]!.at).toBeGreaterThan(299);
});

test("sessions get heartbeats from the process itself while no thread has started", async () => {
  const sent = Promise.withResolvers<number[]>();
  const heartbeats = new HeartbeatThread(
    null as never,
    () => {},
    () => {},
    async (sessions) => {
      sent.resolve(sessions);
      return true;
    },
  );
  onTestFinished(() => heartbeats.stop());
  heartbeats.join(1, 300, 0);
  expect(await sent.promise).toEqual([1]);
});

test("sessions get heartbeats only from the thread once it has started", async () => {
  const { url, schema } = await ground();
  const sent = Promise.withResolvers<void>();
  let here = 0;
  const link = { url, schema, prepare: true, settings: {}, connectMs: 10_000 };
  await (await openPostgres({ url, schema })).close();
  const heartbeats = new HeartbeatThread(
    { link, tx: { session: true, durability: "full" }, where: "here", patience: 10_000 },
    (report) => {
      if ("result" in report) sent.resolve();
    },
    (error) => sent.reject(error),
    async () => {
      here++;
      return true;
    },
  );
  onTestFinished(() => heartbeats.stop());
  // Join with a heartbeat that is due at once: otherwise the first one would be due in ten seconds.
  heartbeats.join(1, 30_000, systemClock.read().awake - 15_000);
  await sent.promise;
  expect(here).toBe(0);
});
