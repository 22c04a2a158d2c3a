import { describe, expect } from "vitest";
import type { Subscription } from "../../src/index.ts";
import type { Program, Saying } from "./harness/program.ts";
import { test } from "./harness/stage.ts";

const TOPIC = "order.placed";
const ROUNDS = 3;

describe.concurrent("publishers that are killed", () => {
  test("a message is in every group or in none, once, and every acknowledged one is there", async ({
    stage,
  }) => {
    const dibs = await stage.open();
    const topic = dibs.topic<string>(TOPIC);
    const groups = ["inventory", "analytics", "mail"].map((group) => topic.subscription(group));
    await Promise.all(groups.map((group) => group.ready));
    const sayings: Saying[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const publishers = ["a", "b"].map((name) =>
        stage.start("publisher.ts", { file: stage.file, topic: TOPIC, name: `${name}${round}` }),
      );
      await Promise.all(publishers.map((publisher) => publisher.hearsTimes("published", 40 + 30 * round)));
      await Promise.all(publishers.map((publisher) => publisher.kill()));
      for (const publisher of publishers) sayings.push(...publisher.all("published"));
    }
    expect(new Set(sayings.map(({ reached }) => reached))).toEqual(new Set([3]));

    const [first, ...others] = await Promise.all(groups.map((group) => allOf(group)));
    expect(new Set(first).size).toBe(first!.length);
    for (const other of others) expect(other).toEqual(first);
    expect(first).toEqual(expect.arrayContaining(sayings.map(({ data }) => data as string).toSorted()));
  });
});

describe.concurrent("a group that subscribes while other processes publish", () => {
  test("a group gets everything that is published after its subscribe resolved, and nothing after its unsubscribe", async ({
    stage,
  }) => {
    const dibs = await stage.open();
    const topic = dibs.topic<string>(TOPIC);
    await topic.subscription("always").ready;
    const publishers = ["a", "b"].map((name) =>
      stage.start("publisher.ts", { file: stage.file, topic: TOPIC, name }),
    );
    await Promise.all(publishers.map((publisher) => publisher.hearsTimes("published", 20)));

    const late = dibs.subscription<string>("order.*", "late");
    await late.ready;
    const sayings = await Promise.all(publishers.map((publisher) => markedBy(publisher)));
    expect(sayings.flat().map(({ reached }) => reached)).toEqual(sayings.flat().map(() => 2));

    await dibs.unsubscribe("order.*", "late");
    expect((await topic.publish("last")).reached).toBe(1);
    await Promise.all(publishers.map((publisher) => publisher.kill()));
    expect((await dibs.queues()).map(({ name }) => name)).toEqual([`topic/${TOPIC}/always`]);
  });
});

/** What a publisher reported of publishes that it began after the mark. */
async function markedBy(publisher: Program): Promise<Saying[]> {
  publisher.tell({ mark: true });
  await publisher.hears("marked");
  const isMarked = ({ marked }: Saying): boolean => marked === true;
  await publisher.hears("published", isMarked);
  await publisher.hearsTimes("published", publisher.all("published").length + 30);
  return publisher.all("published").filter(isMarked);
}

/** The payloads of a group, in order. */
async function allOf(group: Subscription<string>): Promise<string[]> {
  const found: string[] = [];
  for (;;) {
    const claims = await group.claim({ max: 1_000 });
    if (claims.length === 0) return found.toSorted();
    found.push(...claims.map(({ data }) => data));
  }
}
