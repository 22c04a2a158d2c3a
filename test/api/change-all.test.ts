import { describe, expect, test } from "vitest";
import { open } from "../../src/index.ts";

describe("queue.changeAll", () => {
  test("changeAll cancels all tasks that match, in batches, and reports progress", async () => {
    await using dibs = await open(":memory:");
    const mail = dibs.queue<number>("mail");
    await mail.addMany(
      Array.from({ length: 450 }, (_, data) => ({ data, headers: { tenant: data % 2 ? "a" : "b" } })),
    );
    const seen: number[] = [];
    const outcome = await mail.changeAll("cancel", {
      headers: { tenant: "a" },
      onProgress: ({ changed }) => seen.push(changed),
    });
    expect(outcome).toEqual({ changed: 225, skipped: 0, searched: 450 });
    expect(seen[0]).toBe(200);
    expect(seen.at(-1)).toBe(225);
    const { depth } = await mail.stats();
    expect(depth).toMatchObject({ ready: 225, cancelled: 225 });
  });

  test("changeAll promotes, changes and runs tasks again, and does not touch others", async () => {
    await using dibs = await open(":memory:");
    const mail = dibs.queue<number>("mail");
    await mail.addMany([{ data: 1, delay: "1h" }, { data: 2, delay: "1h", groupKey: "g" }, { data: 3 }]);
    expect(await mail.changeAll("promote", { groupKey: "g" })).toMatchObject({ changed: 1 });
    expect(await mail.changeAll({ priority: 5 })).toMatchObject({ changed: 3, skipped: 0 });
    expect(await mail.changeAll({ priority: 5 })).toMatchObject({ changed: 0, skipped: 3 });
    expect(await mail.changeAll({ delay: "2h" }, { state: "ready" })).toMatchObject({ changed: 2 });
    expect(await mail.changeAll("cancel", { dryRun: true })).toMatchObject({ changed: 3 });
    expect(await mail.changeAll("cancel", { limit: 2 })).toMatchObject({ changed: 2 });
    expect(await mail.changeAll("runAgain", { state: "cancelled" })).toMatchObject({ changed: 2 });
    const { depth } = await mail.stats();
    expect(depth).toMatchObject({ ready: 2, scheduled: 1, cancelled: 0 });
  });

  test("changeAll does not change a task twice that it moved into the next state", async () => {
    await using dibs = await open(":memory:");
    const mail = dibs.queue<number>("mail");
    await mail.addMany(Array.from({ length: 300 }, (_, data) => ({ data, delay: "1h" })));
    expect(await mail.changeAll({ delay: 0, priority: 1 })).toEqual({
      ...{ changed: 300, skipped: 0, searched: expect.any(Number) },
    });
  });

  test("changeAll stops when its signal aborts, and refuses unknown changes", async () => {
    await using dibs = await open(":memory:");
    const mail = dibs.queue<number>("mail");
    await mail.addMany(Array.from({ length: 500 }, (_, data) => ({ data })));
    const stop = new AbortController();
    const call = mail.changeAll("cancel", { signal: stop.signal, onProgress: () => stop.abort() });
    await expect(call).rejects.toMatchObject({ name: "AbortError" });
    expect((await mail.stats()).depth.cancelled).toBe(200);
    const wrong: [unknown, object?][] = [
      ["delete"],
      [{}],
      ["cancel", { status: "ready" }],
      ["cancel", { state: "asleep" }],
      ["runAgain"],
    ];
    for (const [change, options = {}] of wrong)
      await expect(mail.changeAll(change as never, options as never)).rejects.toMatchObject({
        code: "INVALID",
      });
  });

  test("tasks finds tasks by key, group and headers, in all states", async () => {
    await using dibs = await open(":memory:");
    const mail = dibs.queue<number>("mail");
    const task = await mail.add(1, { idempotencyKey: "k", headers: { tenant: "a" }, groupKey: "g" });
    await task.cancel();
    for (const options of [{ idempotencyKey: "k" }, { headers: { tenant: "a" } }, { groupKey: "g" }])
      expect((await mail.tasks(options)).tasks.map(({ id }) => id)).toEqual([task.id]);
    await expect(mail.tasks({})).rejects.toMatchObject({ code: "INVALID" });
  });
});
