import { describe, expect, test } from "vitest";
import { z } from "zod";
import { open } from "../../src/index.ts";

describe("changes of a task through its handle", () => {
  test("update changes priority, due time and data, and returns the state", async () => {
    await using dibs = await open(":memory:");
    const added = await dibs.queue("mail").add({ to: "a" });
    const task = dibs.task(added.id);
    expect(await task.update({ priority: 3, data: { to: "b" } })).toBe("ready");
    expect(await task.update({ runAt: new Date(Date.now() + 3_600_000) })).toBe("scheduled");
    expect(await task.info()).toMatchObject({ state: "scheduled", priority: 3, data: { to: "b" } });
    expect(await task.promote()).toBe("ready");
    expect(await task.update({ delay: "1h" })).toBe("scheduled");
    expect(await task.update({ delay: 0 })).toBe("ready");
  });

  test("update of a handle that add returned checks the data with the queue's schema", async () => {
    await using dibs = await open(":memory:");
    const mail = dibs.queue("mail", { schema: z.object({ to: z.string() }) });
    const task = await mail.add({ to: "a" });
    await expect(task.update({ data: { to: 1 } })).rejects.toMatchObject({ code: "INVALID" });
    expect((await task.info()).data).toEqual({ to: "a" });
    expect(await task.update({ data: { to: "b" } })).toBe("ready");
  });

  test("update refuses unknown options, delay with runAt, and nothing at all", async () => {
    await using dibs = await open(":memory:");
    const task = await dibs.queue("mail").add(1);
    const wrong = [{}, { prio: 1 }, { delay: 1, runAt: new Date() }, { runAt: "tomorrow" }];
    for (const options of wrong)
      await expect(task.update(options as never)).rejects.toMatchObject({ code: "INVALID" });
  });

  test("runAgain runs a finished task again, and its history has a note", async () => {
    await using dibs = await open(":memory:");
    const mail = dibs.queue<number, number>("mail");
    const task = await mail.add(1);
    const [first] = await mail.claim();
    await first!.ack(10);
    expect(await task.result()).toBe(10);
    expect(await task.runAgain()).toBe("ready");
    const [second] = await mail.claim();
    await second!.ack(20);
    expect(await task.result()).toBe(20);
    const history = await task.history();
    expect(history.map(({ outcome, log }) => [outcome, log.map(({ text }) => text)])).toEqual([
      ["done", ["Runs again. It was done."]],
      ["done", []],
    ]);
    await expect(task.update({ priority: 1 })).rejects.toMatchObject({ code: "WRONG_STATE" });
  });
});
