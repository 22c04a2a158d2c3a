import { describe, expect, test } from "vitest";
import { LIMITS } from "../../../src/core/limits.ts";
import type { ClaimCall, Port } from "../../../src/core/port.ts";
import type { Body, ClaimedTask, NewTask } from "../../../src/core/task.ts";
import { claim, depths, HOUR, idsOf, joinWorker, nack, newTask, QUEUE, type Start, waiting } from "./kit.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
const LARGE = 200 * KIB;
/** So many of the large ones one claim hands out. */
const FULL = 20;

async function addLarge(port: Port, count: number, fields: Partial<NewTask> = {}): Promise<string[]> {
  return idsOf(await port.add(Array.from({ length: count }, () => newTask({ data: large(), ...fields }))));
}

/** Random enough that no store makes it small by packing it. */
function large(bytes = LARGE): string {
  return JSON.stringify(Array.from({ length: bytes / 8 }, (_, i) => (i * 7919) % 1e7).join("-")).slice(
    0,
    bytes,
  );
}

/** Claims until nothing comes. No answer has more than an answer may have, and one task. */
async function claimAll(port: Port, wish: Partial<ClaimCall> = {}): Promise<ClaimedTask[][]> {
  const claims: ClaimedTask[][] = [];
  for (;;) {
    const tasks = await claim(port, { max: 100, ...wish });
    if (tasks.length === 0) return claims;
    const sizes = tasks.map(({ data, headers }) => data.length + JSON.stringify(headers).length);
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    expect(bytes - (tasks.length === 1 ? sizes[0]! : 0)).toBeLessThan(LIMITS.answerBytes);
    claims.push(tasks);
  }
}

export function claimSizes(start: Start): void {
  describe("the answer of a claim", () => {
    test("ends at its size, and the next claim goes on behind it", async () => {
      const { port } = await start();
      const ids = await addLarge(port, 45);
      const first = await claim(port, { max: 100 });
      expect(first).toHaveLength(FULL);
      expect(await depths(port)).toEqual({ claimed: FULL, ready: 45 - FULL });
      const rest = await claimAll(port);
      expect(rest.map((tasks) => tasks.length)).toEqual([FULL, 5]);
      expect(idsOf([...first, ...rest.flat()])).toEqual(ids);
      expect(await depths(port)).toEqual({ claimed: 45 });
      expect(new Set(rest.flat().map(({ data }) => data))).toEqual(new Set([large()]));
    });

    test("has one task at least, however large that is", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxPayload: 8 * MIB });
      const ids = await addLarge(port, 3, { data: large(5 * MIB) });
      const claims = await claimAll(port);
      expect(claims.map((tasks) => idsOf(tasks))).toEqual(ids.map((id) => [id]));
    });

    test("ends before a large task, and no smaller one behind it comes first", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxPayload: 8 * MIB });
      const [small] = await addLarge(port, 1, { data: "small" });
      const [whole] = await addLarge(port, 1, { data: large(5 * MIB) });
      const [last] = await addLarge(port, 1, { data: "last" });
      const [other] = await addLarge(port, 1, { data: "other", queue: "other" });
      const claims = await claimAll(port, { queues: [QUEUE, "other"] });
      expect(claims.map((tasks) => idsOf(tasks))).toEqual([[small], [whole], [last, other]]);
    });

    test("ends at its size where headers are what is large", async () => {
      const { port } = await start();
      const headers = { long: "h".repeat(16_000) };
      const ids = await addLarge(port, 300, { data: "{}", headers });
      const claims = await claimAll(port, { max: 1_000 });
      expect(claims.length).toBe(2);
      expect(idsOf(claims.flat())).toEqual(ids);
    });

    test("ends at its size where payloads are bytes", async () => {
      const { port } = await start();
      const data: Body = Uint8Array.from({ length: LARGE }, (_, i) => (i * 31) % 251);
      const ids = await addLarge(port, 25, { data, contentType: "application/x" });
      const claims = await claimAll(port);
      expect(claims.map((tasks) => tasks.length)).toEqual([FULL, 5]);
      expect(idsOf(claims.flat())).toEqual(ids);
      expect(claims[1]![4]!.data).toEqual(data);
    });

    test("has the tasks of the highest priority", async () => {
      const { port } = await start();
      const low = await addLarge(port, 15);
      const high = await addLarge(port, 15, { priority: 5 });
      const claims = await claimAll(port);
      expect(claims.map((tasks) => idsOf(tasks))).toEqual([[...high, ...low.slice(0, 5)], low.slice(5)]);
    });

    test.each([3, 8])("of %i queues ends at its size, and what it left is ready", async (count) => {
      const { port } = await start();
      const queues = Array.from({ length: count }, (_, i) => `queue-${i}`);
      for (const queue of queues) await addLarge(port, 12, { queue });
      const ids: string[] = [];
      for (const tasks of await claimAll(port, { queues, share: 10 })) {
        expect(tasks.length).toBeLessThanOrEqual(FULL);
        ids.push(...idsOf(tasks));
      }
      expect(new Set(ids).size).toBe(12 * count);
      expect(ids).toHaveLength(12 * count);
      for (const queue of queues) expect(await depths(port, queue)).toEqual({ claimed: 12 });
    });

    test("has what is next in line, beside another claim of the same moment", async () => {
      const { port } = await start();
      const ids = await addLarge(port, 45);
      const both = await Promise.all([claim(port, { max: 100 }), claim(port, { max: 100 })]);
      expect(idsOf(both.flat())).toEqual(ids.slice(0, 2 * FULL));
      expect(idsOf(await claim(port, { max: 100 }))).toEqual(ids.slice(2 * FULL));
    });

    test("wakes other claims that wait for what it left", async () => {
      const { port } = await start();
      const answers = [1, 2, 3].map(() => waiting(port, { max: 100 }));
      const ids = await addLarge(port, 45);
      const claims = await Promise.all(answers);
      expect(claims.map((tasks) => tasks.length).toSorted((a, b) => b - a)).toEqual([FULL, FULL, 5]);
      expect(idsOf(claims.flat()).sort()).toEqual(ids.sort());
    });

    test("ends at its size where retried tasks wait beside the line", async () => {
      const { port } = await start();
      const [a, b] = [await joinWorker(port, "a"), await joinWorker(port, "b")];
      const ids = await addLarge(port, 30);
      for (const held of (await a.claim({ max: 100 })).slice(0, 8)) await nack(port, held);
      const next = await b.claim({ max: 100 });
      expect(idsOf(next)).toEqual([...ids.slice(0, 8), ...ids.slice(FULL)]);
      expect(next.map(({ attempt }) => attempt)).toEqual([...Array(8).fill(2), ...Array(10).fill(1)]);
    });

    test("ends at its size among retried tasks", async () => {
      const { port } = await start();
      const [a, b] = [await joinWorker(port, "a"), await joinWorker(port, "b")];
      const ids = await addLarge(port, 25);
      for (let left = 25; left > 0;) {
        const held = await a.claim({ max: 100 });
        for (const each of held) await nack(port, each);
        left -= held.length;
      }
      const first = await b.claim({ max: 100 });
      expect(idsOf(first)).toEqual(ids.slice(0, FULL));
      expect(idsOf(await b.claim({ max: 100 }))).toEqual(ids.slice(FULL));
    });

    test("takes from a rate what it hands out, and no more", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { rateLimit: [{ max: 30, per: HOUR, unit: null, pace: false }] });
      await addLarge(port, 45);
      const claims = await claimAll(port);
      expect(claims.map((tasks) => tasks.length)).toEqual([FULL, 10]);
    });

    test("ends at its size where groups have limits", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { groups: { concurrency: 15 } });
      const ids = await addLarge(port, 20, { groupKey: "a" });
      ids.push(...(await addLarge(port, 20, { groupKey: "b" })));
      const claims = await claimAll(port);
      expect(claims.map((tasks) => tasks.length)).toEqual([FULL, 10]);
      expect(await depths(port)).toEqual({ claimed: 30, waiting: 10 });
    });

    test("ends at its size by the tasks of a group", async () => {
      const { port } = await start();
      const ids = await addLarge(port, 25, { groupKey: "a" });
      for (let i = 0; i < 25; i++) ids.push(...(await addLarge(port, 1, { groupKey: `${i}` })));
      const claims = await claimAll(port);
      expect(idsOf(claims.flat())).toEqual([ids[0], ...ids.slice(25)]);
      expect(claims.map((tasks) => tasks.length)).toEqual([FULL, 6]);
    });
  });
}
