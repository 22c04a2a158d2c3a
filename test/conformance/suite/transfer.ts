import { describe, expect, test } from "vitest";
import { formatRecord, parseRecord } from "../../../src/core/record/record-lines.ts";
import type { StoreRecord } from "../../../src/core/record/record.ts";
import { verificationQueue, verifiedBy } from "../../../src/core/handler/verification.ts";
import { cancelMove, moveStore } from "../../../src/transfer/move.ts";
import type { TransferStore } from "../../../src/engine/transfer.ts";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimNames,
  claimOne,
  depths,
  HOUR,
  joinWorker,
  nack,
  numbered,
  passLong,
  QUEUE,
  refused,
  type Start,
  stateOf,
} from "./kit.ts";
import { CHECKED, claimAll, copyStore, fillStore, snapshotOf, stage } from "./transfer-kit.ts";

/** Converts records to lines and back, as a file does. */
async function* asLines(pages: AsyncIterable<StoreRecord[]>): AsyncGenerator<StoreRecord[]> {
  let line = 0;
  for await (const page of pages) yield page.map((record) => parseRecord(formatRecord(record), ++line));
}

class Killed extends Error {}

/** Records per page, for cases that need many pages. */
const SMALL_PAGE = 10;

/** Stops after this many records, as if the process had been killed. */
async function* killedAfter(
  count: number,
  pages: AsyncIterable<StoreRecord[]>,
): AsyncGenerator<StoreRecord[]> {
  const records = (await Array.fromAsync(pages)).flat().slice(0, count);
  for (let from = 0; from < count; from += SMALL_PAGE) yield records.slice(from, from + SMALL_PAGE);
  throw new Killed();
}

async function openTwo(start: Start, startOther: Start) {
  const [here, there] = [await start(), await startOther()];
  const [source, target] = [await here.transfer(), await there.transfer()];
  return { here, there, from: here.port, to: there.port, source, target };
}

/** Everything arrives, also if the target has another engine. */
export function roundTrip(start: Start, startOther: Start): void {
  const two = () => openTwo(start, startOther);

  describe("importing a store with some of everything", () => {
    test("an imported store contains everything, and hands it out in the same order", async () => {
      const { here, there, from, to, source, target } = await two();
      await fillStore(here);
      await there.clock.advance(here.clock.read().wall - there.clock.read().wall);
      const before = await snapshotOf(from);
      await copyStore(source, target, asLines);
      expect(await snapshotOf(to)).toEqual(before);
      expect(await claimAll(to)).toEqual(await claimAll(from));
    });

    test("an imported run has its signals", async () => {
      const { from, to, source, target } = await two();
      const run = { pipeline: "signalled", stages: [{ name: "one", joins: false }] };
      const queue = "signalled/one";
      const [added] = await from.add([{ queue, data: "1", run }]);
      await from.signal(added!.id, "go", new Uint8Array([0, 255]), { of: "runs" });
      await from.signal(added!.id, "stop", null, { of: "runs" });
      await copyStore(source, target, asLines);
      expect(await to.signal(added!.id, "stop", "1", { of: "runs" })).toBe(false);
      const held = await claimOne(to, { queues: [queue] });
      expect((await to.settle(held, { kind: "park", signal: "go", timeout: null })).state).toBe("ready");
      expect(await to.steps(added!.id)).toEqual([
        { kind: "signal", name: "go", value: new Uint8Array([0, 255]) },
      ]);
    });

    test("an imported parent has its children, and continues", async () => {
      const { from, to, source, target } = await two();
      await addOne(from, { data: "parent" });
      const parent = await claimOne(from);
      const task = { queue: "parts", data: "1" };
      const named = ["done", "gone", "lost", "open"].map((name) => ({ name, task }));
      const spawned = await from.spawn(parent, named);
      await from.settle(parent, { kind: "park", signal: "children:1-4", timeout: null });
      const [done, gone, lost] = await claim(from, { queues: ["parts"], max: 3 });
      await ack(from, done!, '"done"');
      for (const held of [gone!, lost!])
        await from.settle(held, {
          kind: "reject",
          error: { name: "Error", message: "\u0001 no", stack: null },
        });
      await from.discard("parts", { ids: [gone!.id] });
      const before = await from.children(parent.id, { ends: true });
      await copyStore(source, target, asLines);
      expect(await to.children(parent.id, { ends: true })).toEqual(before);
      expect(await to.task(spawned[3]!.id)).toMatchObject({ parent: { id: parent.id } });
      await ack(to, await claimOne(to, { queues: ["parts"] }));
      const again = await claimOne(to);
      expect(again.id).toBe(parent.id);
      expect(await to.spawn(again, named)).toMatchObject(spawned.map(({ id }) => ({ id, existing: true })));
    });

    test("an imported run with branches merges its results", async () => {
      const { from, to, source, target } = await two();
      const stages = [
        ...["a", "left"].map((name) => ({ name, joins: false })),
        { name: "right", joins: false, after: "a" },
        { name: "merge", joins: false, after: ["left", "right"] },
      ];
      const of = (name: string) => ({ queues: [`branched/${name}`] });
      const [added] = await from.add([
        { ...{ queue: "branched/a", data: "1" }, run: { pipeline: "branched", stages } },
      ]);
      await ack(from, await claimOne(from, of("a")), "1");
      await ack(from, await claimOne(from, of("left")), "2");
      await copyStore(source, target, asLines);
      await ack(to, await claimOne(to, of("right")), "3");
      const merge = await claimOne(to, of("merge"));
      expect(merge.data).toBe('{"left":2,"right":3}');
      await ack(to, merge, "4");
      expect(await to.end(added!.id, { of: "runs" })).toMatchObject({ state: "done", result: "4" });
    });

    test("an imported store continues: due tasks, signals, verdicts and publishes work as in the source", async () => {
      const { here, there, to, source, target } = await two();
      await fillStore(here);
      await there.clock.advance(here.clock.read().wall - there.clock.read().wall);
      await copyStore(source, target, asLines);
      // The key of an ended task, and of a pending one.
      expect(await addOne(to, { queue: "keyed", idempotencyKey: "ended" })).toMatchObject({
        state: "done",
        existing: true,
      });
      expect(await addOne(to, { queue: "keyed", idempotencyKey: "pending" })).toMatchObject({
        existing: true,
      });
      // A signal, and the steps before it.
      const parked = (await to.list({ queue: "parked", state: "parked", limit: 10 })).tasks.find(
        ({ waitsFor }) => waitsFor === "approval",
      );
      expect(await to.signal(parked!.id, "approval", '"yes"')).toBe(true);
      expect(await claimOne(to, { queues: ["parked"] })).toMatchObject({ id: parked!.id, stepped: true });
      // A verdict, with the tasks that it adds and the task that waits behind it.
      const [asking] = await claim(to, { queues: [verificationQueue(CHECKED)], max: 10 });
      await to.settle(asking!, { kind: "accept", of: verifiedBy(asking!.data)! });
      expect(await claimNames(to, { queues: ["added-by"] })).toEqual(["added by accept"]);
      expect(await claimNames(to, { queues: [CHECKED] })).toContain("behind to be judged");
      // A run, to its end.
      await to.redrive(stage("work"), {}, 0);
      for (const held of await claim(to, { queues: [stage("work")], max: 10 }))
        await ack(to, held, held.data);
      const joined = await claimOne(to, { queues: [stage("join")] });
      expect(JSON.parse(joined.data as string)).toEqual(["one", 2, 3]);
      await ack(to, joined, '"all"');
      expect(await to.end(joined.run!.id, { of: "runs" })).toMatchObject({ state: "done", result: '"all"' });
      // Subscriptions.
      const published = await to.publish({ topic: "orders.fr.placed", data: "1" });
      expect(published).toHaveLength(2);
      // What is due: the schedule, delayed tasks, and held groups.
      await passLong(there.clock, HOUR);
      expect(await depths(to, "scheduled-by")).toEqual({ ready: 1 });
      expect(await claimNames(to, { queues: ["held"] })).toEqual(["held back"]);
      expect(await claimNames(to, { queues: ["rated"] })).toEqual(["rated 1"]);
      expect(await claimNames(to, { queues: ["retried"], worker: "another" })).toContain("failed");
      // New tasks come last, with their own ids.
      const { id } = await addOne(to, { data: "new" });
      expect(await stateOf(to, id)).toBe("ready");
    });
  });
}

export function transfer(start: Start): void {
  const two = () => openTwo(start, start);
  roundTrip(start, start);

  describe("importing an export", () => {
    test("a claimed task is imported as ready at its position, and its old fence is invalid", async () => {
      const { from, to, source, target } = await two();
      await addNamed(from, ["a", "b"]);
      await addNamed(from, ["g1", "g2"], { groupKey: "g" });
      const held = await claim(from, { max: 4 });
      expect(held).toHaveLength(3);
      await copyStore(source, target);
      await refused(() => ack(to, held[0]!), "CLAIM_LOST");
      expect(await claimNames(to)).toEqual(["a", "b", "g1"]);
      await ack(from, held[0]!);
    });

    test("an imported failed task is offered to other workers as long as before", async () => {
      const { here, there, from, to, source, target } = await two();
      const [one] = [await joinWorker(from, "one"), await joinWorker(from, "two")];
      await addNamed(from, ["a"]);
      await nack(from, await one.claimOne());
      await copyStore(source, target);
      expect(await claimNames(to, { worker: "one" })).toEqual([]);
      await here.clock.advance(0);
      await there.clock.advance(5_000);
      expect(await claimNames(to, { worker: "one" })).toEqual(["a"]);
    });

    test("importing into a store that is not empty is refused, and changes nothing", async () => {
      const { from, to, source, target } = await two();
      await addNamed(from, ["a"]);
      await addNamed(to, ["b"]);
      await refused(() => copyStore(source, target), "INVALID", "is not empty", "Nothing was changed");
      expect(await claimNames(to)).toEqual(["b"]);
    });

    test("importing a truncated export leaves the store closed", async () => {
      const { from, to, source, target } = await two();
      await addNamed(from, ["a"]);
      const cutOff = async function* (pages: AsyncIterable<StoreRecord[]>) {
        for await (const page of pages) yield page.filter(({ type }) => type !== "end");
      };
      await refused(() => copyStore(source, target, cutOff), "INVALID", "its end is missing");
      await refused(() => to.stats(QUEUE), "UNAVAILABLE", "import");
    });

    test("importing an export with wrong counts is refused, and leaves the store closed", async () => {
      const { from, to, source, target } = await two();
      await addNamed(from, ["a", "b"]);
      const without = async function* (pages: AsyncIterable<StoreRecord[]>) {
        for await (const page of pages)
          yield page.filter((record) => !("data" in record && record.data === "a"));
      };
      await refused(
        ...([
          () => copyStore(source, target, without),
          "INVALID",
          `of queue "${QUEUE}" 2 tasks ready`,
        ] as const),
      );
      await refused(() => to.queues(), "UNAVAILABLE");
    });
  });

  describe("an interrupted import", () => {
    test("an interrupted import continues with the same export after any record, without duplicates", async () => {
      const { here, there, from, to, source, target } = await two();
      await fillStore(here);
      await there.clock.advance(here.clock.read().wall - there.clock.read().wall);
      const records = (await Array.fromAsync(source.read())).flat();
      const again = async function* () {
        yield records;
      };
      for (let count = 1; count < records.length; count += 13) {
        const cut = (pages: AsyncIterable<StoreRecord[]>) => killedAfter(count, pages);
        await expect(copyStore({ ...source, read: again }, target, cut)).rejects.toThrow(Killed);
        await refused(() => to.queues(), "UNAVAILABLE", "import", "run it again");
      }
      await copyStore({ ...source, read: again }, target);
      expect(await snapshotOf(to)).toEqual(await snapshotOf(from));
    });

    test("an interrupted import does not continue with another export", async () => {
      const { from, source, target } = await two();
      await addNamed(from, numbered(3));
      const cut = (pages: AsyncIterable<StoreRecord[]>) => killedAfter(3, pages);
      await expect(copyStore(source, target, cut)).rejects.toThrow(Killed);
      await refused(() => copyStore(source, target), "INVALID", "part of another import", "delete the store");
    });

    test("of two processes that import the same export at the same time, one is refused", async () => {
      const { from, source, target } = await two();
      await addNamed(from, numbered(3));
      const records = (await Array.fromAsync(source.read())).flat();
      const [header] = records;
      if (header?.type !== "store") throw new Error("an export begins with its header");
      await target.beginImport(header);
      await target.write(records.slice(0, 2), 2);
      await refused(() => target.write(records.slice(0, 1), 1), "UNAVAILABLE", "Another process");
    });
  });

  describe("move", () => {
    test("a move transfers everything, and closes the source", async () => {
      const { here, there, from, to, source, target } = await two();
      await fillStore(here);
      await there.clock.advance(here.clock.read().wall - there.clock.read().wall);
      const before = await snapshotOf(from);
      await moveStore(source, target);
      expect(await snapshotOf(to)).toEqual(before);
      await refused(() => from.queues(), "UNAVAILABLE", "was moved to another store");
      await refused(() => moveStore(source, target), "INVALID", "before");
    });

    test("a move is refused while tasks are claimed, and changes nothing", async () => {
      const { from, to, source, target } = await two();
      await addNamed(from, ["a", "b"]);
      const held = await claimOne(from);
      await refused(() => moveStore(source, target), "UNAVAILABLE", "1 task", "--wait");
      expect(await claimNames(from)).toEqual(["b"]);
      expect((await to.queues()).items).toEqual([]);
      await ack(from, held);
    });

    test("a move that waits for claims hands out nothing meanwhile, and leaves no queue paused", async () => {
      const { from, to, source, target } = await two();
      await addNamed(from, ["a", "b"]);
      await addNamed(from, ["paused before"], { queue: "paused" });
      await from.pause("paused", true);
      const held = await claimOne(from);
      let waited: (() => void) | undefined;
      const waiting = new Promise<void>((resolve) => (waited = resolve));
      const moving = moveStore(source, target, { wait: true, onWaiting: () => waited!() });
      await waiting;
      expect(await claimNames(from)).toEqual([]);
      await addNamed(from, ["added meanwhile"]);
      await ack(from, held);
      await moving;
      expect(await claimNames(to)).toEqual(["b", "added meanwhile"]);
      expect((await to.queues()).items.filter(({ paused }) => paused).map(({ name }) => name)).toEqual([
        "paused",
      ]);
    });

    test("a move that was interrupted while it waited for claims can be cancelled", async () => {
      const { from, source, target } = await two();
      await addNamed(from, ["a", "b"]);
      await claimOne(from);
      await source.hold({ id: "x", to: target.label }, { drain: true });
      expect(await claimNames(from)).toEqual([]);
      await cancelMove(source, target);
      expect(await claimNames(from)).toEqual(["b"]);
      await refused(() => cancelMove(source, target), "INVALID", "not being moved");
    });

    test("an interrupted move continues, or is cancelled and leaves the source as it was", async () => {
      const { from, to, source, target } = await two();
      await addNamed(from, numbered(5));
      const isStopped = { checkStop: () => expect.fail("stopped") };
      await expect(moveStore(source, target, isStopped)).rejects.toThrow("stopped");
      await refused(() => from.queues(), "UNAVAILABLE", "is being moved to another store", "--cancel");
      await cancelMove(source, target);
      expect(await depths(from)).toEqual({ ready: 5 });
      await refused(() => to.queues(), "UNAVAILABLE", "import");
      // The target contains part of a cancelled move.
      await refused(() => moveStore(source, target), "INVALID", "Nothing was changed");
    });

    test("a move that was killed before it marked the source only marks it when it is repeated", async () => {
      const { from, to, source, target } = await two();
      await addNamed(from, numbered(2));
      const unmarked = Object.assign(Object.create(source) as TransferStore, {
        ...{ label: source.label, state: () => source.state(), read: () => source.read() },
        hold: (...given: Parameters<TransferStore["hold"]>) => source.hold(...given),
        markMoved: () => Promise.reject(new Killed()),
      });
      await expect(moveStore(unmarked, target)).rejects.toThrow(Killed);
      // The target is open, and continues meanwhile.
      await ack(to, await claimOne(to));
      await refused(() => from.queues(), "UNAVAILABLE", "is being moved");
      await refused(() => cancelMove(source, target), "INVALID", "has arrived");
      await moveStore(source, target);
      expect(await claimNames(to)).toEqual(["1"]);
      await refused(() => from.queues(), "UNAVAILABLE", "was moved to");
    });

    test("a move into a store that is not empty is refused before the source is held", async () => {
      const { from, to, source, target } = await two();
      await addNamed(from, ["a"]);
      await addNamed(to, ["b"]);
      await refused(() => moveStore(source, target), "INVALID", "is not empty");
      expect(await claimNames(from)).toEqual(["a"]);
    });
  });
}
