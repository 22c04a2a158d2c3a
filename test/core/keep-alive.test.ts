import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { KeepAlive } from "../../src/core/process/keep-alive.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** The timer is all that keeps the process alive. */
const isAlive = (): boolean => vi.getTimerCount() === 1;

test("a process is kept alive until the last operation has released it", () => {
  const keepAlive = new KeepAlive();
  const [one, other] = [keepAlive.hold(), keepAlive.hold()];
  one();
  expect(isAlive()).toBe(true);
  other();
  expect(isAlive()).toBe(false);
  keepAlive.hold();
  expect(isAlive()).toBe(true);
});

test("an operation that releases the process twice releases it only for itself", () => {
  const keepAlive = new KeepAlive();
  const one = keepAlive.hold();
  keepAlive.hold();
  one();
  one();
  expect(isAlive()).toBe(true);
});

test("a process is kept alive during an operation, whether it succeeds or fails", async () => {
  const keepAlive = new KeepAlive();
  const succeeding = keepAlive.during(Promise.resolve(1));
  expect(isAlive()).toBe(true);
  expect(await succeeding).toBe(1);
  expect(isAlive()).toBe(false);
  await expect(keepAlive.during(Promise.reject(new Error("it failed")))).rejects.toThrow("it failed");
  expect(isAlive()).toBe(false);
});
