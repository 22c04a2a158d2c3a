import { expect, test } from "vitest";
import { LIMITS } from "../../src/core/input/limits.ts";
import { describeSearch, parseSearch } from "../../src/dashboard/search-query.ts";
import { callerOf, makeTokens, startDashboard } from "./kit.ts";

test("a search box is understood word by word", () => {
  expect(
    parseSearch('state:dead,ready key:k-1 error:"Too Many" header:type=a older:1h "two words" x:y Ada'),
  ).toEqual({
    states: ["dead", "ready"],
    key: "k-1",
    error: "too many",
    header: { name: "type", value: "a" },
    older: 3_600_000,
    words: ["two words", "x:y", "ada"],
  });
});

test("a search that cannot be parsed is refused, with what is allowed", () => {
  expect(() => parseSearch("state:gone")).toThrow("state: takes scheduled, waiting");
  expect(() => parseSearch("older:soon")).toThrow("older:");
});

test("a search says in a sentence what it looks for", () => {
  expect(describeSearch(parseSearch("state:dead error:timeout older:1h"), "emails")).toBe(
    'Dead tasks of emails whose last error contains "timeout" added more than 60 min ago.',
  );
  expect(describeSearch(parseSearch(""), undefined)).toBe("Tasks of all queues.");
});

async function withTasks() {
  const { call, port } = await startDashboard();
  const added = await port.add([
    { queue: "a", data: JSON.stringify({ to: "Ada" }), headers: { type: "x" }, groupKey: "g" },
    { queue: "a", data: JSON.stringify({ to: "Bob" }), idempotencyKey: "k" },
    { queue: "b", data: JSON.stringify({ to: "ADA" }), headers: { type: "y" } },
  ]);
  const find = async (q: string, more = "") => {
    const { body } = await call("GET", `v1/search?q=${encodeURIComponent(q)}${more}`);
    return {
      ...body,
      found: (body.tasks as { id: string }[]).map(({ id }) => added.findIndex((task) => task.id === id)),
    };
  };
  return { call, port, added, find };
}

test("tasks are found by payload, key, header, state, queue and id", async () => {
  const { find, added, port } = await withTasks();
  expect((await find("ada")).found).toEqual([0, 2]);
  expect((await find("ada header:type=y")).found).toEqual([2]);
  expect((await find("header:type")).found).toEqual([0, 2]);
  expect((await find("key:g")).found).toEqual([0]);
  expect((await find("key:k")).found).toEqual([1]);
  expect((await find("queue:a")).found).toEqual([0, 1]);
  expect((await find("", "&queue=b")).found).toEqual([2]);
  expect((await find("state:claimed")).found).toEqual([]);
  expect((await find("newer:1h")).found).toEqual([0, 1, 2]);
  expect((await find("older:1h")).found).toEqual([]);
  expect((await find(added[1]!.id)).found).toEqual([1]);
  await port.claim({ queues: ["b"], max: 1, worker: "mailer-1#x", wait: 0 });
  expect((await find("worker:mailer-1")).found).toEqual([2]);
});

test("tasks are found by their last error, dead or not", async () => {
  const { find, port } = await withTasks();
  const { tasks } = await port.claim({ queues: ["a"], max: 2, worker: "w", wait: 0 });
  const error = { name: "Boom", message: "Connection TIMEOUT", stack: null };
  await port.settle(tasks[0]!, { kind: "reject", error });
  await port.settle(tasks[1]!, { kind: "nack", error, delay: 60_000 });
  expect((await find("error:timeout")).found.sort()).toEqual([0, 1]);
});

test("a page says how far it searched, and the next one continues there", async () => {
  const { find } = await withTasks();
  const first = await find("ada", "&limit=1");
  expect(first.found).toEqual([0]);
  expect(first.searched).toMatchObject({
    of: 3,
    looked: 1,
    queues: 2,
    until: { queue: "a", state: "ready" },
  });
  const second = await find("ada", `&limit=1&after=${first.next}`);
  expect(second.found).toEqual([2]);
  expect(second).toMatchObject({ next: null, searched: { until: null, looked: 2 } });
});

test("one call compares a bounded number of tasks", async () => {
  const { call, port } = await startDashboard();
  await port.add(Array.from({ length: 6_000 }, (_, at) => ({ queue: "q", data: `${at}` })));
  const { body } = await call("GET", "v1/search?q=5999");
  expect(body.searched).toMatchObject({ looked: 5_000, of: 6_000, until: { queue: "q", state: "ready" } });
  const rest = await call("GET", `v1/search?q=5999&after=${body.next}`);
  expect(rest.body.tasks).toHaveLength(1);
  expect(rest.body.next).toBeNull();
});

test("a page of results ends at the size limit, and the next one continues there", async () => {
  const { call, port } = await startDashboard();
  const headers = { large: "x".repeat(16_000) };
  const ids = new Set<string>();
  for (const queue of ["a", "b"]) {
    const added = await port.add(Array.from({ length: 300 }, () => ({ queue, data: '"needle"', headers })));
    for (const { id } of added) ids.add(id);
  }
  for (const q of ["", "needle"]) {
    const found: string[] = [];
    let pages = 0;
    for (let after = "", more = true; more; pages++) {
      const { body } = await call("GET", `v1/search?limit=1000&q=${q}${after}`);
      expect(JSON.stringify(body).length).toBeLessThan(1.2 * LIMITS.answerBytes);
      found.push(...body.tasks.map(({ id }: { id: string }) => id));
      more = body.next !== null;
      after = `&after=${body.next}`;
    }
    expect(found.length).toBe(ids.size);
    expect(new Set(found)).toEqual(ids);
    expect(pages).toBeLessThan(5);
  }
});

test("a payload that is shown shortened is compared by its beginning, and counted", async () => {
  const { call, port } = await startDashboard();
  await port.add([{ queue: "q", data: JSON.stringify(`${"x".repeat(5_000)} needle`) }]);
  expect((await call("GET", "v1/search?q=needle")).body).toMatchObject({
    tasks: [],
    searched: { shortened: 1 },
  });
});

test("a search finds nothing in queues that the token may not read", async () => {
  const { access, tokens } = makeTokens();
  const { token } = tokens.add("reader", ["read:shop"]);
  const { port, url } = await startDashboard({ access });
  const [, secret] = await port.add(["shop", "secret"].map((queue) => ({ queue, data: '"ada"' })));
  const { body } = await callerOf(url, token)("GET", "v1/search?q=ada");
  expect(body.tasks.map(({ queue }: { queue: string }) => queue)).toEqual(["shop"]);
  expect(body.searched).toMatchObject({ of: 1, queues: 1 });
  expect((await callerOf(url, token)("GET", `v1/search?q=${secret!.id}`)).body.tasks).toEqual([]);
  expect((await callerOf(url, token)("GET", "v1/search?queue=secret")).status).toBe(403);
});

test("a cursor that is not one is refused", async () => {
  const { call } = await startDashboard();
  expect((await call("GET", "v1/search?after=nonsense")).body.code).toBe("INVALID");
});
