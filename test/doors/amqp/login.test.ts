import { expect, test } from "vitest";
import { LoginDelays } from "../../../src/doors/amqp/login.ts";

test("each failed login from an address is answered later than the one before, up to 5 s", () => {
  const delays = new LoginDelays();
  const waits = Array.from({ length: 8 }, () => delays.failed("a"));
  expect(waits).toEqual([100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
});

test("failed logins of one address do not delay another one, and a success ends the delay", () => {
  const delays = new LoginDelays();
  delays.failed("a");
  expect(delays.failed("b")).toBe(100);
  delays.succeeded("a");
  expect(delays.failed("a")).toBe(100);
});
