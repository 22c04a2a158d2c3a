import { expect, test } from "vitest";
import type { Op } from "../../../src/engine/engine.ts";
import type { ReconnectingStore } from "../../../src/engines/postgres/batch/reconnecting-store.ts";
import { Sender } from "../../../src/engines/postgres/batch/sender.ts";
import type { BatchResult, RunOptions } from "../../../src/engines/postgres/batch/batch-result.ts";

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const settle = (id: string): Op => ({
  verb: "settle",
  id,
  fence: 1,
  settlement: { kind: "done", result: null },
});
const claim = (max: number): Op => ({ verb: "claim", queues: ["work"], max, worker: "w" });

/** A connection whose transactions are sent on, answered and lost when the test says so. */
function makeSender({ isLost = false } = {}) {
  const sent: {
    ops: readonly Op[];
    onSent: () => void;
    answer: (ran?: Partial<BatchResult>) => Promise<void>;
    fail: () => Promise<void>;
  }[] = [];
  const reach = {
    isLost,
    run: (ops: readonly Op[], { onSent }: RunOptions) =>
      new Promise((resolve, reject) => {
        const outcomes = ops.map((op) => ({ ok: op }));
        sent.push({
          ops: [...ops],
          onSent: onSent!,
          answer: (ran = {}) => {
            resolve({ outcomes, hint: {}, noticed: false, stirred: [], ...ran });
            return turn();
          },
          fail: () => {
            reject(new Error("no server"));
            return turn();
          },
        });
      }),
  } as unknown as ReconnectingStore;
  return { sender: new Sender(reach), sent };
}

const okOf = ({ outcomes }: BatchResult): unknown[] =>
  outcomes.map((outcome) => (outcome as { ok: unknown }).ok);

test("batches that come while others are under way share the next transaction", async () => {
  const { sender, sent } = makeSender();
  const ops = ["a", "b", "c", "d"].map(settle);
  const answers = ops.map((op) => sender.runTogether([op]));
  await turn();
  expect(sent.map((each) => each.ops)).toEqual([ops]);
  const late = sender.runTogether([settle("e")]);
  await turn();
  expect(sent).toHaveLength(1);
  sent[0]!.onSent();
  await turn();
  expect(sent[1]!.ops).toEqual([settle("e")]);
  await sent[0]!.answer();
  await sent[1]!.answer();
  expect((await Promise.all(answers)).map(okOf)).toEqual(ops.map((op) => [op]));
  expect(okOf(await late)).toEqual([settle("e")]);
});

test("what follows from their commit is told once", async () => {
  const { sender, sent } = makeSender();
  const [first, second] = [sender.runTogether([settle("a")]), sender.runTogether([settle("b")])];
  await turn();
  await sent[0]!.answer({ hint: { ready: { work: 2 } }, noticed: true, stirred: ["work"], changed: true });
  expect(await first).toMatchObject({ hint: { ready: { work: 2 } }, noticed: true, stirred: ["work"] });
  expect(await second).toMatchObject({ hint: {}, noticed: false, stirred: [], changed: true });
});

test("a claim for many goes by itself, and so does what waits for others", async () => {
  const { sender, sent } = makeSender();
  void sender.runTogether([settle("a")]);
  void sender.runTogether([claim(500)]);
  void sender.runTogether([claim(500)]);
  void sender.run([settle("b")], { after: Promise.resolve() });
  void sender.runTogether([settle("c")]);
  for (let i = 0; i < 5; i++) {
    await turn();
    sent.at(-1)!.onSent();
  }
  expect(sent.map(({ ops }) => ops)).toEqual([
    [settle("a"), claim(500)],
    [claim(500)],
    [settle("b")],
    [settle("c")],
  ]);
});

test("who shares a transaction that fails is told so, each", async () => {
  const { sender, sent } = makeSender();
  const answers = [sender.runTogether([settle("a")]), sender.runTogether([settle("b")])];
  const told = Promise.allSettled(answers);
  await turn();
  await sent[0]!.fail();
  expect((await told).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(sender.isBusy).toBe(false);
});

test("while the server is away each goes by itself", async () => {
  const { sender, sent } = makeSender({ isLost: true });
  void sender.runTogether([settle("a")]);
  void sender.runTogether([settle("b")]);
  await turn();
  expect(sent[0]!.ops).toEqual([settle("a")]);
});
