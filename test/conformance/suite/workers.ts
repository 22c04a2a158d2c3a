import { describe, expect, test } from "vitest";
import { ack, addNamed, claim, joinWorker, QUEUE, SECOND, type Start } from "./kit.ts";

const LEASE = 30 * SECOND;

export function workers(start: Start): void {
  describe("list of workers", () => {
    test("the list of workers shows who they are and how many tasks they hold", async () => {
      const { port, clock, startedAt } = await start();
      const info = {
        id: "id-1",
        name: "mailer 🐝",
        queues: [QUEUE, "other"],
        concurrency: 10,
        host: "box",
        pid: 77,
      };
      await clock.advance(SECOND);
      const session = await port.join(info, LEASE, () => {});
      await addNamed(port, ["1", "2", "3"]);
      const held = await claim(port, { worker: "id-1", session, max: 2 });
      expect((await port.workers()).items).toEqual([
        { ...info, joinedAt: startedAt + SECOND, silentFor: 0, claims: 2 },
      ]);
      await ack(port, held[0]!);
      expect((await port.workers()).items).toMatchObject([{ claims: 1 }]);
    });

    test("the list of workers can be limited to one queue", async () => {
      const { port } = await start();
      await joinWorker(port, "a", { queues: ["x", "y"] });
      await joinWorker(port, "b", { queues: ["y"] });
      expect((await port.workers({ queue: "x" })).items.map(({ id }) => id)).toEqual(["a"]);
      expect((await port.workers({ queue: "y" })).items.map(({ id }) => id)).toEqual(["a", "b"]);
      expect((await port.workers({ queue: "z" })).items).toEqual([]);
      expect((await port.workers()).items).toHaveLength(2);
    });

    test("a worker that leaves disappears from the list", async () => {
      const { port } = await start();
      const worker = await joinWorker(port, "w");
      await port.leave(worker.session);
      expect((await port.workers()).items).toEqual([]);
    });

    test("a worker with heartbeats stays in the list", async () => {
      const { port, clock } = await start();
      await joinWorker(port, "w");
      await clock.advance(10 * LEASE);
      const [worker] = (await port.workers()).items;
      expect(worker!.silentFor).toBeLessThanOrEqual(LEASE / 3);
    });

    test("the list shows how long a worker has sent no heartbeat, and drops it after its lease", async () => {
      const { port, clock, hang } = await start();
      await joinWorker(port, "w");
      hang();
      await clock.advance(LEASE - 1);
      expect((await port.workers()).items).toMatchObject([{ id: "w", silentFor: LEASE - 1 }]);
      await clock.advance(1);
      expect((await port.workers()).items).toEqual([]);
    });

    test("several instances may share a name", async () => {
      const { port } = await start();
      await joinWorker(port, "a", { name: "mailer" });
      await joinWorker(port, "b", { name: "mailer" });
      expect((await port.workers()).items.map(({ name }) => name)).toEqual(["mailer", "mailer"]);
    });
  });
}
