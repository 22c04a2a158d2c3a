import { describe, expect, test } from "vitest";
import { LIMITS } from "../../../src/core/input/limits.ts";
import type { ClaimCall } from "../../../src/core/task/claim-call.ts";
import type { Port } from "../../../src/core/port.ts";
import type { Body, ClaimedTask, NewTask } from "../../../src/core/task/task.ts";
import { claim, depths, HOUR, idsOf, joinWorker, nack, newTask, QUEUE, type Start, waiting } from "./kit.ts";
import { large } from "./large.ts";

const KIB = 1024;
const MIB = 1024 * KIB;
const LARGE = 200 * KIB;
/** How many large tasks fit into the answer of one claim. */
const FULL = 20;

async function addLarge(port: Port, count: number, fields: Partial<NewTask> = {}): Promise<string[]> {
  return idsOf(
    await port.add(Array.from({ length: count }, () => newTask({ data: large(LARGE), ...fields }))),
  );
}

/** Claims until nothing is left. Checks that no answer exceeds the limit by more than one task. */
async function claimAll(port: Port, request: Partial<ClaimCall> = {}): Promise<ClaimedTask[][]> {
  const claims: ClaimedTask[][] = [];
  for (;;) {
    const tasks = await claim(port, { max: 100, ...request });
    if (tasks.length === 0) return claims;
    const sizes = tasks.map(({ data, headers }) => data.length + JSON.stringify(headers).length);
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    expect(bytes - (tasks.length === 1 ? sizes[0]! : 0)).toBeLessThan(LIMITS.answerBytes);
    claims.push(tasks);
  }
}

export function claimSizes(start: Start): void {
  describe("size of a claim's answer", () => {
    test("a claim's answer ends at the size limit, and the next claim continues", async () => {
      const { port } = await start();
      const ids = await addLarge(port, 45);
      const first = await claim(port, { max: 100 });
      expect(first).toHaveLength(FULL);
      expect(await depths(port)).toEqual({ claimed: FULL, ready: 45 - FULL });
      const rest = await claimAll(port);
      expect(rest.map((tasks) => tasks.length)).toEqual([FULL, 5]);
      expect(idsOf([...first, ...rest.flat()])).toEqual(ids);
      expect(await depths(port)).toEqual({ claimed: 45 });
      expect(new Set(rest.flat().map(({ data }) => data))).toEqual(new Set([large(LARGE)]));
    });

    test("a claim returns at least one task, however large it is", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxPayload: 8 * MIB });
      const ids = await addLarge(port, 3, { data: large(5 * MIB) });
      const claims = await claimAll(port);
      expect(claims.map((tasks) => idsOf(tasks))).toEqual(ids.map((id) => [id]));
    });

    test("a claim's answer ends before a large task, and no smaller one overtakes it", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { maxPayload: 8 * MIB });
      const [small] = await addLarge(port, 1, { data: "small" });
      const [whole] = await addLarge(port, 1, { data: large(5 * MIB) });
      const [last] = await addLarge(port, 1, { data: "last" });
      const [other] = await addLarge(port, 1, { data: "other", queue: "other" });
      const claims = await claimAll(port, { queues: [QUEUE, "other"] });
      expect(claims.map((tasks) => idsOf(tasks))).toEqual([[small], [whole], [last, other]]);
    });

    test("a claim's answer ends at the size limit when headers are large", async () => {
      const { port } = await start();
      const headers = { long: "h".repeat(16_000) };
      const ids = await addLarge(port, 300, { data: "{}", headers });
      const claims = await claimAll(port, { max: 1_000 });
      expect(claims.length).toBe(2);
      expect(idsOf(claims.flat())).toEqual(ids);
    });

    test("a claim's answer ends at the size limit when payloads are bytes", async () => {
      const { port } = await start();
      const data: Body = Uint8Array.from({ length: LARGE }, (_, i) => (i * 31) % 251);
      const ids = await addLarge(port, 25, { data, contentType: "application/x" });
      const claims = await claimAll(port);
      expect(claims.map((tasks) => tasks.length)).toEqual([FULL, 5]);
      expect(idsOf(claims.flat())).toEqual(ids);
      expect(claims[1]![4]!.data).toEqual(data);
    });

    test("a claim that is limited by size returns the tasks with the highest priority", async () => {
      const { port } = await start();
      const low = await addLarge(port, 15);
      const high = await addLarge(port, 15, { priority: 5 });
      const claims = await claimAll(port);
      expect(claims.map((tasks) => idsOf(tasks))).toEqual([[...high, ...low.slice(0, 5)], low.slice(5)]);
    });

    test.each([3, 8])(
      "a claim from %i queues ends at the size limit, and the rest stays ready",
      async (count) => {
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
      },
    );

    test("two claims at the same moment each get the next tasks in the line", async () => {
      const { port } = await start();
      const ids = await addLarge(port, 45);
      const both = await Promise.all([claim(port, { max: 100 }), claim(port, { max: 100 })]);
      expect(idsOf(both.flat())).toEqual(ids.slice(0, 2 * FULL));
      expect(idsOf(await claim(port, { max: 100 }))).toEqual(ids.slice(2 * FULL));
    });

    test("tasks that did not fit wake other waiting claims", async () => {
      const { port } = await start();
      const answers = [1, 2, 3].map(() => waiting(port, { max: 100 }));
      const ids = await addLarge(port, 45);
      const claims = await Promise.all(answers);
      expect(claims.map((tasks) => tasks.length).toSorted((a, b) => b - a)).toEqual([FULL, FULL, 5]);
      expect(idsOf(claims.flat()).sort()).toEqual(ids.sort());
    });

    test("a claim's answer ends at the size limit next to tasks in the retry-elsewhere line", async () => {
      const { port } = await start();
      const [a, b] = [await joinWorker(port, "a"), await joinWorker(port, "b")];
      const ids = await addLarge(port, 30);
      for (const held of (await a.claim({ max: 100 })).slice(0, 8)) await nack(port, held);
      const next = await b.claim({ max: 100 });
      expect(idsOf(next)).toEqual([...ids.slice(0, 8), ...ids.slice(FULL)]);
      expect(next.map(({ attempt }) => attempt)).toEqual([...Array(8).fill(2), ...Array(10).fill(1)]);
    });

    test("a claim's answer ends at the size limit among retried tasks", async () => {
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

    test("a claim that is limited by size takes from the rate only what it returns", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { rateLimit: [{ max: 30, per: HOUR, unit: null, pace: false }] });
      await addLarge(port, 45);
      const claims = await claimAll(port);
      expect(claims.map((tasks) => tasks.length)).toEqual([FULL, 10]);
    });

    test("a claim's answer ends at the size limit when groups have limits", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { groups: { concurrency: 15 } });
      const ids = await addLarge(port, 20, { groupKey: "a" });
      ids.push(...(await addLarge(port, 20, { groupKey: "b" })));
      const claims = await claimAll(port);
      expect(claims.map((tasks) => tasks.length)).toEqual([FULL, 10]);
      expect(await depths(port)).toEqual({ claimed: 30, waiting: 10 });
    });

    test("a claim's answer ends at the size limit within one group", async () => {
      const { port } = await start();
      const ids = await addLarge(port, 25, { groupKey: "a" });
      for (let i = 0; i < 25; i++) ids.push(...(await addLarge(port, 1, { groupKey: `${i}` })));
      const claims = await claimAll(port);
      expect(idsOf(claims.flat())).toEqual([ids[0], ...ids.slice(25)]);
      expect(claims.map((tasks) => tasks.length)).toEqual([FULL, 6]);
    });
  });
}
