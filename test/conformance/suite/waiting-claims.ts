import { describe, expect, test } from "vitest";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimNames,
  claimOne,
  DAY,
  depths,
  isPending,
  MINUTE,
  nack,
  namesOf,
  numbered,
  QUEUE,
  refused,
  release,
  SECOND,
  type Start,
  waiting,
} from "./kit.ts";

export function waitingClaims(start: Start): void {
  describe("what wakes a waiting claim", () => {
    test("an add wakes a waiting claim, also on a new queue", async () => {
      const { port, clock } = await start();
      const answer = waiting(port);
      expect(await isPending(clock, answer)).toBe(true);
      await addOne(port, { data: "x" });
      expect(namesOf(await answer)).toEqual(["x"]);
    });

    test("a task that becomes due wakes a waiting claim", async () => {
      const { port, clock } = await start();
      await addOne(port, { delay: 10_500 });
      const answer = waiting(port);
      await clock.advance(10_499);
      expect(await isPending(clock, answer)).toBe(true);
      await clock.advance(1);
      expect(await answer).toHaveLength(1);
      expect(clock.read().elapsed).toBe(10_500);
    });

    test("a delayed task that an ack added wakes a waiting claim", async () => {
      const { port, clock } = await start();
      await addOne(port);
      const held = await claimOne(port);
      const answer = waiting(port);
      await ack(port, held, null, [{ queue: QUEUE, data: "next", delay: 500 }]);
      await clock.advance(500);
      expect(namesOf(await answer)).toEqual(["next"]);
      expect(clock.read().elapsed).toBe(500);
    });

    test("a retry wakes a waiting claim when its delay ends", async () => {
      const { port, clock } = await start();
      await addOne(port);
      const held = await claimOne(port);
      const answer = waiting(port);
      await nack(port, held, 700);
      expect(await isPending(clock, answer)).toBe(true);
      await clock.advance(700);
      expect((await answer)[0]!.attempt).toBe(2);
    });

    test("a release wakes a waiting claim", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const held = await claimOne(port);
      const answer = waiting(port);
      await release(port, held);
      expect((await answer)[0]!.id).toBe(id);
    });

    test("the end of a group's head wakes a waiting claim", async () => {
      const { port } = await start();
      await addNamed(port, ["1", "2"], { groupKey: "g" });
      const held = await claimOne(port);
      const answer = waiting(port);
      await ack(port, held);
      expect(namesOf(await answer)).toEqual(["2"]);
    });

    test("the end of another claim's lease wakes a waiting claim", async () => {
      const { port, clock } = await start();
      await addOne(port);
      await claimOne(port, { lease: 5_300 });
      const answer = waiting(port);
      await clock.advance(5_299);
      expect(await isPending(clock, answer)).toBe(true);
      await clock.advance(1);
      expect((await answer)[0]!.attempt).toBe(2);
    });

    test("a redrive wakes a waiting claim", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { maxAttempts: 1 });
      await nack(port, await claimOne(port));
      const answer = waiting(port);
      await port.redrive(QUEUE, {}, 0);
      expect((await answer)[0]!.id).toBe(id);
    });

    test("a waiting claim wakes for any of its queues, and for no other", async () => {
      const { port, clock } = await start();
      const answer = waiting(port, { queues: ["a", "b"] });
      await addOne(port, { queue: "c" });
      expect(await isPending(clock, answer)).toBe(true);
      await addOne(port, { queue: "b" });
      expect((await answer)[0]!.queue).toBe("b");
    });
  });

  describe("several waiting claims", () => {
    test("the longest-waiting claim is served first", async () => {
      const { port, clock } = await start();
      const order: string[] = [];
      const answers = [];
      for (const worker of ["a", "b", "c"]) {
        answers.push(waiting(port, { worker }).then(() => order.push(worker)));
        await clock.advance(10);
      }
      for (const name of ["1", "2", "3"]) await addNamed(port, [name]);
      await Promise.all(answers);
      expect(order).toEqual(["a", "b", "c"]);
    });

    test("a claim that already waits is served before a new one", async () => {
      const { port, clock } = await start();
      const first = waiting(port, { worker: "first" });
      expect(await isPending(clock, first)).toBe(true);
      const adding = addOne(port);
      const second = waiting(port, { worker: "second" });
      await adding;
      expect(await first).toHaveLength(1);
      expect(await isPending(clock, second)).toBe(true);
    });

    test("as many waiting claims are served as there are tasks", async () => {
      const { port, clock } = await start();
      const answers = numbered(50).map((worker) => waiting(port, { worker }));
      await addNamed(port, numbered(30));
      const served = await Promise.all(answers.slice(0, 30));
      expect(served.flat()).toHaveLength(30);
      expect(await isPending(clock, Promise.race(answers.slice(30)))).toBe(true);
    });

    test("a claim that takes many tasks leaves the rest to the next claim", async () => {
      const { port } = await start();
      const many = waiting(port, { max: 10, worker: "many" });
      const one = waiting(port, { worker: "one" });
      await addNamed(port, numbered(11));
      expect(namesOf(await many)).toEqual(numbered(10));
      expect(namesOf(await one)).toEqual(["10"]);
    });

    test("every waiting claim is served when many tasks become due at once", async () => {
      const { port, clock } = await start();
      await addNamed(port, numbered(20), { delay: SECOND });
      const answers = numbered(20).map((worker) => waiting(port, { worker }));
      await clock.advance(SECOND);
      expect((await Promise.all(answers)).flat()).toHaveLength(20);
    });
  });

  describe("waiting claims", () => {
    test("a waiting claim is answered at once if there is a task", async () => {
      const { port } = await start();
      await addOne(port);
      expect(await waiting(port, { max: 5 })).toHaveLength(1);
    });

    test("a waiting claim is answered with nothing when its wait ends", async () => {
      const { port, clock } = await start();
      const answer = claim(port, { wait: 20 * SECOND });
      await clock.advance(20 * SECOND - 1);
      expect(await isPending(clock, answer)).toBe(true);
      await clock.advance(1);
      expect(await answer).toEqual([]);
    });

    test("a waiting claim whose wait ended takes no later task", async () => {
      const { port, clock } = await start();
      const answer = claim(port, { wait: SECOND });
      await clock.advance(SECOND);
      await answer;
      await addOne(port, { data: "x" });
      expect(await claimNames(port)).toEqual(["x"]);
    });

    test("a waiting claim rejects with the reason of its signal", async () => {
      const { port, clock } = await start();
      const stop = new AbortController();
      const answer = waiting(port, { signal: stop.signal });
      expect(await isPending(clock, answer)).toBe(true);
      stop.abort(new Error("enough"));
      await expect(answer).rejects.toThrow("enough");
      await addOne(port, { data: "x" });
      expect(await claimNames(port)).toEqual(["x"]);
    });

    test("a claim with an aborted signal claims nothing", async () => {
      const { port } = await start();
      await addOne(port);
      await expect(waiting(port, { signal: AbortSignal.abort(new Error("enough")) })).rejects.toThrow(
        "enough",
      );
      expect(await depths(port)).toEqual({ ready: 1 });
    });

    test("a claim that was aborted returns tasks that it gets too late, as if never claimed", async () => {
      const { port, clock } = await start();
      const stop = new AbortController();
      const { id } = await addOne(port);
      const answer = waiting(port, { signal: stop.signal });
      stop.abort(new Error("enough"));
      await expect(answer).rejects.toThrow("enough");
      await clock.advance(0);
      expect(await claimOne(port)).toMatchObject({ id, attempt: 1 });
      expect(await port.history(id)).toEqual([]);
    });

    test("a claim that returns a task wakes the next one", async () => {
      const { port } = await start();
      const stop = new AbortController();
      const { id } = await addOne(port);
      const first = waiting(port, { signal: stop.signal });
      const second = waiting(port);
      stop.abort(new Error("enough"));
      await expect(first).rejects.toThrow("enough");
      expect((await second)[0]!.id).toBe(id);
    });

    test("a waiting claim survives many due times of other queues", async () => {
      const { port, clock } = await start();
      const answer = waiting(port, { queues: ["idle"] });
      await addNamed(port, numbered(20), { delay: 500 });
      await clock.advance(MINUTE - 1);
      expect(await isPending(clock, answer)).toBe(true);
    });
  });

  describe("closing", () => {
    test("closing answers waiting claims with nothing, and callers that wait for results with CLOSED", async () => {
      const { port } = await start();
      const { id } = await addOne(port, { delay: DAY });
      const answer = waiting(port);
      const end = refused(() => port.end(id), "CLOSED");
      await port.close();
      expect(await answer).toEqual([]);
      await end;
    });

    test("earlier calls take effect before the close, and later ones are refused", async () => {
      const { port } = await start();
      const adding = addOne(port);
      await port.close();
      const { id, state } = await adding;
      expect(state).toBe("ready");
      await refused(() => addOne(port), "CLOSED");
      await refused(() => port.end(id), "CLOSED");
      await refused(() => claim(port), "CLOSED");
      await port.close();
    });

    test("close may be called several times at once", async () => {
      const { port } = await start();
      const adding = addOne(port);
      await Promise.all([port.close(), port.close()]);
      await adding;
    });
  });
}
