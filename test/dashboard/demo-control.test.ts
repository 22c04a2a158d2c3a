import { expect, test } from "vitest";
import { DEMO_LIMITS } from "../../src/demo/start.ts";
import { Dashboard } from "../../src/dashboard/dashboard.ts";
import { DemoControl, type RunningDemo, type StartDemo } from "../../src/dashboard/demo-control.ts";
import { openPort } from "../../src/api/open.ts";
import { SILENT } from "../../src/core/process/logger.ts";
import { callerOf, makeTokens, startDashboard } from "./kit.ts";

/** Remembers how it was called instead of starting processes. */
function fakeDemo() {
  const calls: unknown[] = [];
  const start: StartDemo = async (options) => {
    calls.push(["start", options]);
    const settings = { rate: options.rate ?? 20, workers: options.workers ?? 3 };
    let running = true;
    const demo: RunningDemo = {
      status: () => ({ ...settings, running }),
      set: (change) => void Object.assign(settings, change),
      stop: async () => void (running = false),
    };
    return demo;
  };
  return { calls, control: new DemoControl(start, () => "http://127.0.0.1:1") };
}

async function startWithDemo() {
  const { access, tokens } = makeTokens();
  const admin = tokens.add("root", ["admin:*"]).token;
  const shop = tokens.add("shop", ["admin:shop"]).token;
  const { calls, control } = fakeDemo();
  const store = await openPort(":memory:", {});
  const facts = { version: "1", storeName: null, engine: null };
  const dashboard = new Dashboard({ store, logger: SILENT, ...facts, demo: control });
  const { url } = await startDashboard({ access, dashboard }, store);
  return { admin, calls, url, asAdmin: callerOf(url, admin), asShop: callerOf(url, shop) };
}

test("an administrator starts, changes and stops the demo, which uses the same token", async () => {
  const { admin, calls, asAdmin } = await startWithDemo();
  expect((await asAdmin("GET", "v1/me")).body.demo).toBe(true);
  expect((await asAdmin("GET", "v1/demo")).body).toMatchObject({ running: false, rate: 20, workers: 3 });
  expect((await asAdmin("POST", "v1/demo", { rate: 5 })).body.code).toBe("INVALID");
  expect((await asAdmin("POST", "v1/demo", { running: true, rate: 50 })).body).toMatchObject({
    ...{ running: true, rate: 50, workers: 3 },
  });
  expect(calls).toEqual([["start", { url: "http://127.0.0.1:1", token: admin, rate: 50 }]]);
  expect((await asAdmin("POST", "v1/demo", { workers: 7 })).body).toMatchObject({ rate: 50, workers: 7 });
  expect((await asAdmin("POST", "v1/demo", { running: false })).body.running).toBe(false);
  expect(calls).toHaveLength(1);
});

test("a token that does not administer everything may not touch the demo", async () => {
  const { asShop, calls } = await startWithDemo();
  expect((await asShop("GET", "v1/me")).body.demo).toBe(false);
  expect((await asShop("POST", "v1/demo", { running: true })).status).toBe(403);
  expect(calls).toEqual([]);
});

test("the limits that the page shows are those of the demo", () => {
  const { limits } = fakeDemo().control.read();
  expect({ rate: limits.rate.max, workers: limits.workers.max }).toEqual(DEMO_LIMITS);
});
