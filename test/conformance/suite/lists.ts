import { describe, expect, test } from "vitest";
import { LIMITS } from "../../../src/core/input/limits.ts";
import type { Paged, PageQuery } from "../../../src/core/answer/page.ts";
import type { Port } from "../../../src/core/port.ts";
import { joinWorker, newTask, numbered, refused, type Start } from "./kit.ts";

const no = (value: unknown) => value as never;

type Read = (port: Port, query?: PageQuery) => Promise<Paged<unknown>>;

/** Every list but that of tasks: how one entry is made, how a page is read, and what an entry is called. */
const LISTS: [
  what: string,
  make: (port: Port, name: string) => Promise<unknown>,
  read: Read,
  name: string,
][] = [
  ["queues", (port, name) => port.declare(name, {}), (port, query) => port.queues(query), "name"],
  [
    "subscriptions",
    (port, name) => port.subscribe("a.*", name, {}),
    (port, query) => port.subscriptions(query),
    "group",
  ],
  ["workers", (port, name) => joinWorker(port, name), (port, query) => port.workers(query), "id"],
  [
    "schedules",
    (port, name) => port.schedule(name, { every: 60_000, missed: "once", task: newTask() } as never),
    (port, query) => port.schedules(query),
    "name",
  ],
  [
    "pipelines",
    (port, name) => port.definePipeline(name, [{ name: "a", joins: false }]),
    (port, query) => port.pipelines(query),
    "name",
  ],
];

async function readAll(read: (query: PageQuery) => Promise<Paged<unknown>>, limit: number) {
  const pages: unknown[][] = [];
  for (let after: string | undefined, more = true; more;) {
    const { items, next } = await read({ after, limit });
    pages.push(items);
    more = next !== null;
    after = next ?? undefined;
  }
  return pages;
}

export function lists(start: Start): void {
  describe.each(LISTS)("pages of %s", (_, make, read, field) => {
    const namesOf = (items: unknown[]): unknown[] =>
      items.map((item) => (item as Record<string, unknown>)[field]);

    test("a page ends at its limit, and the next one continues", async () => {
      const { port } = await start();
      expect(await read(port)).toEqual({ items: [], next: null });
      const names = numbered(5, "n");
      for (const name of names) await make(port, name);
      const pages = await readAll((query) => read(port, query), 2);
      expect(pages.map((page) => page.length)).toEqual([2, 2, 1]);
      expect(namesOf(pages.flat())).toEqual(names);
      const { items, next } = await read(port, { limit: 5 });
      expect({ names: namesOf(items), next }).toEqual({ names, next: null });
    });

    test("entries that are added or removed between two pages do not hide others", async () => {
      const { port } = await start();
      for (const name of ["n1", "n2", "n3"]) await make(port, name);
      const first = await read(port, { limit: 1 });
      await make(port, "n4");
      const rest = await read(port, { after: first.next!, limit: 10 });
      expect(namesOf([...first.items, ...rest.items])).toEqual(["n1", "n2", "n3", "n4"]);
    });

    test("wrong cursors, limits and options are refused", async () => {
      const { port } = await start();
      await make(port, "n1");
      for (const limit of [0, LIMITS.page + 1, 1.5, "1", {}])
        await refused(() => read(port, { limit: no(limit) }), "INVALID", "limit");
      const texts = ["", "x", "{}", "[]", "[{}]", "[null]", "[1,2]", '["\\u0000"]', '["\\ud800"]', "[1e300]"];
      for (const after of [...texts, 5, { length: 1 }, "x".repeat(2_000)])
        await refused(() => read(port, { after: no(after) }), "INVALID", "after");
      await refused(() => read(port, no({ cursor: "x" })), "INVALID", "cursor");
      for (const query of [null, "n1", [], 5])
        await refused(() => read(port, no(query)), "INVALID", "must be an object");
      expect((await read(port)).items).toHaveLength(1);
    });
  });

  test("a page of schedules ends at the size limit", async () => {
    const { port } = await start();
    const task = newTask({ data: JSON.stringify("x".repeat(900 * 1024)) });
    const names = numbered(9, "n");
    for (const name of names) await port.schedule(name, { every: 60_000, missed: "once", task } as never);
    const pages = await readAll((query) => port.schedules(query), 100);
    // A document contains the definition twice: as it is, and as it was last declared.
    expect(pages.map((page) => page.length)).toEqual([2, 2, 2, 2, 1]);
    expect(pages.flat().map((each) => (each as { name: string }).name)).toEqual(names);
  });

  test("a page of workers ends at the size limit", async () => {
    const { port } = await start();
    const queues = numbered(9_000, `${"q".repeat(100)}-`);
    for (const id of numbered(9, "w")) await joinWorker(port, id, { queues });
    const pages = await readAll((query) => port.workers(query), 100);
    expect(pages.map((page) => page.length)).toEqual([4, 4, 1]);
    const ofOne = await readAll((query) => port.workers({ ...query, queue: queues[5] }), 100);
    expect(ofOne.map((page) => page.length)).toEqual([4, 4, 1]);
  });

  test("workers of one queue are listed page by page, past those of other queues", async () => {
    const { port } = await start();
    for (const id of numbered(6, "w"))
      await joinWorker(port, id, { queues: [Number(id.slice(1)) % 2 ? "odd" : "even"] });
    const pages = await readAll((query) => port.workers({ ...query, queue: "odd" }), 2);
    expect(pages.map((page) => page.map((each) => (each as { id: string }).id))).toEqual([
      ["w1", "w3"],
      ["w5"],
    ]);
    expect((await port.stats("odd")).workers).toBe(3);
  });

  test("subscriptions that a topic reaches are listed page by page", async () => {
    const { port } = await start();
    for (const group of numbered(6, "g"))
      await port.subscribe(Number(group.slice(1)) % 2 ? "a.*" : "b.*", group, {});
    const pages = await readAll((query) => port.subscriptions({ ...query, topic: "a.x" }), 2);
    expect(pages.map((page) => page.map((each) => (each as { group: string }).group))).toEqual([
      ["g1", "g3"],
      ["g5"],
    ]);
  });
}
