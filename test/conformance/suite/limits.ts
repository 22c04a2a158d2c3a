import { describe, expect, test } from "vitest";
import type { NewTask } from "../../../src/core/task/task.ts";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimOne,
  depths,
  HOUR,
  newTask,
  numbered,
  QUEUE,
  refused,
  type Start,
} from "./kit.ts";

/** Three bytes in UTF-8. */
const WIDE = "語";

export function limits(start: Start): void {
  describe("maxPayload", () => {
    test.each([
      ["text", "x".repeat(100), "x".repeat(101)],
      ["text of two bytes a letter", "é".repeat(50), "é".repeat(50) + "x"],
      ["text of three bytes a letter", `${WIDE.repeat(33)}x`, WIDE.repeat(34)],
      ["text of four bytes a letter", "🐝".repeat(25), "🐝".repeat(25) + "x"],
      ["bytes", new Uint8Array(100), new Uint8Array(101)],
    ])("a payload may have exactly maxPayload bytes: %s", async (_, fits, larger) => {
      const { port } = await start();
      await port.declare(QUEUE, { maxPayload: 100 });
      await refused(
        () => addOne(port, { data: larger }),
        "PAYLOAD_TOO_LARGE",
        " bytes",
        "100",
        "maxPayload",
        QUEUE,
      );
      expect(await depths(port)).toEqual({});
      await addOne(port, { data: fits });
      expect((await claimOne(port)).data).toEqual(fits);
    });

    test("a payload may have 256 KiB by default", async () => {
      const { port } = await start();
      await addOne(port, { data: "x".repeat(256 * 1024) });
      await refused(
        () => addOne(port, { data: "x".repeat(256 * 1024 + 1) }),
        "PAYLOAD_TOO_LARGE",
        "262145",
        "262144",
      );
    });

    test("a payload that is too large refuses its whole batch, and the error names the task", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxPayload: 10 });
      const tasks = [newTask({ queue: "other" }), newTask(), newTask({ data: "x".repeat(11) })];
      await refused(() => port.add(tasks), "PAYLOAD_TOO_LARGE", "task 2", "11 bytes");
      expect((await port.queues()).items.map(({ name }) => name)).toEqual([QUEUE]);
      expect(await depths(port)).toEqual({});
    });
  });

  describe("maxDepth", () => {
    test("a full queue refuses tasks above maxDepth", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxDepth: 3 });
      await addNamed(port, ["1", "2"]);
      await refused(() => addNamed(port, ["3", "4"]), "QUEUE_FULL", "2 tasks", "3", "maxDepth", QUEUE);
      expect(await depths(port)).toEqual({ ready: 2 });
      await addNamed(port, ["3"]);
      await refused(() => addNamed(port, ["4"]), "QUEUE_FULL");
    });

    test("maxDepth counts ready, waiting and scheduled tasks, not claimed or ended ones", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxDepth: 3 });
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      await addOne(port, { delay: HOUR });
      await refused(() => addOne(port), "QUEUE_FULL");
      const held = await claimOne(port);
      await addOne(port);
      await refused(() => addOne(port), "QUEUE_FULL");
      await ack(port, held);
      await refused(() => addOne(port), "QUEUE_FULL");
    });

    test("a task may return to a full queue", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { maxDepth: 1 });
      await addOne(port);
      await claim(port);
      await addOne(port);
      await clock.advance(30_000);
      expect(await depths(port)).toEqual({ ready: 2 });
    });

    test("a batch for several queues is refused as a whole if one is full", async () => {
      const { port } = await start();
      await port.declare("full", { maxDepth: 0 });
      await refused(() => port.add([newTask(), newTask({ queue: "full" })]), "QUEUE_FULL", '"full"');
      expect((await port.queues()).items.map(({ name }) => name)).toEqual(["full"]);
    });

    test("adding to a full queue can be retried later", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxDepth: 0 });
      const error = await addOne(port).catch((error: unknown) => error);
      expect(error).toMatchObject({ code: "QUEUE_FULL", retryable: true });
      await port.declare(QUEUE, { maxDepth: null }, { force: true });
      await addOne(port);
    });
  });

  describe("extreme values", () => {
    const edges: [string, Partial<NewTask>][] = [
      ["the highest priority", { priority: 1_000 }],
      ["the lowest priority", { priority: -1_000 }],
      ["the longest delay", { delay: 3_650 * 86_400_000 }],
      ["the longest ttl", { ttl: 3_650 * 86_400_000 }],
      ["the shortest ttl", { ttl: 1 }],
      ["the most attempts", { maxAttempts: 1_000 }],
      ["the longest groupKey", { groupKey: "🐝".repeat(256) }],
      ["the longest idempotencyKey", { idempotencyKey: WIDE.repeat(512) }],
      // {"h":"…"} has eight bytes besides the value.
      ["the largest headers", { headers: { h: "x".repeat(16 * 1024 - 8) } }],
      ["the longest queue name", { queue: "q".repeat(128) }],
    ];
    const together = start.together();

    test.each(edges)("%s is accepted", async (_, fields) => {
      const { port } = together();
      const { id } = await addOne(port, fields);
      expect(await port.task(id)).toMatchObject({ id });
    });

    test("a claim of 1,000 tasks that waits a minute is accepted", async () => {
      const { port } = await start();
      await addNamed(port, numbered(2));
      expect(await claim(port, { max: 1_000, wait: 60_000, worker: "w".repeat(256) })).toHaveLength(2);
    });
  });
}
