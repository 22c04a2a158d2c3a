import { describe, expect, test } from "vitest";
import {
  ack,
  addNamed,
  addOne,
  claim,
  claimOne,
  failure,
  isPending,
  makeDead,
  MINUTE,
  nack,
  numbered,
  QUEUE,
  refused,
  reject,
  SECOND,
  type Start,
} from "./kit.ts";

const NOBODY = "01980000-0000-7000-8000-000000000000";

export function results(start: Start): void {
  describe("waiting for the end of a task", () => {
    test("a waiting caller gets the result when the task is done", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port);
      const end = port.end(id);
      const held = await claimOne(port);
      expect(await isPending(clock, end)).toBe(true);
      await ack(port, held, "42");
      expect(await end).toEqual({ id, state: "done", result: "42", error: null });
    });

    test("a waiting caller gets the error when the task is dead", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const end = port.end(id);
      await reject(port, await claimOne(port), failure("line 3", "TypeError"));
      expect(await end).toEqual({
        id,
        state: "dead",
        result: null,
        error: { ...failure("line 3", "TypeError"), fingerprint: "TypeError: line <n>" },
      });
    });

    test("a waiting caller learns that the task was cancelled", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const end = port.end(id);
      await port.cancel(id);
      expect(await end).toEqual({ id, state: "cancelled", result: null, error: null });
    });

    test("a waiting caller learns that the task expired", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port, { ttl: 700 });
      const end = port.end(id);
      await clock.advance(700);
      expect(await end).toMatchObject({ state: "expired" });
    });

    test("a caller that waits for an ended task is answered at once", async () => {
      const { port } = await start();
      const id = await makeDead(port);
      expect(await port.end(id)).toMatchObject({ id, state: "dead" });
    });

    test("waiting for an unknown task is TASK_NOT_FOUND at once", async () => {
      const { port } = await start();
      await refused(() => port.end(NOBODY), "TASK_NOT_FOUND", NOBODY);
    });

    test("waiting for a discarded dead letter is TASK_NOT_FOUND", async () => {
      const { port } = await start();
      const id = await makeDead(port);
      await port.discard(QUEUE, {});
      await refused(() => port.end(id), "TASK_NOT_FOUND");
    });

    test("a caller waits through failures and retries", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port);
      const end = port.end(id);
      await nack(port, await claimOne(port), MINUTE);
      await clock.advance(MINUTE);
      expect(await isPending(clock, end)).toBe(true);
      await ack(port, await claimOne(port), "at last");
      expect(await end).toMatchObject({ result: "at last" });
    });

    test("a wait ends with TIMEOUT exactly after its timeout", async () => {
      const { port, clock } = await start();
      const { id } = await addOne(port);
      const end = port.end(id, { timeout: 10 * SECOND });
      const told = refused(() => end, "TIMEOUT", id, "10000");
      await clock.advance(10 * SECOND - 1);
      expect(await isPending(clock, end)).toBe(true);
      await clock.advance(1);
      await told;
      await ack(port, await claimOne(port));
      expect(await port.end(id, { timeout: 0 })).toMatchObject({ state: "done" });
    });

    test("a wait with a timeout of zero returns the current state", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      await refused(() => port.end(id, { timeout: 0 }), "TIMEOUT", id);
      await ack(port, await claimOne(port), "there");
      expect(await port.end(id, { timeout: 0 })).toMatchObject({ state: "done", result: "there" });
    });

    test("a caller may stop waiting, and the task continues", async () => {
      const { port } = await start();
      const { id } = await addOne(port);
      const stop = new AbortController();
      const end = port.end(id, { signal: stop.signal });
      stop.abort(new Error("enough"));
      await expect(end).rejects.toThrow("enough");
      await expect(port.end(id, { signal: stop.signal })).rejects.toThrow("enough");
      await ack(port, await claimOne(port));
      expect(await port.end(id)).toMatchObject({ state: "done" });
    });

    test("many callers can wait, for one task or for many", async () => {
      const { port } = await start();
      const ids = await addNamed(port, numbered(1_500));
      const ends = [...ids, ...ids.slice(0, 100)].map((id) => port.end(id));
      for (let taken = 0; taken < 1_500; taken += 500) {
        const held = await claim(port, { max: 500 });
        await Promise.all(held.map((each) => ack(port, each, each.data)));
      }
      const told = (await Promise.all(ends)).map(({ result }) => result);
      expect(told).toEqual([...numbered(1_500), ...numbered(100)]);
    });
  });
}
