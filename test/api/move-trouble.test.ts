import { expect, onTestFinished, test } from "vitest";
import { DibsError } from "../../src/core/errors.ts";
import { type Dibs, move, type MoveWait, open, type OpenOptions } from "../../src/index.ts";
import { ManualClock } from "../../src/testing/index.ts";
import { hooked } from "./hooked.ts";

async function store(options?: OpenOptions): Promise<Dibs> {
  const dibs = await open(":memory:", options);
  onTestFinished(() => dibs.close());
  return dibs;
}

const away = () => new DibsError("UNAVAILABLE", "It is away. Nothing was changed. Try again later.");
const unknown = () => new DibsError("OUTCOME_UNKNOWN", "It may have happened. Look before repeating it.");

/** Of every four calls one is not carried out, and of another the answer is lost. */
function shaky(dibs: Dibs): Dibs {
  let calls = 0;
  return hooked(dibs, "all", async (call) => {
    const turn = ++calls % 4;
    if (turn === 1) throw away();
    const answer = await call();
    if (turn === 3) throw unknown();
    return answer;
  });
}

test("a move goes on by itself over calls that fail, and answers that are lost", async () => {
  const [from, to] = [await store(), await store()];
  const tasks = Array.from({ length: 60 }, (_, n) => ({ data: n, ...(n % 3 === 0 && { groupKey: "g" }) }));
  await from.queue<number>("work").addMany(tasks);
  await from.subscription("orders.placed", "mail").add(1);
  await from.queue("held").pause();
  const waits: MoveWait[] = [];
  const { left, queues } = await move(shaky(from), shaky(to), { onWait: (wait) => waits.push(wait) });
  expect(left).toBe(0);
  expect(queues.map(({ name, paused }) => [name, paused])).toEqual([
    ["held", true],
    ["topic/orders.placed/mail", false],
    ["work", false],
  ]);
  expect(new Set(waits.map(({ error }) => error?.code))).toEqual(new Set(["UNAVAILABLE", "OUTCOME_UNKNOWN"]));
  const done: number[] = [];
  const worker = to.queue<number>("work").work((task) => void done.push(task.data), { concurrency: 1 });
  await expect.poll(() => done.length).toBe(60);
  await worker.stop();
  expect(done).toEqual(expect.arrayContaining(tasks.map(({ data }) => data)));
  expect(done.filter((n) => n % 3 === 0)).toEqual(done.filter((n) => n % 3 === 0).toSorted((a, b) => a - b));
});

test.each([
  ["UNAVAILABLE", away],
  ["OUTCOME_UNKNOWN", unknown],
])("one that gives up (%s) says that it is to be run again", async (_, trouble) => {
  const clock = new ManualClock();
  const [from, to] = [await store({ clock }), await store({ clock })];
  await from.queue("work").add(1);
  let waited = 0;
  const lost = hooked(to, "arrive", async (call, tasks) => {
    const answer = await call();
    if ((tasks as unknown[]).length > 0) throw trouble();
    return answer;
  });
  const onWait = () => {
    // Half a minute is nothing to speak of; a whole one is.
    if (++waited < 3) void clock.advance(30_000);
  };
  const failure = (await move(from, lost, { onWait }).catch((error: unknown) => error)) as DibsError;
  expect(waited).toBe(2);
  expect(failure).toMatchObject({ code: "UNAVAILABLE", retryable: true });
  expect(failure.message).toMatch(/interrupted .*Run it again .*nothing is lost or doubled/);
  expect(failure.message).not.toContain("Look before");
  expect(await move(from, to)).toMatchObject({ moved: 1, left: 0 });
  expect((await to.queue("work").stats()).depth.ready).toBe(1);
});

test("one that is told to stop does not wait for a store that is away", async () => {
  const [from, to] = [await store(), await store()];
  await from.queue("work").add(1);
  const stop = new AbortController();
  const lost = hooked(from, "gone", async () => Promise.reject(away()));
  await expect(move(lost, to, { signal: stop.signal, onWait: () => stop.abort() })).rejects.toMatchObject({
    message: expect.stringMatching(/^It is away.*Run it again/),
  });
});

test("what will not pass is not tried again", async () => {
  const [from, to] = [await store(), await store()];
  await from.queue("work").add(1);
  let tries = 0;
  const closed = hooked(to, "arrive", async () => {
    tries++;
    throw new DibsError("UNAVAILABLE", "The file is damaged.", { retryable: false });
  });
  await expect(move(from, closed)).rejects.toMatchObject({ retryable: false });
  expect(tries).toBe(1);
});
