import { describe, expect, onTestFinished, test } from "vitest";
import { open } from "../../src/index.ts";
import type { Logger } from "../../src/core/process/logger.ts";
import { forbidden, setUp, task, claimCall } from "./guarded.ts";

/** What a program declares on first use, with a token without admin: it creates, and does not change. */

const stages = (...names: string[]) => names.map((name) => ({ name, joins: false }));
const every = (ms: number, queue = "emails") =>
  ({ every: ms, missed: "once", task: { queue, data: "{}" } }) as const;

async function openProgram(url: string, token: string) {
  const warnings: string[] = [];
  const logger: Logger = {
    warn: (message) => warnings.push(message),
    error: (message) => warnings.push(message),
  };
  const dibs = await open(url, { token, logger });
  onTestFinished(() => dibs.close());
  return { dibs, warnings };
}

describe("a declaration without admin", () => {
  test.each(["add:emails", "work:emails"])(
    "a declaration with %s creates a queue with its policy",
    async (scope) => {
      const { openAs, actions } = await setUp();
      const port = await openAs(scope);
      expect(await port.declare("emails", { maxAttempts: 2 })).toMatchObject({ maxAttempts: 2 });
      expect(actions.filter(({ by }) => by === "t0")).toEqual([
        { by: "t0", verb: "declare", queue: "emails" },
      ]);
    },
  );

  test.each(["add:emails", "work:emails", "work:emails/verify"])(
    "a declaration with %s does not change the policy of a queue, and is audited once",
    async (scope) => {
      const { openAs, store, actions } = await setUp();
      const set = { maxDepth: 10, retention: { age: 1_000, count: 5 }, verified: false };
      const inForce = await store.declare("emails", set, { force: true });
      const port = await openAs(scope);
      if (scope === "work:emails/verify") {
        expect(await port.declare("emails", { verified: true }, { force: true })).toEqual(inForce);
      } else {
        const other = { maxDepth: null, retention: { age: 1, count: 0 }, verified: true };
        for (let time = 0; time < 3; time++) expect(await port.declare("emails", other)).toEqual(inForce);
        await forbidden(port.declare("emails", other, { force: true }), "admin:emails");
      }
      expect((await store.queues({ queue: "emails" })).items[0]!.policy).toEqual(inForce);
      const refused = { by: "t0", verb: "declare", queue: "emails", refused: true };
      expect(actions.filter(({ by }) => by === "t0")).toEqual([refused]);
    },
  );

  test("tasks that expire continue only in a queue to which the token may add", async () => {
    const { openAs } = await setUp();
    const port = await openAs("add:emails", "work:*", "admin:emails");
    for (const options of [{}, { force: true }])
      await forbidden(port.declare("emails", { expiredTo: "payroll" }, options), "add:payroll");
    await forbidden(port.subscribe("topic", "group", { expiredTo: "payroll" }), "add:payroll");
    const both = await openAs("add:emails", "add:late");
    expect(await both.declare("emails", { expiredTo: "late" })).toMatchObject({ expiredTo: "late" });
  });

  test("a declaration without admin does not change the policy of a queue that its first task created", async () => {
    const { openAs, store } = await setUp();
    await store.add([task("emails")]);
    const port = await openAs("add:emails");
    expect(await port.declare("emails", { verified: true, maxDepth: 1 })).toMatchObject({
      ...{ verified: false, maxDepth: null },
    });
  });

  test("a declaration without admin does not change the policy of a subscription's queue", async () => {
    const { openAs, store, actions } = await setUp();
    await store.subscribe("order.placed", "stock", { maxDepth: 10 });
    const port = await openAs("work:topic/order.placed/*");
    expect(await port.subscribe("order.placed", "stock", { maxDepth: 1 })).toMatchObject({ maxDepth: 10 });
    expect(await port.subscribe("order.placed", "other", { maxDepth: 1 })).toMatchObject({ maxDepth: 1 });
    const queue = "topic/order.placed/";
    expect(actions.filter(({ by }) => by === "t0")).toEqual([
      { by: "t0", verb: "subscribe", queue: `${queue}stock`, refused: true },
      { by: "t0", verb: "subscribe", queue: `${queue}other` },
    ]);
  });

  test("a declaration without admin does not change a schedule", async () => {
    const { openAs, store, actions } = await setUp();
    await store.schedule("nightly", every(60_000), { force: true });
    const port = await openAs("add:emails");
    expect(await port.schedule("nightly", every(1_000))).toMatchObject({ every: 60_000 });
    expect(await port.schedule("nightly", every(60_000))).toMatchObject({ every: 60_000 });
    expect((await store.schedules()).items[0]).toMatchObject({ every: 60_000 });
    const schedule = { by: "t0", verb: "schedule", queue: "emails", schedule: "nightly", refused: true };
    expect(actions.filter(({ by }) => by === "t0")).toEqual([schedule]);
  });

  test("a declaration without admin does not change a pipeline, and its runs go to the same stages", async () => {
    const { openAs, store, actions, server, tokenFor } = await setUp();
    await store.definePipeline("report", stages("extract", "analyse"));
    const worker = await openAs("work:report/analyse");
    await worker.definePipeline("report", stages("extract", "analyse"));
    await forbidden(worker.definePipeline("report", stages("analyse")), '"report"');
    await forbidden((await openAs("add:report/*")).definePipeline("report", stages("analyse")), '"report"');
    const headers = {
      authorization: `Bearer ${tokenFor("add:report/*")}`,
      "content-type": "application/json",
    };
    const send = (method: string, path: string, body: object) =>
      fetch(server.url + path, { method, headers, body: JSON.stringify(body) });
    expect((await send("PUT", "/v1/pipelines/report", { stages: stages("analyse") })).status).toBe(403);
    expect((await send("POST", "/v1/pipelines/report/runs", { data: 1 })).status).toBe(201);
    expect((await worker.claim(claimCall("report/analyse"))).tasks).toEqual([]);
    expect((await store.claim(claimCall("report/extract"))).tasks).toHaveLength(1);
    const refused = { verb: "define", queue: "report/analyse", pipeline: "report", refused: true };
    expect(actions.filter(({ by }) => by === "t0")).toEqual([{ by: "t0", ...refused }]);
  });

  test("creating a pipeline without admin needs a scope on each of its stages", async () => {
    const { openAs, store } = await setUp();
    const port = await openAs("work:report/mine");
    await forbidden(port.definePipeline("report", stages("mine", "theirs")), '"report"');
    expect((await store.pipelines()).items).toEqual([]);
    await (await openAs("add:report/a", "work:report/b")).definePipeline("report", stages("a", "b"));
    expect((await store.pipelines()).items).toHaveLength(1);
  });
});

describe("a declaration with admin", () => {
  test("a declaration with admin changes what exists, and each change is audited", async () => {
    const { openAs, store, actions } = await setUp();
    await store.declare("emails", { maxDepth: 10 });
    await store.definePipeline("report", stages("a"));
    await store.schedule("nightly", every(60_000));
    const port = await openAs("admin:emails", "admin:report/*", "admin:topic/*");
    for (let time = 0; time < 2; time++) {
      expect(await port.declare("emails", { maxDepth: 1 })).toMatchObject({ maxDepth: 1 });
      await port.definePipeline("report", stages("a", "b"));
      expect(await port.schedule("nightly", every(1_000))).toMatchObject({ every: 1_000 });
      await port.subscribe("order", "stock", { maxDepth: 2 });
    }
    expect((await store.pipelines()).items).toEqual([{ name: "report", stages: stages("a", "b") }]);
    expect(actions.filter(({ by }) => by === "t0").map(({ verb }) => verb)).toEqual([
      ...["declare", "define", "schedule", "subscribe"],
    ]);
  });

  test("changing a pipeline needs admin on every stage, old and new", async () => {
    const { openAs, store } = await setUp();
    await store.definePipeline("report", stages("a", "b"));
    const port = await openAs("admin:report/a");
    await forbidden(port.definePipeline("report", stages("a")), '"report"');
    expect((await store.pipelines()).items).toEqual([{ name: "report", stages: stages("a", "b") }]);
  });
});

describe("a program whose code declares something else", () => {
  test("a program works with the stored policy, and logs one warning", async () => {
    const { server, store, tokenFor } = await setUp();
    await store.declare("emails", { maxAttempts: 2, lease: 60_000 }, { force: true });
    const { dibs, warnings } = await openProgram(server.url, tokenFor("add:emails", "work:emails"));
    const policy = { maxAttempts: 7, lease: "1m", maxDepth: 0 } as const;
    const worker = dibs.queue("emails", policy).work(() => "sent");
    await worker.ready;
    const added = await dibs.queue("emails", policy).add({ to: "ada" });
    expect(await added.result()).toBe("sent");
    expect(warnings).toEqual([
      expect.stringMatching(/"emails" .*\(maxAttempts, maxDepth\).*The stored one applies/),
    ]);
  });

  test("a program keeps the stored schedule, and logs a warning", async () => {
    const { server, store, tokenFor } = await setUp();
    await store.schedule("nightly", every(60_000), { force: true });
    const { dibs, warnings } = await openProgram(server.url, tokenFor("add:emails", "read:emails"));
    const define = (ms: number) => dibs.schedule("nightly", { every: ms }, { queue: "emails", data: {} });
    await define(60_000).ready;
    expect(warnings).toEqual([]);
    await define(1_000).ready;
    expect(warnings).toEqual([expect.stringMatching(/"nightly".*another definition/)]);
    expect(await define(1_000).info()).toMatchObject({ every: 60_000 });
  });

  test("a program works on its stage of a pipeline with another definition, and logs a warning", async () => {
    const { server, store, tokenFor } = await setUp();
    await store.definePipeline("report", stages("a", "b"));
    const { dibs, warnings } = await openProgram(server.url, tokenFor("work:report/b"));
    const pipeline = dibs.pipeline("report").stage("b", ({ data }) => data);
    await using worker = pipeline.work();
    await worker.ready;
    const run = { pipeline: "report", stages: stages("b") };
    const [added] = await store.add([{ ...task("report/b"), run }]);
    expect(await store.end(added!.id, { of: "runs" })).toMatchObject({ state: "done" });
    expect(warnings).toEqual([expect.stringMatching(/may not define pipeline "report"/)]);
  });

  test("a program that creates a queue with a verifier creates it verified, with its policy", async () => {
    const { server, store, tokenFor } = await setUp();
    const { dibs, warnings } = await openProgram(server.url, tokenFor("work:emails", "work:emails/verify"));
    await using worker = dibs.queue("emails", { maxAttempts: 7 }).verify(() => true);
    await worker.ready;
    expect((await store.queues({ queue: "emails" })).items[0]!.policy).toMatchObject({
      maxAttempts: 7,
      verified: true,
    });
    expect(warnings).toEqual([]);
  });

  test("a program logs a warning if it verifies a queue whose results need no verdict", async () => {
    const { server, store, tokenFor } = await setUp();
    await store.declare("emails", {});
    const { dibs, warnings } = await openProgram(server.url, tokenFor("work:emails/verify"));
    await using worker = dibs.queue("emails").verify(() => true);
    await worker.ready;
    expect((await store.queues({ queue: "emails" })).items[0]!.policy).toMatchObject({ verified: false });
    expect(warnings).toEqual([expect.stringMatching(/"emails" .*\(verified\)/)]);
  });
});
