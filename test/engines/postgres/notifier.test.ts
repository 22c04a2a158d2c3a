import { expect, onTestFinished, test, vi } from "vitest";
import type { Hint } from "../../../src/engine/hint.ts";
import { Notifier } from "../../../src/engines/postgres/connection/notifier.ts";
import type { Connection } from "../../../src/engines/postgres/connection/connection.ts";

const QUIET = { hasNotices: false, hasListeners: false, ended: false };

/** A notifier without a server: the test receives its messages, sends others, and moves the time. */
async function setUp() {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"], now: 1_000_000 });
  onTestFinished(() => void vi.useRealTimers());
  vi.advanceTimersByTime(10_000);
  const sent: Record<string, number>[] = [];
  let hear: (payload: string) => void;
  const link = {
    schema: "dibs",
    query: async (_: string, [, text]: string[]) =>
      void sent.push((JSON.parse(text!) as { ready: Record<string, number> }).ready),
    exec: async () => {},
    onNotification: (listener: typeof hear) => (hear = listener),
    onEnd: () => {},
    close: async () => {},
  } as unknown as Connection;
  const hints: Hint[] = [];
  const onHint = (hint: Hint): void => void hints.push(hint);
  const notifier = new Notifier({ connect: async () => link, listen: true, onHint });
  await notifier.start();
  return {
    sent,
    hints,
    receive: (text: string) => hear(text),
    notify: (queue: string) => notifier.notify({ ready: { [queue]: 1 } }, QUIET),
    message: (queue: string) => notifier.messageFor({ ready: { [queue]: 1 } }, QUIET),
  };
}

const GAP_MS = 5;

test("hints of one moment become one message each gap, and none is lost", async () => {
  const { sent, notify } = await setUp();
  for (let at = 0; at < 100; at++) {
    notify("busy");
    vi.advanceTimersByTime(1);
  }
  vi.advanceTimersByTime(GAP_MS);
  expect(sent.length).toBeLessThanOrEqual(100 / GAP_MS + 1);
  expect(sent.reduce((sum, ready) => sum + ready["busy"]!, 0)).toBe(100);
});

test("a hint after a silent gap is sent without a delay", async () => {
  const { sent, notify } = await setUp();
  for (let n = 1; n <= 100; n++) {
    notify("busy");
    expect(sent).toHaveLength(n);
    vi.advanceTimersByTime(GAP_MS);
  }
});

test("a commit carries its hint only after a gap", async () => {
  const { message, notify } = await setUp();
  expect(message("work")).toContain("work");
  expect(message("work")).toBeUndefined();
  vi.advanceTimersByTime(GAP_MS);
  expect(message("work")).toContain("work");
  notify("waits for the gap");
  vi.advanceTimersByTime(GAP_MS - 1);
  expect(message("work")).toBeUndefined();
});

test.each(["", "anything", "null", "1", '"word"', "[]", '{"ready":null}'])(
  "a message of another program on the channel, such as %j, makes every process check everything",
  async (text) => {
    const { hints, receive } = await setUp();
    receive(text);
    expect(hints).toEqual([{ foreign: true }]);
  },
);
