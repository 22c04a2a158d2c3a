import { describe, expect, test } from "vitest";
import type { NewTask } from "../../../src/core/task/task.ts";
import {
  addNamed,
  addOne,
  claim,
  claimNames,
  claimOne,
  depths,
  HOUR,
  MINUTE,
  namesOf,
  newTask,
  numbered,
  QUEUE,
  SECOND,
  type Start,
  stateOf,
} from "./kit.ts";

const UUID7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const EVERY_BYTE = Uint8Array.from({ length: 256 }, (_, byte) => byte);

export function add(start: Start): void {
  describe("added tasks", () => {
    test("the id of a task is a UUIDv7 with the engine's time, and ids sort by arrival", async () => {
      const { port, clock, startedAt } = await start();
      const ids = await addNamed(port, numbered(50));
      await clock.advance(SECOND);
      ids.push(...(await addNamed(port, numbered(50), { queue: "other" })));
      for (const id of ids) expect(id).toMatch(UUID7);
      expect(ids.toSorted()).toEqual(ids);
      expect(new Set(ids).size).toBe(100);
      expect(Number.parseInt(ids[0]!.replace("-", "").slice(0, 12), 16)).toBe(startedAt);
    });

    test("add answers the queue and the state of each task", async () => {
      const { port } = await start();
      const tasks = [
        newTask({ queue: "a" }),
        newTask({ delay: 1 }),
        newTask({ groupKey: "g" }),
        newTask({ groupKey: "g" }),
      ];
      expect(await port.add(tasks)).toMatchObject([
        { queue: "a", state: "ready", existing: false },
        { queue: QUEUE, state: "scheduled", existing: false },
        { queue: QUEUE, state: "ready", existing: false },
        { queue: QUEUE, state: "waiting", existing: false },
      ]);
    });

    test("get returns every field of a task", async () => {
      const { port, startedAt } = await start();
      const given = {
        queue: QUEUE,
        data: "text",
        contentType: "text/plain",
        headers: { type: "letter" },
        priority: 7,
        groupKey: "g",
        idempotencyKey: "k",
        maxAttempts: 2,
        cost: 40,
        urgent: true,
      };
      const { id } = await addOne(port, { ...given, delay: MINUTE, ttl: HOUR });
      expect(await port.task(id)).toEqual({
        ...given,
        id,
        state: "scheduled",
        attempt: 1,
        createdAt: startedAt,
        dueAt: startedAt + MINUTE,
        expiresAt: startedAt + HOUR,
        worker: null,
        waitsFor: null,
        run: null,
        startedAt: null,
        endedAt: null,
        progress: null,
        cancelRequested: false,
        result: null,
        error: null,
      });
      expect(await port.history(id)).toEqual([]);
    });

    test("a task gets the defaults for options that were not set", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      expect(await port.task(id)).toMatchObject({
        state: "ready",
        contentType: "application/json",
        headers: {},
        priority: 0,
        groupKey: null,
        idempotencyKey: null,
        maxAttempts: 5,
        dueAt: null,
        waitsFor: null,
        run: null,
        expiresAt: null,
      });
    });
  });

  describe("payloads and options come back unchanged", () => {
    const cases: [string, Partial<NewTask>][] = [
      ["JSON", { data: '{"a":[1,2.5,null,"x"]}' }],
      ["empty text", { data: "" }],
      ["white space", { data: " \t\r\n " }],
      ["text of many scripts", { data: "日本語 ελληνικά עברית 🐝👩‍👩‍👧 e\u0301 \u{10FFFF}" }],
      ["characters that stores often get wrong", { data: "a\u0000b \uFEFF \u2028 ' \" \\ %s $1 ?" }],
      ["bytes", { data: EVERY_BYTE, contentType: "application/octet-stream" }],
      ["no bytes", { data: new Uint8Array(), contentType: "application/octet-stream" }],
      ["a part of a larger buffer", { data: EVERY_BYTE.subarray(10, 20), contentType: "image/png" }],
      ["a content type", { data: "a,b", contentType: "text/csv; charset=utf-8" }],
      [
        "headers",
        { headers: { type: "letter", "": "no name", 名: "値 🐝", constructor: "x", quote: `'"\\` } },
      ],
      ["keys", { groupKey: "g '🐝\" %", idempotencyKey: "k '🐝\" %" }],
    ];
    const together = start.together();

    test.each(cases)("a task with %s comes back unchanged", async (_, fields) => {
      const { port } = together();
      const { id } = await addOne(port, fields);
      const record = await port.task(id);
      expect(record).toMatchObject(fields);
      expect(record.headers).toEqual(fields.headers ?? {});
      const held = await claimOne(port);
      expect(held.data).toEqual(record.data);
      expect(held.data instanceof Uint8Array).toBe(fields.data instanceof Uint8Array);
      expect(held).toMatchObject({
        contentType: record.contentType,
        headers: record.headers,
        groupKey: record.groupKey,
      });
    });

    test("changing a payload after the call does not change the stored one", async () => {
      const { port } = await start();
      const data = Uint8Array.of(1, 2, 3);
      const { id } = await addOne(port, { data });
      data.fill(9);
      expect((await port.task(id)).data).toEqual(Uint8Array.of(1, 2, 3));
    });
  });

  describe("batches of tasks", () => {
    test("a batch is claimed in its order, after earlier tasks", async () => {
      const { port } = await start();
      await addNamed(port, ["1", "2", "3"]);
      await addNamed(port, ["4", "5"]);
      expect(await claimNames(port)).toEqual(["1", "2", "3", "4", "5"]);
    });

    test("a batch may go to several queues", async () => {
      const { port } = await start();
      await port.add([newTask({ queue: "a" }), newTask({ queue: "b" }), newTask({ queue: "a" })]);
      expect(await depths(port, "a")).toEqual({ ready: 2 });
      expect(await depths(port, "b")).toEqual({ ready: 1 });
    });

    test("a batch may have 10,000 tasks", async () => {
      const { port } = await start();
      const added = await addNamed(port, numbered(10_000));
      expect(new Set(added).size).toBe(10_000);
      expect(await depths(port)).toEqual({ ready: 10_000 });
    });
  });

  describe("priority", () => {
    test("a higher priority is claimed first, then arrival decides", async () => {
      const { port } = await start();
      const priorities = [0, -1_000, 5, 1_000, 5, 0];
      await port.add(priorities.map((priority, index) => newTask({ priority, data: `${index}` })));
      expect(await claimNames(port)).toEqual(["3", "2", "4", "0", "5", "1"]);
    });

    test("a task that is not due hides no task of lower priority", async () => {
      const { port } = await start();
      await port.add([newTask({ priority: 1_000, delay: MINUTE, data: "later" }), newTask({ data: "now" })]);
      expect(await claimNames(port)).toEqual(["now"]);
    });
  });

  describe("delay", () => {
    test("a delayed task becomes ready exactly when it is due", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { delay: MINUTE });
      await clock.advance(MINUTE - 1);
      expect(await claim(port)).toEqual([]);
      expect(await stateOf(port, id)).toBe("scheduled");
      await clock.advance(1);
      expect(await claim(port)).toHaveLength(1);
    });

    test("a delayed task keeps its position by arrival", async () => {
      const { port, clock } = await start();
      await addOne(port, { delay: SECOND, data: "first" });
      await addOne(port, { data: "second" });
      await clock.advance(SECOND);
      expect(await claimNames(port)).toEqual(["first", "second"]);
    });

    test("tasks with many different delays become ready in the order of their due times", async () => {
      const { port, clock } = await start();
      const delays = [3, 1, 2];
      await port.add(delays.map((seconds) => newTask({ delay: seconds * SECOND, data: `${seconds}` })));
      for (const seconds of [1, 2, 3]) {
        await clock.advance(SECOND);
        expect(namesOf(await claim(port, { max: 9 }))).toEqual([`${seconds}`]);
      }
    });

    test("a delay of zero is no delay", async () => {
      const { port } = await start();
      expect((await addOne(port, { delay: 0 })).state).toBe("ready");
    });
  });
}
