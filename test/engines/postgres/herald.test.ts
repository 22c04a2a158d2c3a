import { expect, onTestFinished, test, vi } from "vitest";
import type { Hint } from "../../../src/engine/engine.ts";
import { Herald } from "../../../src/engines/postgres/herald.ts";
import type { Link } from "../../../src/engines/postgres/link.ts";

const QUIET = { noticed: false, listened: false, ended: false };

/** One that speaks to nobody, and hears what the test says. Time passes when the test says so. */
async function setUp() {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"], now: 1_000_000 });
  onTestFinished(() => void vi.useRealTimers());
  vi.advanceTimersByTime(10_000);
  const said: Record<string, number>[] = [];
  let hear: (payload: string) => void;
  const link = {
    schema: "dibs",
    query: async (_: string, [, text]: string[]) =>
      void said.push((JSON.parse(text!) as { ready: Record<string, number> }).ready),
    exec: async () => {},
    onNotification: (listener: typeof hear) => (hear = listener),
    onEnd: () => {},
    close: async () => {},
  } as unknown as Link;
  const hints: Hint[] = [];
  const onHint = (hint: Hint): void => void hints.push(hint);
  const herald = new Herald({ connect: async () => link, listen: true, onHint });
  await herald.start();
  return {
    said,
    hints,
    hearWord: (word: string) => hear(word),
    tell: (queue: string) => herald.tell({ ready: { [queue]: 1 } }, QUIET),
    hear: (queue: string) => hear(JSON.stringify({ from: "another", ready: { [queue]: 1 } })),
  };
}

type Given = Awaited<ReturnType<typeof setUp>>;

/** For so many milliseconds others speak of the queue every second one, and we have something to tell of it every fifth. */
function beInCrowd({ tell, hear }: Given, ms: number): void {
  for (let at = 0; at < ms; at++) {
    if (at % 2 === 0) hear("busy");
    if (at % 5 === 0) tell("busy");
    vi.advanceTimersByTime(1);
  }
}

test("what many others say, too, is said seldom, and nothing of it is lost", async () => {
  const given = await setUp();
  beInCrowd(given, 1_000);
  expect(given.said.length).toBeLessThan(25);
  vi.advanceTimersByTime(100);
  expect(given.said.reduce((sum, ready) => sum + ready["busy"]!, 0)).toBe(200);
});

test("what nobody else has spoken of is said at once, also in a crowd", async () => {
  const given = await setUp();
  beInCrowd(given, 1_000);
  given.tell("rare");
  vi.advanceTimersByTime(10);
  expect(given.said.at(-1)).toHaveProperty("rare", 1);
});

test("when the others fall silent all is said at once again", async () => {
  const given = await setUp();
  beInCrowd(given, 1_000);
  vi.advanceTimersByTime(1_000);
  const { length } = given.said;
  for (let n = 1; n <= 3; n++) {
    given.tell("busy");
    vi.advanceTimersByTime(20);
    expect(given.said).toHaveLength(length + n);
  }
});

test("one that speaks by itself is not held up by what it has said before", async () => {
  const given = await setUp();
  for (let n = 1; n <= 100; n++) {
    given.tell("busy");
    vi.advanceTimersByTime(10);
    expect(given.said).toHaveLength(n);
  }
});

test.each(["", "anything", "null", "1", '"word"', "[]", '{"ready":null}'])(
  "what somebody else says on the channel, such as %j, makes everybody look",
  async (word) => {
    const { hints, hearWord } = await setUp();
    hearWord(word);
    expect(hints).toEqual([{ foreign: true }]);
  },
);
