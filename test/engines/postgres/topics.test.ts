import { expect, test } from "vitest";
import type { Op } from "../../../src/engine/engine.ts";
import { ground } from "./kit.ts";

/** On the server's own clock, so that transactions of several processes run at the same time. */
test("while processes subscribe and unsubscribe, publishing misses no subscription and leaves no tasks of removed ones", async () => {
  const { open } = await ground();
  const [one, other, third] = [await open(), await open(), await open()];
  const events = third.events();
  // With a listener every commit writes the store's row, which an unsubscribe needs too.
  await third.queue("made").add(1);
  await events.next();
  const always = one.topic<number>("news").subscription("always");
  await always.ready;
  let published = 0;
  const stop = new AbortController();
  const busy = [one, other].map(async (dibs) => {
    const news = dibs.topic<number>("news");
    while (!stop.signal.aborted) {
      const sent = await Promise.all([0, 1, 2, 3].map((n) => news.publish(n)));
      for (const { tasks } of sent) expect(tasks[0]!.queue).toBe(always.name);
      published += sent.length;
    }
  });
  for (let round = 0; round < 10; round++) {
    const group = `group-${round}`;
    const visitors = [third, other].map((dibs, n) => dibs.subscription("#", `${group}-${n}`));
    await Promise.all(visitors.map((visitor) => visitor.ready));
    const { tasks } = await one.topic("news").publish(-1);
    published++;
    const reached = tasks.map(({ queue }) => queue);
    for (const visitor of visitors) expect(reached).toContain(visitor.name);
    await Promise.all([third.unsubscribe("#", `${group}-0`), other.unsubscribe("#", `${group}-1`)]);
    expect((await one.topic("news").publish(-1)).reached).toBe(1);
    published++;
  }
  stop.abort();
  await Promise.all(busy);
  await events.return?.();
  expect((await always.stats()).depth.ready).toBe(published);
  expect((await one.queues()).map(({ name }) => name)).toEqual(["made", always.name]);
});

test("a publish in a batch after an add reaches subscriptions that another process has just made", async () => {
  const { engine } = await ground();
  const [near, far] = [await engine(), await engine()];
  const add: Op<"add"> = { verb: "add", tasks: [{ queue: "work", data: "1" }] };
  const publish: Op<"publish"> = { verb: "publish", message: { topic: "news", data: "2" } };
  const subscribe = (group: string): Promise<unknown> =>
    far.execute([{ verb: "subscribe", pattern: "news", group, queue: group }]);
  await far.execute([{ verb: "declare", queue: "late", policy: {} }]);
  await subscribe("early");
  // By then the process has cached all queues, and which of them a publish reaches.
  for (const op of [add, publish, add]) await near.execute([op]);
  await subscribe("late");
  const [, published] = await near.execute([add, publish]);
  expect(published).toMatchObject({ ok: [{ queue: "early" }, { queue: "late" }] });
});
