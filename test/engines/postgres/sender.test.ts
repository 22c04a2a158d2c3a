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

/** A sender whose transactions are answered, or fail, when the test says so. */
function makeSender({ isLost = false } = {}) {
  const sent: {
    ops: readonly Op[];
    onSent: () => void;
    answer: (result?: Partial<BatchResult>) => Promise<void>;
    fail: () => Promise<void>;
  }[] = [];
  const store = {
    isLost,
    run: (ops: readonly Op[], { onSent }: RunOptions) =>
      new Promise((resolve, reject) => {
        const outcomes = ops.map((op) => ({ ok: op }));
        sent.push({
          ops: [...ops],
          onSent: onSent!,
          answer: (result = {}) => {
            resolve({ outcomes, hint: {}, hasNotices: false, loweredFloors: [], ...result });
            return turn();
          },
          fail: () => {
            reject(new Error("no server"));
            return turn();
          },
        });
      }),
  } as unknown as ReconnectingStore;
  return { sender: new Sender(store), sent };
}

const okOf = ({ outcomes }: BatchResult): unknown[] =>
  outcomes.map((outcome) => (outcome as { ok: unknown }).ok);

test("batches that arrive while another is in progress share the next transaction", async () => {
  const { sender, sent } = makeSender();
  const ops = ["a", "b", "c", "d"].map(settle);
  const answers = ops.map((op) => sender.runCoalesced([op]));
  await turn();
  expect(sent.map((each) => each.ops)).toEqual([ops]);
  const late = sender.runCoalesced([settle("e")]);
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

test("the effects of a coalesced commit are reported to one caller only", async () => {
  const { sender, sent } = makeSender();
  const [first, second] = [sender.runCoalesced([settle("a")]), sender.runCoalesced([settle("b")])];
  await turn();
  await sent[0]!.answer({
    hint: { ready: { work: 2 } },
    hasNotices: true,
    loweredFloors: ["work"],
    changed: true,
  });
  expect(await first).toMatchObject({
    hint: { ready: { work: 2 } },
    hasNotices: true,
    loweredFloors: ["work"],
  });
  expect(await second).toMatchObject({ hint: {}, hasNotices: false, loweredFloors: [], changed: true });
});

test("a large claim is the last of its coalesced batch, and a batch that is not coalesced stays single", async () => {
  const { sender, sent } = makeSender();
  void sender.runCoalesced([settle("a")]);
  void sender.runCoalesced([claim(500)]);
  void sender.runCoalesced([claim(500)]);
  void sender.run([settle("b")]);
  void sender.runCoalesced([settle("c")]);
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

test("every caller of a coalesced batch gets the error if it fails", async () => {
  const { sender, sent } = makeSender();
  const answers = [sender.runCoalesced([settle("a")]), sender.runCoalesced([settle("b")])];
  const settled = Promise.allSettled(answers);
  await turn();
  await sent[0]!.fail();
  expect((await settled).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
});

test("batches are not coalesced while the server is unreachable", async () => {
  const { sender, sent } = makeSender({ isLost: true });
  void sender.runCoalesced([settle("a")]);
  void sender.runCoalesced([settle("b")]);
  await turn();
  expect(sent[0]!.ops).toEqual([settle("a")]);
});

test("a sender keeps no answers of earlier batches in memory", async () => {
  const { sender, sent } = makeSender();
  for (const id of ["a", "b"]) {
    const answer = sender.run([settle(id)]);
    await turn();
    await sent.at(-1)!.answer();
    await answer;
  }
  expect(await sender.answered).toBeUndefined();
});
