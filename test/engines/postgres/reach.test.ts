import { expect, onTestFinished, test, vi } from "vitest";
import type { Op } from "../../../src/engine/engine.ts";
import type { Connection } from "../../../src/engines/postgres/connection/connection.ts";
import { ReconnectingStore } from "../../../src/engines/postgres/batch/reconnecting-store.ts";
import { Sender } from "../../../src/engines/postgres/batch/sender.ts";
import type { BatchResult, RunOptions } from "../../../src/engines/postgres/batch/batch-result.ts";
import { PostgresStore } from "../../../src/engines/postgres/batch/store.ts";

const read = (queue: string): Op => ({ verb: "stats", queue });

/** A connection that delivers nothing until the test says so. */
function fakeLink(): Connection {
  const link = {
    ended: undefined as Error | undefined,
    silentFor: 0,
    onEnd: () => {},
    destroy: () => (link.ended ??= new Error("given up")),
    close: async () => {},
  };
  return link as unknown as Connection;
}

interface Call {
  queue: string;
  link: Connection;
  onSent: () => void;
  answer: () => void;
  lose: () => void;
}

/** Batches on a store, which are sent on, answered and lost when the test says so. */
function watchRuns(): Call[] {
  const calls: Call[] = [];
  const run = vi.spyOn(PostgresStore.prototype, "run").mockImplementation(async function (
    this: PostgresStore,
    ops: readonly Op[],
    { onSent }: RunOptions = {},
  ) {
    const { promise, resolve, reject } = Promise.withResolvers<BatchResult>();
    const { queue } = ops[0] as Op<"stats">;
    calls.push({
      queue,
      link: this.link,
      onSent: onSent!,
      answer: () => resolve({ outcomes: [{ ok: queue }] } as unknown as BatchResult),
      lose: () => reject(Object.assign(new Error("connection reset"), { code: "ECONNRESET" })),
    });
    return promise;
  });
  onTestFinished(() => run.mockRestore());
  return calls;
}

test("lost batches are repeated first on the next connection, one after the other", async () => {
  const calls = watchRuns();
  const reach = new ReconnectingStore({
    connect: async () => fakeLink(),
    tx: { session: true, durability: "full" },
    where: "here",
    patience: 10_000,
  });
  onTestFinished(() => reach.close());
  const sender = new Sender(reach);
  const called = (count: number): Promise<void> =>
    vi.waitFor(() => expect(calls).toHaveLength(count), { interval: 1 });
  const first = sender.run([read("a")]);
  await called(1);
  calls[0]!.onSent();
  const second = sender.run([read("b")]);
  await called(2);
  calls[1]!.onSent();
  for (const call of calls) call.lose();
  await new Promise((resolve) => setImmediate(resolve));
  // The batch has its turn, because the one before it was sent.
  const third = sender.run([read("c")]);
  for (let count = 3; count <= 5; count++) {
    await called(count);
    expect(calls.at(-1)!.link).not.toBe(calls[0]!.link);
    // No other batch has begun while this one is in progress.
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(calls).toHaveLength(count);
    calls.at(-1)!.answer();
  }
  expect(calls.map(({ queue }) => queue)).toEqual(["a", "b", "a", "b", "c"]);
  await Promise.all([first, second, third]);
});
