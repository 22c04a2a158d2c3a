import { expect, onTestFinished, test, vi } from "vitest";
import type { Hint } from "../../../src/engine/engine.ts";
import { Notifier } from "../../../src/engines/postgres/connection/notifier.ts";
import type { Connection } from "../../../src/engines/postgres/connection/connection.ts";

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
  } as unknown as Connection;
  const hints: Hint[] = [];
  const onHint = (hint: Hint): void => void hints.push(hint);
  const herald = new Notifier({ connect: async () => link, listen: true, onHint });
  await herald.start();
  return {
    said,
    hints,
    hearWord: (word: string) => hear(word),
    tell: (queue: string) => herald.tell({ ready: { [queue]: 1 } }, QUIET),
    word: (queue: string) => herald.messageFor({ ready: { [queue]: 1 } }, QUIET),
  };
}

const GAP_MS = 5;

test("hints of one moment become one message each gap, and none is lost", async () => {
  const { said, tell } = await setUp();
  for (let at = 0; at < 100; at++) {
    tell("busy");
    vi.advanceTimersByTime(1);
  }
  vi.advanceTimersByTime(GAP_MS);
  expect(said.length).toBeLessThanOrEqual(100 / GAP_MS + 1);
  expect(said.reduce((sum, ready) => sum + ready["busy"]!, 0)).toBe(100);
});

test("a hint after a silent gap is sent without a delay", async () => {
  const { said, tell } = await setUp();
  for (let n = 1; n <= 100; n++) {
    tell("busy");
    expect(said).toHaveLength(n);
    vi.advanceTimersByTime(GAP_MS);
  }
});

test("a commit carries its hint only after a gap", async () => {
  const { word, tell } = await setUp();
  expect(word("work")).toContain("work");
  expect(word("work")).toBeUndefined();
  vi.advanceTimersByTime(GAP_MS);
  expect(word("work")).toContain("work");
  tell("waits for the gap");
  vi.advanceTimersByTime(GAP_MS - 1);
  expect(word("work")).toBeUndefined();
});

test.each(["", "anything", "null", "1", '"word"', "[]", '{"ready":null}'])(
  "a message of another program on the channel, such as %j, makes every process look",
  async (word) => {
    const { hints, hearWord } = await setUp();
    hearWord(word);
    expect(hints).toEqual([{ foreign: true }]);
  },
);
