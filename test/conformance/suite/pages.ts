import { describe, expect, test } from "vitest";
import { LIMITS } from "../../../src/core/input/limits.ts";
import type { ListQuery } from "../../../src/core/answer/page.ts";
import type { Port } from "../../../src/core/port.ts";
import type { Body, TaskRecord } from "../../../src/core/task/task.ts";
import {
  ack,
  addOne,
  claim,
  claimOne,
  idsOf,
  makeDead,
  nack,
  newTask,
  QUEUE,
  reject,
  type Start,
} from "./kit.ts";
import { large } from "./large.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

async function addLarge(port: Port, count: number, bytes: number): Promise<string[]> {
  return idsOf(await port.add(Array.from({ length: count }, () => newTask({ data: large(bytes) }))));
}

/** All pages of a list. Checks that no page exceeds the limit by more than one row. */
async function readPages(
  port: Port,
  query: Omit<ListQuery, "queue">,
  largest: number,
): Promise<TaskRecord[][]> {
  const pages: TaskRecord[][] = [];
  for (let after: string | undefined, more = true; more;) {
    const { tasks, next } = await port.list({ queue: QUEUE, ...query, after });
    const bytes = tasks.reduce((sum, { data, result }) => sum + data.length + (result?.length ?? 0), 0);
    expect(bytes).toBeLessThan(LIMITS.answerBytes + largest);
    pages.push(tasks);
    more = next !== null;
    after = next ?? undefined;
  }
  return pages;
}

export function pages(start: Start): void {
  describe("pages of tasks", () => {
    test("a page ends at the size limit, and the next one continues", async () => {
      const { port } = await start();
      const ids = await addLarge(port, 40, 200 * KIB);
      const pages = await readPages(port, { state: "ready", limit: 100, payloads: "full" }, 200 * KIB);
      expect(pages.length).toBeGreaterThan(1);
      expect(pages.length).toBeLessThan(5);
      expect(idsOf(pages.flat())).toEqual(ids);
    });

    test("a page has at least one task, however large it is", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxPayload: 8 * MIB });
      const ids = await addLarge(port, 3, 5 * MIB);
      const pages = await readPages(port, { state: "ready", limit: 100, payloads: "full" }, 5 * MIB);
      expect(pages.map((page) => idsOf(page))).toEqual(ids.map((id) => [id]));
    });

    test("a page ends at the size limit when results, headers and errors are large", async () => {
      const { port } = await start();
      const headers = { long: "h".repeat(16_000) };
      await port.add(Array.from({ length: 300 }, () => newTask({ headers })));
      expect((await readPages(port, { state: "ready", limit: 1_000 }, 1)).length).toBeGreaterThan(1);
      const error = { name: "Error", message: "m".repeat(8 * KIB), stack: "s".repeat(16 * KIB) };
      const held = await claim(port, { max: 300 });
      for (const each of held.slice(0, 200)) await reject(port, each, error);
      expect((await readPages(port, { state: "dead", limit: 1_000 }, 1)).length).toBeGreaterThan(1);
      for (const each of held.slice(200, 240)) await ack(port, each, JSON.stringify("r".repeat(200 * KIB)));
      const done = await readPages(port, { state: "done", limit: 1_000, payloads: "full" }, 201 * KIB);
      expect(done.length).toBeGreaterThan(1);
      expect(done.flat()).toHaveLength(Math.min(held.length, 240) - 200);
    });

    test("a filtered page of dead letters ends at the size limit", async () => {
      const { port } = await start();
      const ids = await addLarge(port, 25, 200 * KIB);
      while ((await port.stats(QUEUE)).depth.ready > 0)
        for (const each of await claim(port, { max: 25 })) await reject(port, each);
      const query = { state: "dead", limit: 100, payloads: "full", filter: { error: "broke" } } as const;
      const pages = await readPages(port, query, 200 * KIB);
      expect(pages.length).toBeGreaterThan(1);
      expect(idsOf(pages.flat()).sort()).toEqual(ids.sort());
    });
  });

  test("a cursor with text that a store cannot hold is refused, and other calls of the batch succeed", async () => {
    const { port } = await start();
    await addOne(port);
    const after = JSON.stringify(["\0", 1]);
    const [bad, good] = await Promise.allSettled([
      port.list({ queue: QUEUE, state: "waiting", limit: 1, after }),
      port.list({ queue: QUEUE, state: "ready", limit: 1 }),
    ]);
    expect(bad).toMatchObject({ status: "rejected", reason: { code: "INVALID" } });
    expect(good).toMatchObject({ status: "fulfilled", value: { tasks: [{ state: "ready" }] } });
  });

  describe("answers without pages", () => {
    test("a history contains the latest attempts that fit", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxAttempts: 1_000 });
      const { id } = await addOne(port);
      const error = { name: "Error", message: "m".repeat(8 * KIB), stack: "s".repeat(16 * KIB) };
      for (let i = 0; i < 200; i++) await nack(port, await claimOne(port), 0, error);
      const history = await port.history(id);
      expect(JSON.stringify(history).length).toBeLessThan(LIMITS.answerBytes + 200 * KIB);
      const first = 201 - history.length;
      expect(first).toBeGreaterThan(1);
      expect(history.map(({ attempt }) => attempt)).toEqual(history.map((_, i) => first + i));
    });

    test("a list of patterns contains the most frequent ones that fit", async () => {
      const { port } = await start();
      const header = (i: number): string => `${i}`.padEnd(15_000, "x");
      await port.add(Array.from({ length: 320 }, (_, i) => newTask({ headers: { kind: header(i % 300) } })));
      for (let left = 320; left > 0;) {
        const held = await claim(port, { max: 1_000 });
        await Promise.all(held.map((each) => reject(port, each)));
        left -= held.length;
      }
      const patterns = await port.patterns(QUEUE, "header:kind", 1_000);
      expect(JSON.stringify(patterns).length).toBeLessThan(LIMITS.answerBytes);
      expect(patterns.length).toBeGreaterThan(200);
      expect(patterns.slice(0, 20).map(({ count }) => count)).toEqual(Array(20).fill(2));
    });

    test("every waiting caller gets its result, however large the results are", async () => {
      const { port } = await start();
      const ids = idsOf(await port.add(Array.from({ length: 45 }, () => newTask())));
      const waiting = ids.map((id) => port.end(id));
      const result = JSON.stringify("r".repeat(200 * KIB));
      await Promise.all((await claim(port, { max: 100 })).map((held) => ack(port, held, result)));
      for (const end of await Promise.all(waiting)) expect(end).toMatchObject({ state: "done", result });
      const now = await Promise.all(ids.map((id) => port.end(id, { timeout: 0 })));
      expect(now.map(({ result: each }) => each === result)).toEqual(ids.map(() => true));
    });
  });

  describe("payloads in lists", () => {
    async function shown(port: Port, data: Body, payloads?: "preview" | "full"): Promise<TaskRecord> {
      await port.add([newTask({ data, ...(typeof data !== "string" && { contentType: "application/x" }) })]);
      const { tasks } = await port.list({ queue: QUEUE, state: "ready", limit: 1_000, payloads });
      return tasks.at(-1)!;
    }

    test("a list contains whole payloads up to 1 KiB", async () => {
      const { port } = await start();
      const data = "x".repeat(LIMITS.previewAbove);
      const task = await shown(port, data);
      expect(task.data).toBe(data);
      expect(task).toEqual(await port.task(task.id));
    });

    test("a list shortens larger payloads, and gives their full size", async () => {
      const { port } = await start();
      const data = "x".repeat(LIMITS.previewAbove + 1);
      const task = await shown(port, data);
      expect(task.data).toBe("x".repeat(LIMITS.preview));
      expect(task.truncated).toEqual({ data: data.length });
      expect(await port.task(task.id)).toEqual({ ...omitTruncated(task), data });
    });

    test("a shortened payload is cut between characters, and its size is in bytes", async () => {
      const { port } = await start();
      const task = await shown(port, "a😀".repeat(400));
      expect(task.data).toBe("a😀".repeat(LIMITS.preview / 2));
      expect(task.truncated).toEqual({ data: 2_000 });
      expect(await shown(port, "é".repeat(500))).toMatchObject({ data: "é".repeat(500) });
    });

    test("a shortened payload of bytes contains the first bytes", async () => {
      const { port } = await start();
      const bytes = Uint8Array.from({ length: 2_000 }, (_, i) => i % 251);
      const task = await shown(port, bytes);
      expect(task.data).toEqual(bytes.slice(0, LIMITS.preview));
      expect(task.truncated).toEqual({ data: 2_000 });
    });

    test("a list contains full payloads on request", async () => {
      const { port } = await start();
      const data = JSON.stringify("x".repeat(100 * KIB));
      const task = await shown(port, data, "full");
      expect(task.data).toBe(data);
      expect(task).toEqual(await port.task(task.id));
    });

    test("results in lists are shortened in the same way", async () => {
      const { port } = await start();
      await port.add([newTask()]);
      const result = JSON.stringify("r".repeat(2_000));
      await ack(port, await claimOne(port), result);
      const query = { queue: QUEUE, state: "done", limit: 1 } as const;
      const [task] = (await port.list(query)).tasks;
      expect(task).toMatchObject({ data: "{}", result: result.slice(0, LIMITS.preview) });
      expect(task!.truncated).toEqual({ result: result.length });
      const [whole] = (await port.list({ ...query, payloads: "full" })).tasks;
      expect(whole).toEqual(await port.task(task!.id));
    });

    test("payloads of dead letters are shortened in the same way", async () => {
      const { port } = await start();
      const data = JSON.stringify("d".repeat(2_000));
      await makeDead(port, { data });
      const query = { queue: QUEUE, state: "dead", limit: 1 } as const;
      expect((await port.list(query)).tasks).toMatchObject([{ truncated: { data: data.length } }]);
      expect((await port.list({ ...query, payloads: "full" })).tasks).toMatchObject([{ data }]);
    });
  });
}

function omitTruncated({ truncated, ...rest }: TaskRecord): TaskRecord {
  expect(truncated).toBeDefined();
  return rest;
}
