import { describe, expect, test } from "vitest";
import type { ChildEnd } from "../../../src/core/handler/children.ts";
import { ALL_CHILDREN } from "../../../src/core/handler/children-signal.ts";
import { LIMITS } from "../../../src/core/input/limits.ts";
import type { Port } from "../../../src/core/port.ts";
import type { ClaimedTask, NewTask, TaskState } from "../../../src/core/task/task.ts";
import { verificationQueue } from "../../../src/core/handler/verification.ts";
import {
  ack,
  addOne,
  claim,
  claimOne,
  DAY,
  eventsUntil,
  failure,
  HOUR,
  idsOf,
  joinWorker,
  listen,
  MINUTE,
  nack,
  passLong,
  QUEUE,
  refused,
  reject,
  release,
  SECOND,
  type Start,
  stateOf,
  waiting,
} from "./kit.ts";

const PARTS = "parts";

async function spawn(
  port: Port,
  held: ClaimedTask,
  names: string[],
  fields: Partial<NewTask> = {},
): Promise<string[]> {
  const children = names.map((name) => ({ name, task: { queue: PARTS, data: `"${name}"`, ...fields } }));
  return idsOf(await port.spawn(held, children));
}

async function park(
  port: Port,
  held: ClaimedTask,
  signal = ALL_CHILDREN,
  timeout: number | null = null,
): Promise<TaskState> {
  return (await port.settle(held, { kind: "park", signal, timeout })).state;
}

/** Claims a task of the parents' queue. */
async function beginParent(port: Port, fields: Partial<NewTask> = {}): Promise<ClaimedTask> {
  await addOne(port, fields);
  return claimOne(port);
}

const claimPart = (port: Port) => claimOne(port, { queues: [PARTS] });

/** A parent that waits for children, and their ids. */
async function parkedParent(port: Port, names = ["a", "b"], fields: Partial<NewTask> = {}) {
  const parent = await beginParent(port);
  const ids = await spawn(port, parent, names, fields);
  expect(await park(port, parent)).toBe("parked");
  return { id: parent.id, ids };
}

async function endsOf(port: Port, id: string): Promise<ChildEnd[]> {
  return (await port.children(id, { ends: true })).children as ChildEnd[];
}

const statesOf = async (port: Port, id: string) =>
  (await port.children(id)).children.map(({ state }) => state);

export function children(start: Start): void {
  describe("spawning children", () => {
    test("spawned children exist at once, in order, and name their parent", async () => {
      const { port } = await start();
      const parent = await beginParent(port);
      const [first] = await port.spawn(parent, [{ name: "spawn:1", task: { queue: PARTS, data: '"one"' } }]);
      expect(first).toMatchObject({ queue: PARTS, state: "ready", existing: false, n: 1 });
      const [named] = await spawn(port, parent, ["named 名"], { delay: HOUR });
      expect((await port.children(parent.id)).children).toEqual([
        expect.objectContaining({
          id: first!.id,
          queue: PARTS,
          n: 1,
          name: null,
          state: "ready",
          endedAt: null,
        }),
        expect.objectContaining({ id: named, n: 2, name: "named 名", state: "scheduled" }),
      ]);
      expect(await port.task(parent.id)).toMatchObject({ children: { total: 2, pending: 2 } });
      expect(await port.task(first!.id)).toMatchObject({ parent: { id: parent.id, queue: QUEUE } });
      expect(await claimPart(port)).toMatchObject({ id: first!.id, data: '"one"' });
    });

    test("a task without a parent and children shows neither", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const record = await port.task(id);
      expect("parent" in record || "children" in record).toBe(false);
      expect(await port.children(id)).toEqual({ children: [], next: null });
      await port.drop(QUEUE);
      await refused(() => port.children(id), "TASK_NOT_FOUND");
    });

    test("spawning the same child again returns it, after a failure, a lost lease, a release and a park", async () => {
      const { port, clock } = await start();
      await port.declare(QUEUE, { lease: SECOND });
      let parent = await beginParent(port);
      const ids = await spawn(port, parent, ["a", "b"]);
      const again = async (): Promise<void> => {
        parent = await claimOne(port);
        expect(parent.stepped).toBe(true);
        const spawned = await port.spawn(parent, [
          { name: "b", task: { queue: PARTS, data: '"another payload"' } },
          { name: "a", task: { queue: PARTS, data: '"another payload"' } },
        ]);
        expect(spawned).toMatchObject([
          { id: ids[1], existing: true, n: 2 },
          { id: ids[0], existing: true, n: 1 },
        ]);
      };
      await nack(port, parent);
      await again();
      await release(port, parent);
      await again();
      await clock.advance(SECOND);
      await again();
      await port.settle(parent, { kind: "park", signal: "go", timeout: null });
      await port.signal(parent.id, "go", null);
      await again();
      expect((await port.children(parent.id)).children).toHaveLength(2);
      expect((await port.stats(PARTS)).depth.ready).toBe(2);
    });

    test("the steps of a parent contain its children", async () => {
      const { port } = await start();
      const parent = await beginParent(port);
      const [id] = await spawn(port, parent, ["a"]);
      const [step] = await port.steps(parent.id);
      expect(step).toMatchObject({ kind: "child", name: "a" });
      expect(JSON.parse(step!.value as string)).toEqual({ id, queue: PARTS, n: 1 });
    });

    test("a worker that has lost its claim spawns nothing", async () => {
      const { port, clock } = await start();
      const parent = await beginParent(port);
      await clock.advance(MINUTE);
      await refused(() => spawn(port, parent, ["a"]), "CLAIM_LOST");
      const next = await claimOne(port);
      await refused(() => spawn(port, parent, ["a"]), "CLAIM_LOST");
      await ack(port, next);
      await refused(() => spawn(port, next, ["a"]), "CLAIM_LOST");
      expect((await port.children(parent.id)).children).toEqual([]);
      expect((await port.stats(PARTS)).exists).toBe(false);
    });

    test("a cancelled task spawns nothing more", async () => {
      const { port } = await start();
      const parent = await beginParent(port);
      await port.cancel(parent.id);
      await refused(() => spawn(port, parent, ["a"]), "TASK_CANCELLED");
      expect((await port.children(parent.id)).children).toEqual([]);
    });

    test("a spawn of which one child does not fit stores none", async () => {
      const { port } = await start();
      await port.declare(PARTS, { maxDepth: 2, maxPayload: 20 });
      const parent = await beginParent(port);
      await refused(() => spawn(port, parent, ["a", "b", "c"]), "QUEUE_FULL");
      await refused(() => spawn(port, parent, ["a"], { data: `"${"x".repeat(30)}"` }), "PAYLOAD_TOO_LARGE");
      expect((await port.children(parent.id)).children).toEqual([]);
      await spawn(port, parent, ["a", "b"]);
      // What is there already needs no room.
      expect(await spawn(port, parent, ["b", "a"])).toHaveLength(2);
      await refused(() => spawn(port, parent, ["a", "c"]), "QUEUE_FULL");
    });

    test("a task cannot have more children than the limit", async () => {
      const { port } = await start();
      const parent = await beginParent(port);
      const names = Array.from({ length: LIMITS.children }, (_, i) => `${i}`);
      await spawn(port, parent, names.slice(0, -1));
      await refused(() => spawn(port, parent, ["one", "two"]), "INVALID", "1000");
      await spawn(port, parent, ["last"]);
      await refused(() => spawn(port, parent, ["one too many"]), "INVALID");
      const first = await port.children(parent.id, { limit: 400 });
      expect(first.children.map(({ n }) => n)).toEqual(Array.from({ length: 400 }, (_, i) => i + 1));
      expect(first.next).toBe(400);
      expect(await port.children(parent.id, { after: 999 })).toMatchObject({
        children: [{ n: 1_000, name: "last" }],
        next: null,
      });
      expect((await port.task(parent.id)).children).toEqual({ total: 1_000, pending: 1_000 });
    });

    test("a spawn with bad input is refused", async () => {
      const { port } = await start();
      const parent = await beginParent(port);
      const task = { queue: PARTS, data: "1" };
      await refused(() => port.spawn(parent, []), "INVALID");
      await refused(() => port.spawn(parent, [{ name: "", task }]), "INVALID");
      await refused(() => spawn(port, parent, ["a", "a"]), "INVALID", "name");
      await refused(() => port.spawn(parent, [{ name: "a", task: { ...task, queue: "" } }]), "INVALID");
      const unique = { ...task, unique: { key: "k", while: "pending", on: "keep" } } as NewTask;
      await refused(() => port.spawn(parent, [{ name: "a", task: unique }]), "INVALID", "unique");
      const run = { pipeline: PARTS, stages: [{ name: "a", joins: false }] };
      const begins = { ...task, queue: `${PARTS}/a`, run };
      await refused(() => port.spawn(parent, [{ name: "a", task: begins }]), "INVALID", "run");
      const forged = { ...task, childOf: { parent: parent.id, n: 1, name: "a" } } as NewTask;
      await refused(() => port.add([forged]), "INVALID", "childOf");
      await refused(() => port.signal(parent.id, "children:1", null), "INVALID");
      for (const signal of ["children:", "children:2-1", "children:0", "children:1,x", "children:1-1001"])
        await refused(() => park(port, parent, signal), "INVALID");
      expect(await stateOf(port, parent.id)).toBe("claimed");
    });

    test("spawning under the name of a child in another queue is refused", async () => {
      const { port } = await start();
      const parent = await beginParent(port);
      await spawn(port, parent, ["spawn:1"]);
      await refused(() => spawn(port, parent, ["spawn:1"], { queue: "others" }), "INVALID", PARTS, "order");
      const both = ["new", "spawn:1"];
      await refused(() => spawn(port, parent, both, { queue: "others" }), "INVALID", PARTS, "order");
      expect((await port.children(parent.id)).children).toHaveLength(1);
      expect((await port.stats("others")).exists).toBe(false);
    });

    test("a child may have an idempotencyKey, unless another task has it", async () => {
      const { port } = await start();
      await addOne(port, { queue: PARTS, idempotencyKey: "taken" });
      const parent = await beginParent(port);
      await refused(() => spawn(port, parent, ["a"], { idempotencyKey: "taken" }), "INVALID", "taken");
      await refused(() => spawn(port, parent, ["a", "b"], { idempotencyKey: "free" }), "INVALID", "free");
      const [id] = await spawn(port, parent, ["a"], { idempotencyKey: "free" });
      expect(await spawn(port, parent, ["a"], { idempotencyKey: "free" })).toEqual([id]);
      expect(await addOne(port, { queue: PARTS, idempotencyKey: "free" })).toMatchObject({
        id,
        existing: true,
      });
    });

    test("a child cannot wait behind its parent in a group that runs in order", async () => {
      const { port } = await start();
      const parent = await beginParent(port, { groupKey: "g" });
      const inGroup = { queue: QUEUE, groupKey: "g" };
      await refused(() => spawn(port, parent, ["a"], inGroup), "INVALID", "behind its parent");
      await spawn(port, parent, ["b"], { ...inGroup, groupKey: "h" });
      await spawn(port, parent, ["c"], { groupKey: "g" });
      await port.declare(QUEUE, { groups: { concurrency: 2 } });
      await spawn(port, parent, ["d"], inGroup);
      expect((await port.children(parent.id)).children).toHaveLength(3);
    });

    test("children take groups, delays and times-to-live as other tasks do", async () => {
      const { port, clock } = await start();
      const parent = await beginParent(port);
      const grouped = await spawn(port, parent, ["a", "b"], { groupKey: "g" });
      const [late] = await spawn(port, parent, ["late"], { delay: MINUTE });
      const [mortal] = await spawn(port, parent, ["mortal"], { queue: "mortal", ttl: MINUTE });
      expect(await statesOf(port, parent.id)).toEqual(["ready", "waiting", "scheduled", "ready"]);
      const held = await joinWorker(port, "w", { queues: [PARTS] });
      const head = await held.claimOne();
      expect(head.id).toBe(grouped[0]);
      await clock.advance(MINUTE);
      expect(await stateOf(port, mortal!)).toBe("expired");
      expect((await held.claimOne()).id).toBe(late);
      await ack(port, head);
      expect((await held.claimOne()).id).toBe(grouped[1]);
    });
  });

  describe("a task that waits for its children", () => {
    test("a parent is parked until its last child ends, and is then ready at once", async () => {
      const { port } = await start();
      const { id, ids } = await parkedParent(port);
      expect(await port.task(id)).toMatchObject({
        state: "parked",
        waitsFor: ALL_CHILDREN,
        dueAt: null,
        attempt: 1,
      });
      expect((await port.history(id)).map(({ outcome }) => outcome)).toEqual(["parked"]);
      await ack(port, await claimPart(port), '"A"');
      expect(await stateOf(port, id)).toBe("parked");
      const answer = waiting(port);
      await ack(port, await claimPart(port), new Uint8Array([1]));
      const [parent] = await answer;
      expect(parent).toMatchObject({ id, attempt: 1, stepped: true });
      expect(await endsOf(port, id)).toMatchObject([
        { id: ids[0], state: "done", result: '"A"', error: null },
        { id: ids[1], state: "done", result: new Uint8Array([1]), error: null },
      ]);
      expect(await ack(port, parent!)).toBe("done");
    });

    test("many children that end at once wake their parent once", async () => {
      const { port } = await start();
      const names = Array.from({ length: 40 }, (_, i) => `${i}`);
      const { id } = await parkedParent(port, names);
      const held = await claim(port, { queues: [PARTS], max: 40 });
      await Promise.all(held.map((each) => ack(port, each)));
      expect(await claimOne(port)).toMatchObject({ id });
      expect((await port.task(id)).children).toEqual({ total: 40, pending: 0 });
    });

    test("a parent does not park if all its children have ended, or if it has none", async () => {
      const { port } = await start();
      const parent = await beginParent(port);
      await spawn(port, parent, ["a"]);
      await ack(port, await claimPart(port));
      expect(await park(port, parent)).toBe("ready");
      const childless = await beginParent(port, { priority: 1 });
      expect(await park(port, childless)).toBe("ready");
    });

    test("a parent may wait for some of its children", async () => {
      const { port } = await start();
      const parent = await beginParent(port);
      const [first, second, third] = await spawn(port, parent, ["a", "b", "c"]);
      expect(await park(port, parent, "children:1,3")).toBe("parked");
      const held = await claim(port, { queues: [PARTS], max: 3 });
      const end = (id: string | undefined) =>
        ack(
          port,
          held.find((each) => each.id === id)!,
        );
      await end(second);
      await end(third);
      expect(await stateOf(port, parent.id)).toBe("parked");
      await end(first);
      expect(await stateOf(port, parent.id)).toBe("ready");
      expect(await park(port, await claimOne(port), "children:2")).toBe("ready");
    });

    const ENDS: Record<string, (port: Port, id: string) => Promise<unknown>> = {
      dead: async (port) => reject(port, await claimPart(port), failure("no luck")),
      cancelled: (port, id) => port.cancel(id),
      purged: (port) => port.purge(PARTS),
      dropped: (port) => port.drop(PARTS),
    };
    test.each(Object.keys(ENDS))("a child that is %s wakes its parent", async (how) => {
      const { port } = await start();
      const { id, ids } = await parkedParent(port, ["only"]);
      await ENDS[how]!(port, ids[0]!);
      expect(await stateOf(port, id)).toBe("ready");
      const [end] = await endsOf(port, id);
      expect(end).toMatchObject({ id: ids[0], state: how === "dead" ? "dead" : "cancelled", result: null });
      expect(end!.error?.message).toBe(how === "dead" ? "no luck" : undefined);
    });

    test("a child that expires wakes its parent", async () => {
      const { port, clock } = await start();
      const { id } = await parkedParent(port, ["a", "b"], { ttl: MINUTE });
      await clock.advance(MINUTE);
      expect(await stateOf(port, id)).toBe("ready");
      expect(await statesOf(port, id)).toEqual(["expired", "expired"]);
    });

    test("a child that a full queue drops for an expired task wakes its parent", async () => {
      const { port, clock } = await start();
      await port.declare(PARTS, { maxDepth: 1, overflow: "drop-oldest" });
      await port.declare("mortal", { expiredTo: PARTS });
      await addOne(port, { queue: "mortal", ttl: MINUTE });
      const { id } = await parkedParent(port, ["a"]);
      await clock.advance(MINUTE);
      expect((await port.stats("mortal")).depth.expired).toBe(1);
      expect(await statesOf(port, id)).toEqual(["expired"]);
      expect(await stateOf(port, id)).toBe("ready");
    });

    test("a parent that waits for a signal is not woken by a child of the same name", async () => {
      const { port } = await start();
      const parent = await beginParent(port);
      await spawn(port, parent, ["go"]);
      expect(await park(port, parent, "go")).toBe("parked");
      expect(await port.signal(parent.id, "go", null)).toBe(true);
      expect(await stateOf(port, parent.id)).toBe("ready");
    });

    test("a child that runs out of attempts by lost leases wakes its parent", async () => {
      const { port, clock } = await start();
      await port.declare(PARTS, { lease: SECOND });
      const { id } = await parkedParent(port, ["a"], { maxAttempts: 1 });
      await claimPart(port);
      await clock.advance(SECOND);
      expect(await stateOf(port, id)).toBe("ready");
      expect(await statesOf(port, id)).toEqual(["dead"]);
    });

    test("a failed child that is tried again does not wake its parent", async () => {
      const { port } = await start();
      const { id } = await parkedParent(port, ["a"]);
      await nack(port, await claimPart(port));
      await release(port, await claimPart(port));
      expect(await stateOf(port, id)).toBe("parked");
      await ack(port, await claimPart(port));
      expect(await stateOf(port, id)).toBe("ready");
    });

    test("a child in a verified queue wakes its parent when its result is accepted", async () => {
      const { port } = await start();
      await port.declare(PARTS, { verified: true });
      const { id } = await parkedParent(port, ["a"]);
      const child = await claimPart(port);
      await ack(port, child, '"checked"');
      expect(await statesOf(port, id)).toEqual(["verifying"]);
      expect(await stateOf(port, id)).toBe("parked");
      const verifier = await claimOne(port, { queues: [verificationQueue(PARTS)] });
      await port.settle(verifier, { kind: "accept", of: child });
      expect(await stateOf(port, id)).toBe("ready");
      expect(await endsOf(port, id)).toMatchObject([{ state: "done", result: '"checked"' }]);
    });

    test("a redriven child is awaited again", async () => {
      const { port } = await start();
      const { id, ids } = await parkedParent(port);
      await reject(port, await claimPart(port));
      await port.redrive(PARTS, { ids: [ids[0]!] }, 0);
      await ack(port, await claimPart(port));
      expect(await stateOf(port, id)).toBe("parked");
      await ack(port, await claimPart(port));
      expect(await stateOf(port, id)).toBe("ready");
    });

    test("a parent stops waiting for its children after its timeout", async () => {
      const { port, clock } = await start();
      const parent = await beginParent(port);
      await spawn(port, parent, ["a"]);
      expect(await park(port, parent, "children:1", MINUTE)).toBe("parked");
      await clock.advance(MINUTE);
      const again = await claimOne(port);
      expect(again.id).toBe(parent.id);
      expect(await port.steps(parent.id)).toContainEqual({
        kind: "timeout",
        name: "children:1",
        value: null,
      });
      await ack(port, await claimPart(port));
      expect(await ack(port, again)).toBe("done");
    });

    test("a parked parent keeps its group", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { groupKey: "g" });
      const next = await addOne(port, { groupKey: "g" });
      const parent = await claimOne(port);
      await spawn(port, parent, ["a"]);
      await park(port, parent);
      expect(await claim(port)).toEqual([]);
      await ack(port, await claimPart(port));
      const again = await claimOne(port);
      expect(again.id).toBe(id);
      await ack(port, again);
      expect((await claimOne(port)).id).toBe(next.id);
    });

    test("children may have children, and each level wakes the one above", async () => {
      const { port } = await start();
      const { id, ids } = await parkedParent(port, ["middle"]);
      const middle = await claimPart(port);
      await port.spawn(middle, [{ name: "spawn:1", task: { queue: "leaves", data: "1" } }]);
      expect(await park(port, middle)).toBe("parked");
      await ack(port, await claimOne(port, { queues: ["leaves"] }), '"leaf"');
      expect(await stateOf(port, ids[0]!)).toBe("ready");
      expect(await stateOf(port, id)).toBe("parked");
      await ack(port, await claimPart(port));
      expect(await stateOf(port, id)).toBe("ready");
    });

    test("listeners get an event when a parent is woken", async () => {
      const { port } = await start();
      const events = listen(port);
      const { id } = await parkedParent(port, ["a"]);
      await ack(port, await claimPart(port));
      const seen = await eventsUntil(events, "task.signalled");
      expect(seen.at(-1)).toMatchObject({ queue: QUEUE, taskId: id, detail: ALL_CHILDREN });
    });
  });

  describe("the end of a parent", () => {
    test("cancelling a parent cancels its children, and their children", async () => {
      const { port } = await start();
      const { id, ids } = await parkedParent(port, ["running", "pending", "parent"]);
      const worker = await joinWorker(port, "w", { queues: [PARTS] });
      const running = await worker.claimOne();
      const middle = (await claim(port, { queues: [PARTS], max: 2 })).find((each) => each.id === ids[2])!;
      const [leaf] = await spawn(port, middle, ["leaf"], { queue: "leaves" });
      await park(port, middle);
      await port.cancel(id);
      expect(await stateOf(port, id)).toBe("cancelled");
      expect(await stateOf(port, ids[2]!)).toBe("cancelled");
      expect(await stateOf(port, leaf!)).toBe("cancelled");
      expect(await worker.notices.next()).toMatchObject({ kind: "cancel", id: running.id });
      expect(await ack(port, running, '"too late"')).toBe("cancelled");
    });

    test("cancelling a running parent cancels its children at once", async () => {
      const { port } = await start();
      const parent = await beginParent(port);
      const [id] = await spawn(port, parent, ["a"]);
      expect(await port.cancel(parent.id)).toBe("claimed");
      expect(await stateOf(port, id!)).toBe("cancelled");
      expect(await ack(port, parent)).toBe("cancelled");
    });

    test.each(["expired", "purged", "dropped", "discarded"])(
      "the children of a parent that is %s are cancelled",
      async (how) => {
        const { port, clock } = await start();
        const parent = await beginParent(port, { ttl: HOUR });
        const [id] = await spawn(port, parent, ["a"]);
        if (how === "discarded") await reject(port, parent);
        else await park(port, parent);
        expect(await stateOf(port, id!)).toBe("ready");
        if (how === "expired") await clock.advance(HOUR);
        if (how === "purged") await port.purge(QUEUE);
        if (how === "dropped") await port.drop(QUEUE);
        if (how === "discarded") await port.discard(QUEUE, {});
        const child = await port.task(id!);
        expect(child.state).toBe("cancelled");
        expect("parent" in child).toBe(how === "expired");
      },
    );

    test.each(["done", "dead"])("the children of a parent that is %s continue", async (how) => {
      const { port } = await start();
      const parent = await beginParent(port);
      await spawn(port, parent, ["a"]);
      if (how === "done") await ack(port, parent);
      else await reject(port, parent);
      expect(await ack(port, await claimPart(port), "1")).toBe("done");
      expect(await endsOf(port, parent.id)).toMatchObject([{ state: "done", result: "1" }]);
    });

    test("a child outlives a parent that is past its retention", async () => {
      const { port, clock } = await start();
      const parent = await beginParent(port);
      const [id] = await spawn(port, parent, ["a"]);
      await ack(port, parent);
      await passLong(clock, 2 * DAY);
      await refused(() => port.task(parent.id), "TASK_NOT_FOUND");
      expect("parent" in (await port.task(id!))).toBe(false);
      expect(await ack(port, await claimPart(port))).toBe("done");
    });
  });

  describe("what a parent keeps of its children", () => {
    test("a parent keeps the results of children that are past their retention", async () => {
      const { port, clock } = await start();
      await port.declare(PARTS, { retention: { age: SECOND, count: 10 } });
      const { id, ids } = await parkedParent(port);
      await ack(port, await claimPart(port), '"kept"');
      await port.cancel(ids[1]!);
      await passLong(clock, DAY);
      await refused(() => port.task(ids[0]!), "TASK_NOT_FOUND");
      expect(await endsOf(port, id)).toMatchObject([
        { id: ids[0], state: "done", result: '"kept"' },
        { id: ids[1], state: "cancelled", result: null },
      ]);
    });

    test("a parent keeps the error of a discarded child", async () => {
      const { port } = await start();
      const { id, ids } = await parkedParent(port, ["a"]);
      await reject(port, await claimPart(port), failure("gone \u0000 for good"));
      await port.discard(PARTS, {});
      await refused(() => port.task(ids[0]!), "TASK_NOT_FOUND");
      expect(await endsOf(port, id)).toMatchObject([
        { state: "dead", error: { message: "gone \u0000 for good" } },
      ]);
    });

    test("a page of children's results ends at the size limit of an answer", async () => {
      const { port } = await start();
      const { id } = await parkedParent(
        port,
        Array.from({ length: 20 }, (_, i) => `${i}`),
      );
      const large = `"${"x".repeat(LIMITS.stepBytes - 2)}"`;
      for (const held of await claim(port, { queues: [PARTS], max: 20 })) await ack(port, held, large);
      const page = await port.children(id, { ends: true });
      expect(page.children.length).toBeLessThan(20);
      const rest = await port.children(id, { ends: true, after: page.next! });
      expect(page.children.length + rest.children.length).toBe(20);
      expect((await port.children(id)).children).toHaveLength(20);
    });

    test("a parent whose result is refused forgets its children, and cancels those that have not ended", async () => {
      const { port } = await start();
      await port.declare(QUEUE, { verified: true });
      const parent = await beginParent(port);
      const [ended, pending] = await spawn(port, parent, ["a", "b"]);
      await ack(port, await claimPart(port));
      await ack(port, parent);
      const refuse = async (keepSteps: boolean): Promise<ClaimedTask> => {
        const verifier = await claimOne(port, { queues: [verificationQueue(QUEUE)] });
        const of = { ...JSON.parse(verifier.data as string), queue: QUEUE, attempt: 1 } as never;
        await port.settle(verifier, { kind: "refuse", of, feedback: "no", keepSteps });
        await port.change(parent.id, { kind: "promote" });
        return claimOne(port);
      };
      const second = await refuse(false);
      expect(await stateOf(port, ended!)).toBe("done");
      expect(await stateOf(port, pending!)).toBe("cancelled");
      expect((await port.children(parent.id)).children).toEqual([]);
      const [anew] = await spawn(port, second, ["a"]);
      expect(anew).not.toBe(ended);
      await ack(port, second);
      const third = await refuse(true);
      expect(await spawn(port, third, ["a"])).toEqual([anew]);
    });

    test("a redriven parent keeps its children; with fresh it begins without them", async () => {
      const { port } = await start();
      const first = await beginParent(port);
      const ids = await spawn(port, first, ["a"]);
      await reject(port, first);
      await port.redrive(QUEUE, {}, 0);
      const second = await claimOne(port);
      expect(await spawn(port, second, ["a"])).toEqual(ids);
      await reject(port, second);
      await port.redrive(QUEUE, {}, 0, { fresh: true });
      expect(await stateOf(port, ids[0]!)).toBe("cancelled");
      const third = await claimOne(port);
      expect(await spawn(port, third, ["a"])).not.toEqual(ids);
      expect((await port.children(first.id)).children).toHaveLength(1);
    });

    test("a task that is done and runs again begins without its children", async () => {
      const { port } = await start();
      const parent = await beginParent(port);
      const ids = await spawn(port, parent, ["a"]);
      await ack(port, parent);
      await port.change(parent.id, { kind: "again" });
      expect(await stateOf(port, ids[0]!)).toBe("cancelled");
      const again = await claimOne(port);
      expect(await spawn(port, again, ["a"])).not.toEqual(ids);
    });
  });
}
