import { describe, expect, test } from "vitest";
import type { ListQuery, Page } from "../../../src/core/answer/page.ts";
import type { Port } from "../../../src/core/port.ts";
import type { TaskState } from "../../../src/core/task/task.ts";
import { BOUNDS } from "../../../src/engine/bounds.ts";
import {
  ack,
  addNamed,
  addOne,
  claimOne,
  DAY,
  HOUR,
  idsOf,
  makeDead,
  namesOf,
  newTask,
  passLong,
  QUEUE,
  refused,
  type Start,
} from "./kit.ts";

/** Tasks are found by key, group and headers. */
export function searches(start: Start): void {
  const find = (port: Port, query: Partial<ListQuery>): Promise<Page> =>
    port.list({ queue: QUEUE, limit: 100, ...query });

  describe("finding a task by its key", () => {
    test("a search by idempotency key finds its task in every state", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { idempotencyKey: "k", delay: HOUR });
      await addOne(port, { idempotencyKey: "other" });
      const query = { match: { idempotencyKey: "k" } };
      expect(await find(port, query)).toMatchObject({ tasks: [{ id, state: "scheduled" }], next: null });
      await port.cancel(id);
      expect(await find(port, query)).toMatchObject({ tasks: [{ id, state: "cancelled" }], searched: 1 });
      expect(idsOf((await find(port, { ...query, state: "cancelled" })).tasks)).toEqual([id]);
      expect((await find(port, { ...query, state: "ready" })).tasks).toEqual([]);
      expect((await find(port, { match: { idempotencyKey: "none" } })).tasks).toEqual([]);
      expect((await find(port, { ...query, queue: "nowhere" })).tasks).toEqual([]);
    });

    test("a search by unique key finds the task that has it now, and ignores idempotency keys", async () => {
      const { port } = await start();
      const unique = { key: "u", while: "pending", on: "keep" } as const;
      await addOne(port, { unique });
      await ack(port, await claimOne(port));
      const { id } = await addOne(port, { unique });
      expect(idsOf((await find(port, { match: { uniqueKey: "u" } })).tasks)).toEqual([id]);
      expect((await find(port, { match: { idempotencyKey: "u" } })).tasks).toEqual([]);
    });

    test("a search by an expired key finds nothing", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { retention: { age: 10 * DAY, count: 100 } });
      const { id } = await addOne(port, { idempotencyKey: "k" });
      await port.cancel(id);
      await passLong(clock, DAY);
      expect((await find(port, { match: { idempotencyKey: "k" } })).tasks).toEqual([]);
    });

    test("a search by key and group finds only tasks that match both", async () => {
      const { port } = await start();
      await addOne(port, { idempotencyKey: "k", groupKey: "g" });
      expect((await find(port, { match: { idempotencyKey: "k", groupKey: "g" } })).tasks).toHaveLength(1);
      expect((await find(port, { match: { idempotencyKey: "k", groupKey: "h" } })).tasks).toEqual([]);
    });
  });

  describe("finding tasks by group and headers", () => {
    test("a search by group finds its tasks in all states, or in one", async () => {
      const { port } = await start();
      await addNamed(port, ["1", "2", "3"], { groupKey: "g" });
      await addNamed(port, ["other"], { groupKey: "h" });
      await addOne(port, { data: "late", groupKey: "g", delay: HOUR });
      await ack(port, await claimOne(port));
      const match = { groupKey: "g" };
      expect(namesOf((await find(port, { match })).tasks).sort()).toEqual(["1", "2", "3", "late"]);
      expect(namesOf((await find(port, { match, state: "waiting" })).tasks)).toEqual(["3"]);
      expect(namesOf((await find(port, { match, state: "done" })).tasks)).toEqual(["1"]);
      expect(await find(port, { match, state: "ready" })).toMatchObject({ searched: 2, next: null });
    });

    test("pages of a search for a group have each waiting task once", async () => {
      const { port } = await start();
      await addNamed(port, ["head", "1", "2", "3", "4", "5"], { groupKey: "g" });
      const found: unknown[] = [];
      let after: string | null = null;
      do {
        const page = await find(port, {
          ...{ match: { groupKey: "g" }, state: "waiting", limit: 2 },
          ...(after !== null && { after }),
        });
        found.push(...page.tasks.map(({ data }) => data));
        after = page.next;
      } while (after !== null && found.length < 10);
      expect(found).toEqual(["1", "2", "3", "4", "5"]);
    });

    test("a search by headers finds tasks that have all of them, with exactly these values", async () => {
      const { port } = await start();
      const strange = { 'quo"te': "a\\b", über: "ü\u0001" };
      await addOne(port, { data: "both", headers: { tenant: "acme", kind: "a" } });
      await addOne(port, { data: "one", headers: { tenant: "acme" } });
      await addOne(port, { data: "longer", headers: { tenant: "acme2", xtenant: "acme" } });
      await addOne(port, { data: "inside", headers: { text: '"tenant":"acme"' } });
      await addOne(port, { data: "strange", headers: strange });
      await addOne(port, { data: "none" });
      const names = async (headers: Record<string, string>): Promise<string[]> =>
        namesOf((await find(port, { match: { headers } })).tasks);
      expect(await names({ tenant: "acme" })).toEqual(["both", "one"]);
      expect(await names({ tenant: "acme", kind: "a" })).toEqual(["both"]);
      expect(await names({ te: "acme" })).toEqual([]);
      expect(await names(strange)).toEqual(["strange"]);
    });

    test("a search by headers finds dead letters and ended tasks", async () => {
      const { port } = await start();
      const headers = { tenant: "acme" };
      const dead = await makeDead(port, { headers });
      const { id } = await addOne(port, { headers });
      await port.cancel(id);
      await makeDead(port);
      expect(idsOf((await find(port, { match: { headers } })).tasks)).toEqual([dead, id]);
    });

    test("pages of a search continue where the last one ended, over all states", async () => {
      const { port } = await start();
      const fields = (each: number) => ({
        ...{ data: `${each}`, headers: { odd: `${each % 2}` } },
        ...(each % 3 === 0 && { delay: HOUR }),
      });
      await port.add(Array.from({ length: 30 }, (_, each) => newTask(fields(each))));
      const found: string[] = [];
      let after: string | undefined;
      do {
        const page = await find(port, { match: { headers: { odd: "1" } }, limit: 4, after });
        expect(page.tasks.length).toBeLessThanOrEqual(4);
        found.push(...namesOf(page.tasks));
        after = page.next ?? undefined;
      } while (after !== undefined);
      expect(found.map(Number).sort((a, b) => a - b)).toEqual(
        Array.from({ length: 15 }, (_, n) => 2 * n + 1),
      );
    });

    test("one page compares a bounded number of tasks, says so, and continues", async () => {
      const { port } = await start();
      const count = BOUNDS.search + 10;
      await port.add(Array.from({ length: count }, (_, each) => newTask({ data: `${each}` })));
      await addOne(port, { data: "last", headers: { tenant: "acme" } });
      const query = { state: "ready" as TaskState, match: { headers: { tenant: "acme" } } };
      const first = await find(port, query);
      expect(first).toMatchObject({ tasks: [], searched: BOUNDS.search, next: expect.any(String) });
      const second = await find(port, { ...query, after: first.next! });
      expect(namesOf(second.tasks)).toEqual(["last"]);
      expect(second).toMatchObject({ searched: 11, next: null });
    });
  });

  test("a search of the wrong shape is INVALID", async () => {
    const { port } = await start();
    const wrong = [
      { match: { key: "k" } },
      { match: { idempotencyKey: "a", uniqueKey: "b" } },
      { match: { headers: { a: 1 } } },
      { match: { groupKey: 1 } },
      { match: {}, state: "dead", filter: { error: "x" } },
      { match: {}, after: "nothing" },
      { state: "nowhere" },
    ];
    for (const each of wrong) await refused(() => find(port, each as never), "INVALID");
  });
}
