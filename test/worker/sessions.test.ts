import { expect, onTestFinished, test } from "vitest";
import { claimLost } from "../../src/core/errors/errors.ts";
import type { ClaimNotice } from "../../src/core/task/claim-call.ts";
import { open } from "../../src/index.ts";
import { latch } from "../stores.ts";

test("when a session is gone, claims of the worker's next session are not lost", async () => {
  const dibs = await open(":memory:");
  onTestFinished(() => dibs.close());
  const { port } = dibs;
  const join = port.join.bind(port);
  const claim = port.claim.bind(port);
  const listeners: ((notice: ClaimNotice) => void)[] = [];
  port.join = (worker, lease, listener) => {
    listeners.push(listener);
    return join(worker, lease, listener);
  };
  // The second claim learns that the session is gone before a heartbeat does.
  let claims = 0;
  port.claim = async (call) => {
    if (++claims === 2) throw claimLost("none", 0);
    return claim(call);
  };
  const queue = dibs.queue<string, string>("work");
  const started = { one: latch(), two: latch() };
  const aborted: string[] = [];
  const end = latch();
  const worker = queue.work(
    async (task) => {
      const name = task.data as "one" | "two";
      task.signal.addEventListener("abort", () => aborted.push(name));
      started[name].open();
      await end.promise;
      return "done";
    },
    { concurrency: 2 },
  );
  await queue.add("one");
  await started.one.promise;
  const two = await queue.add("two");
  await started.two.promise;
  expect(listeners).toHaveLength(2);
  listeners[0]!({ kind: "gone" });
  expect(aborted).toEqual(["one"]);
  end.open();
  expect(await two.result({ timeout: "10s" })).toBe("done");
  expect(listeners).toHaveLength(2);
  await worker.stop();
});
