import { expect, test } from "vitest";
import { Gatherer, type GathererListener } from "../../src/broker/gather.ts";
import { DibsError } from "../../src/core/errors/errors.ts";
import type { Engine, Op, Outcome } from "../../src/engine/engine.ts";

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const read = (queue: string): Op<"stats"> => ({ verb: "stats", queue });

/** An engine whose batches the test answers. */
function makeGatherer(depth = 2, onSend: GathererListener["onSend"] = () => {}) {
  const batches: {
    ops: readonly Op[];
    answer: (outcomes?: Outcome[]) => Promise<void>;
    fail: () => Promise<void>;
  }[] = [];
  const engine = {
    depth,
    onHint: () => {},
    close: async () => {},
    execute: (ops: readonly Op[]) =>
      new Promise((resolve, reject) => {
        const answer = (outcomes = ops.map((op) => ({ ok: op }) as unknown as Outcome)): Promise<void> => {
          resolve(outcomes);
          return turn();
        };
        const fail = (): Promise<void> => {
          reject(new DibsError("UNAVAILABLE", "no disk"));
          return turn();
        };
        batches.push({ ops, answer, fail });
      }),
  } as unknown as Engine;
  const commits: number[] = [];
  const gatherer = new Gatherer(engine, { onSend, onCommit: (ops) => commits.push(ops.length) });
  return { gatherer, batches, commits };
}

test("calls of one moment go into one batch, in order", async () => {
  const { gatherer, batches } = makeGatherer();
  const calls = ["a", "b", "c"].map((queue) => gatherer.run(read(queue)));
  await turn();
  expect(batches.map(({ ops }) => ops.length)).toEqual([3]);
  await batches[0]!.answer();
  expect((await Promise.all(calls)).map(({ queue }) => queue)).toEqual(["a", "b", "c"]);
});

test("workers' claims go behind settlements of the same moment, and each call gets its own answer", async () => {
  const { gatherer, batches } = makeGatherer();
  const settle = (id: string): Op => ({
    verb: "settle",
    id,
    fence: 1,
    settlement: { kind: "done", result: null },
  });
  const claim = (worker: string, session?: number): Op => ({
    verb: "claim",
    ...{ queues: ["q"], max: 1, worker },
    ...(session !== undefined && { session }),
  });
  const ops = [
    settle("1"),
    claim("a", 1),
    settle("2"),
    claim("b", 2),
    claim("by hand"),
    settle("3"),
    claim("c", 3),
  ];
  ops.push(read("x"), claim("d", 4), settle("4"));
  const calls = ops.map((op) => gatherer.run(op) as Promise<unknown>);
  await turn();
  const names = batches[0]!.ops.map((op) => ("id" in op ? op.id : "worker" in op ? op.worker : op.verb));
  expect(names).toEqual(["1", "2", "a", "b", "by hand", "3", "c", "stats", "4", "d"]);
  await batches[0]!.answer();
  expect(await Promise.all(calls)).toEqual(ops);
});

test("calls collect while the engine has its maximum of batches in progress", async () => {
  const { gatherer, batches } = makeGatherer();
  for (let call = 0; call < 10; call++) {
    void gatherer.run(read(`${call}`));
    await turn();
  }
  expect(batches.map(({ ops }) => ops.length)).toEqual([1, 1]);
  await batches[0]!.answer();
  await turn();
  expect(batches.map(({ ops }) => ops.length)).toEqual([1, 1, 8]);
});

test("many calls of one moment are sent while the others are still being made", async () => {
  const { gatherer, batches } = makeGatherer(3);
  for (let call = 0; call < 300; call++) void gatherer.run(read(`${call}`));
  // No turn of the event loop has passed.
  expect(batches.map(({ ops }) => ops.length)).toEqual([128, 128]);
  await turn();
  expect(batches.map(({ ops }) => ops.length)).toEqual([128, 128, 44]);
});

test("a large operation is sent at once, and not together with earlier ones", async () => {
  const { gatherer, batches } = makeGatherer(9);
  const add = (count: number): Op => ({
    verb: "add",
    tasks: Array.from({ length: count }, () => ({ queue: "work", data: "1" })),
  });
  void gatherer.run(add(1));
  void gatherer.run(add(500));
  void gatherer.run(read("a"));
  void gatherer.run({ verb: "claim", queues: ["work"], max: 500, worker: "w" });
  expect(batches.map(({ ops }) => ops.map(({ verb }) => verb))).toEqual([
    ["add"],
    ["add"],
    ["stats"],
    ["claim"],
  ]);
});

test("documents are sent with the large add that follows them", async () => {
  const { gatherer, batches } = makeGatherer();
  const tasks = Array.from({ length: 500 }, () => ({ queue: "work", data: "1" }));
  void gatherer.run({ verb: "documents", kind: "amqp-version", name: "topology", limit: 1 });
  void gatherer.run({ verb: "add", tasks });
  expect(batches.map(({ ops }) => ops.map(({ verb }) => verb))).toEqual([["documents", "add"]]);
});

test("a declaration is sent with the call that follows it", async () => {
  const { gatherer, batches } = makeGatherer(3);
  for (let call = 0; call < 127; call++) void gatherer.run(read(`${call}`));
  void gatherer.run({ verb: "declare", queue: "a", policy: {} });
  expect(batches).toEqual([]);
  void gatherer.run(read("a"));
  expect(batches.map(({ ops }) => ops.length)).toEqual([129]);
});

test("each call gets its own answer, or its own error", async () => {
  const { gatherer, batches } = makeGatherer();
  const calls = [gatherer.run(read("a")), gatherer.run(read("b"))];
  const settled = Promise.allSettled(calls);
  await turn();
  await batches[0]!.answer([
    { refused: { code: "INVALID", message: "not this one" } },
    { ok: "fine" } as unknown as Outcome,
  ]);
  expect(await settled).toMatchObject([
    { status: "rejected", reason: { code: "INVALID", message: "not this one" } },
    { status: "fulfilled", value: "fine" },
  ]);
});

test("when a commit fails, all its calls fail, and the next batch is sent", async () => {
  const { gatherer, batches } = makeGatherer();
  const settled = Promise.allSettled([gatherer.run(read("a")), gatherer.run(read("b"))]);
  await turn();
  await batches[0]!.fail();
  expect(
    (await settled).map((call) => (call.status === "rejected" ? (call.reason as DibsError).code : "")),
  ).toEqual(["UNAVAILABLE", "UNAVAILABLE"]);
  const next = gatherer.run(read("c"));
  await turn();
  await batches[1]!.answer();
  await next;
});

test("a batch is bounded, and none ends with a declaration", async () => {
  const { gatherer, batches } = makeGatherer(1);
  const calls = [gatherer.run(read("first"))];
  await turn();
  for (let call = 0; call < 1_999; call++) calls.push(gatherer.run(read(`${call}`)));
  calls.push(gatherer.run({ verb: "declare", queue: "q", policy: {} }) as never, gatherer.run(read("q")));
  for (let batch = 0; batch < 3; batch++) {
    await batches[batch]!.answer();
    await turn();
  }
  expect(batches.map(({ ops }) => ops[0]!.verb)).toEqual(["stats", "stats", "declare"]);
  expect(batches.map(({ ops }) => ops.length)).toEqual([1, 1_999, 2]);
  await Promise.all(calls);
});

test("thousands of declarations are sent in few batches", async () => {
  const { gatherer, batches } = makeGatherer(9);
  for (let call = 0; call < 4_500; call++)
    void gatherer.run({ verb: "declare", queue: `${call}`, policy: {} });
  void gatherer.run(read("4499"));
  for (let batch = 0; batch < 3; batch++) await turn();
  expect(batches.map(({ ops }) => ops.length)).toEqual([1_999, 1_999, 503]);
});

test("closing answers earlier calls, and refuses later ones", async () => {
  const { gatherer, batches } = makeGatherer();
  const before = gatherer.run(read("a"));
  let closed = false;
  const closing = gatherer.close().then(() => (closed = true));
  await expect(gatherer.run(read("b"))).rejects.toMatchObject({ code: "CLOSED" });
  await turn();
  expect(closed).toBe(false);
  await batches[0]!.answer();
  await before;
  await closing;
});

test("signals and cancels are single batches: together they could deadlock", async () => {
  const { gatherer, batches } = makeGatherer(9);
  const cancel = (id: string): Op<"cancel"> => ({ verb: "cancel", id });
  for (const op of [read("a"), read("b"), cancel("1"), cancel("2"), read("c"), read("d")])
    void gatherer.run(op);
  for (let i = 0; i < 9; i++) await turn();
  expect(batches.map(({ ops }) => ops.length)).toEqual([2, 1, 1, 2]);
  void gatherer.run(read("e"));
  void gatherer.run(read("f"));
  await turn();
  expect(batches.at(-1)!.ops).toHaveLength(2);
});

test("a call made in onSend joins the batch at its end", async () => {
  const asked: string[] = [];
  const { gatherer, batches } = makeGatherer(2, (waiting) => {
    for (const { op } of [...waiting]) {
      if (op.verb !== "add") continue;
      asked.push(...op.tasks.map(({ queue }) => queue));
      void gatherer.run(read(`beside ${asked.length}`));
    }
  });
  void gatherer.run({ verb: "add", tasks: [{ queue: "a", data: "1" }] });
  void gatherer.run(read("b"));
  await turn();
  expect(asked).toEqual(["a"]);
  expect(batches.map(({ ops }) => ops.map(({ verb }) => verb))).toEqual([["add", "stats", "stats"]]);
});
