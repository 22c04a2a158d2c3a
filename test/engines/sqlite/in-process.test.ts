import { existsSync } from "node:fs";
import type * as workerThreads from "node:worker_threads";
import { expect, onTestFinished, test, vi } from "vitest";
import { openSqlite } from "../../../src/engines/sqlite/engine.ts";
import { call, newTask, QUEUE, tempPath } from "./kit.ts";

const threads = vi.hoisted(() => ({ started: 0 }));
vi.mock("node:worker_threads", async (original) => {
  const actual = await original<typeof workerThreads>();
  class Worker extends actual.Worker {
    constructor(...args: ConstructorParameters<typeof actual.Worker>) {
      threads.started++;
      super(...args);
    }
  }
  return { ...actual, Worker };
});

test("a store that is opened briefly starts no thread, and another process finds what it added", async () => {
  const path = tempPath();
  const brief = await openSqlite({ path, isBrief: true });
  await call(brief, { verb: "add", tasks: [newTask()] });
  const queues = await call(brief, { verb: "queues", limit: 10 });
  await brief.close();
  expect(queues.items.map(({ name }) => name)).toEqual([QUEUE]);
  expect(threads.started).toBe(0);

  const later = await openSqlite({ path });
  onTestFinished(() => later.close());
  expect((await call(later, { verb: "queues", limit: 10 })).items).toHaveLength(1);
});

test("a store that is opened briefly and does not exist is refused, and not created", async () => {
  const path = tempPath();
  await expect(openSqlite({ path, isBrief: true, create: false })).rejects.toThrow(/There is no store/);
  expect(existsSync(path)).toBe(false);
});
