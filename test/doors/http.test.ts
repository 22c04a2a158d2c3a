import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { openPort } from "../../src/api/open.ts";
import type { ServerOptions } from "../../src/server/options.ts";
import { startServer } from "../server/start.ts";

async function setUp(options: Partial<ServerOptions> = {}) {
  const store = await openPort(":memory:", {});
  const server = await startServer(store, options);
  onTestFinished(async () => {
    await server.close();
    await store.close();
  });
  const ask = async (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) => {
    const isJson = body !== undefined;
    const response = await fetch(server.url + path, {
      method,
      headers: { ...(isJson && { "content-type": "application/json" }), ...headers },
      ...(isJson && { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return {
      status: response.status,
      type: response.headers.get("content-type"),
      body: (text === "" ? null : JSON.parse(text)) as never,
    };
  };
  return { store, server, ask };
}

const PROBLEM = "application/problem+json";

describe("over HTTP", () => {
  test("a task can be added, claimed and acked, and its result read", async () => {
    const { ask } = await setUp();
    const added = await ask("POST", "/v1/queues/emails/tasks", {
      ...{ data: { to: "ada" }, priority: 5, headers: { a: "b" } },
    });
    expect(added).toMatchObject({ status: 201, body: { queue: "emails", state: "ready", existing: false } });
    const { id } = added.body as { id: string };
    const claimed = await ask("POST", "/v1/queues/emails/claims", { lease: "1m", worker: "me" });
    const [claim] = (claimed.body as { claims: { fence: number }[] }).claims;
    expect(claim).toMatchObject({ id, data: { to: "ada" }, attempt: 1, priority: 5, headers: { a: "b" } });
    const held = `/v1/claims/${id}/${claim!.fence}`;
    expect(await ask("POST", `${held}/progress`, { value: 0.5, note: "half" })).toMatchObject({
      ...{ status: 200, body: { cancelRequested: false } },
    });
    expect(await ask("POST", `${held}/extend`, { lease: "2m" })).toMatchObject({
      ...{ status: 200, body: { cancelRequested: false, leaseEndsAt: expect.any(Number) } },
    });
    expect(await ask("GET", `/v1/tasks/${id}`)).toMatchObject({
      body: { state: "claimed", progress: { value: 0.5, note: "half" }, data: { to: "ada" } },
    });
    const result = ask("GET", `/v1/tasks/${id}/result?timeout=20s`);
    expect(await ask("POST", `${held}/ack`, { result: [1] })).toMatchObject({ body: { state: "done" } });
    expect(await result).toMatchObject({ status: 200, body: { state: "done", result: [1] } });
    // Without waiting, however long the store takes to answer.
    expect(await ask("GET", `/v1/tasks/${id}/result?timeout=5000`)).toMatchObject({ body: { result: [1] } });
    for (let times = 0; times < 20; times++)
      expect(await ask("GET", `/v1/tasks/${id}/result`)).toMatchObject({
        status: 200,
        body: { result: [1] },
      });
    expect(await ask("POST", `${held}/ack`, {})).toMatchObject({
      ...{ status: 409, type: PROBLEM, body: { code: "CLAIM_LOST", status: 409, retryable: false } },
    });
    expect(await ask("GET", `/v1/tasks/${id}/history`)).toMatchObject({
      body: { attempts: [{ worker: "me" }] },
    });
  });

  test("a waiting claim is answered as soon as a task is added", async () => {
    const { ask, store } = await setUp();
    const claimed = ask("POST", "/v1/queues/a%2Fb/claims", { wait: "30s", max: 5 });
    await store.add([{ queue: "a/b", data: new Uint8Array([1, 2]), contentType: "application/x" }]);
    expect(await claimed).toMatchObject({
      body: { claims: [{ queue: "a/b", data: "AQI=", encoding: "base64", contentType: "application/x" }] },
    });
  });

  test("a failed task is retried, and a rejected one is a dead letter and can be redriven", async () => {
    const { ask } = await setUp();
    await ask("PUT", "/v1/queues/q", {
      backoff: { type: "fixed", delay: 0, max: 0, jitter: 0 },
      elsewhere: 0,
    });
    const added = await ask("POST", "/v1/queues/q/tasks", { data: 1 });
    const { id } = added.body as { id: string };
    const claim = async (): Promise<string> => {
      const { body } = await ask("POST", "/v1/queues/q/claims", { wait: "20s" });
      return `/v1/claims/${id}/${(body as { claims: { fence: number }[] }).claims[0]!.fence}`;
    };
    expect(await ask("POST", `${await claim()}/nack`, { error: { message: "no" } })).toMatchObject({
      body: { state: expect.stringMatching("ready|scheduled") },
    });
    expect(await ask("POST", `${await claim()}/release`)).toMatchObject({ body: { state: "ready" } });
    expect(await ask("POST", `${await claim()}/reject`, { error: { message: "never" } })).toMatchObject({
      body: { state: "dead" },
    });
    expect(await ask("GET", `/v1/tasks/${id}/result`)).toMatchObject({ body: { state: "dead" } });
    expect(await ask("GET", "/v1/queues/q/dead/patterns")).toMatchObject({
      body: { patterns: [{ count: 1 }] },
    });
    expect(await ask("POST", "/v1/queues/q/dead/redrive", { ids: [id] })).toMatchObject({
      body: { count: 1 },
    });
    expect(await ask("POST", `/v1/tasks/${id}/cancel`)).toMatchObject({ body: { state: "cancelled" } });
    expect(await ask("GET", "/v1/queues/q/tasks?state=cancelled")).toMatchObject({
      body: { tasks: [{ id }] },
    });
    expect(await ask("DELETE", "/v1/queues/q")).toMatchObject({ status: 204 });
    expect(await ask("GET", "/v1/queues")).toMatchObject({ body: { queues: [] } });
  });

  test.each<[path: string, make: (name: string) => [path: string, body: object]]>([
    ["queues", (name) => [`/v1/queues/${name}`, {}]],
    ["subscriptions", (name) => [`/v1/subscriptions/a.b/${name}`, {}]],
    ["schedules", (name) => [`/v1/schedules/${name}`, { every: "1h", task: { queue: "q" } }]],
    ["pipelines", (name) => [`/v1/pipelines/${name}`, { stages: [{ name: "s" }] }]],
  ])("%s come in pages: 100 unless limit says otherwise", async (list, make) => {
    const { ask } = await setUp();
    const names = Array.from({ length: 101 }, (_, i) => `n${String(i).padStart(3, "0")}`);
    for (const name of names) await ask("PUT", ...make(name));
    const read = async (query: string) =>
      (await ask("GET", `/v1/${list}?${query}`)).body as Record<string, object[]> & { next: never };
    const first = await read("");
    expect(first[list]).toHaveLength(100);
    const rest = await read(`limit=7&after=${encodeURIComponent(first.next)}`);
    expect(rest[list]).toMatchObject([{ [list === "subscriptions" ? "group" : "name"]: "n100" }]);
    expect(rest.next).toBeNull();
    for (const query of ["limit=0", "limit=1001", "after=x", "after="])
      expect(await ask("GET", `/v1/${list}?${query}`)).toMatchObject({ status: 400 });
  });

  test("a nack may have a delay, and a hold stops a group", async () => {
    const { ask } = await setUp();
    await ask("PUT", "/v1/queues/q", { rateLimit: { max: 100, per: "1h", unit: "tokens" }, elsewhere: 0 });
    for (const cost of [60, 60]) await ask("POST", "/v1/queues/q/tasks", { data: cost, cost, groupKey: "g" });
    const claim = async (): Promise<string | undefined> => {
      const { body } = await ask("POST", "/v1/queues/q/claims");
      const [held] = (body as { claims: { id: string; fence: number }[] }).claims;
      return held && `/v1/claims/${held.id}/${held.fence}`;
    };
    expect(
      await ask("POST", `${await claim()}/nack`, { error: { message: "no" }, delay: 0, spent: 10 }),
    ).toMatchObject({ status: 200, body: { state: "ready" } });
    expect(await ask("POST", `${await claim()}/ack`, { spent: 5 })).toMatchObject({
      body: { state: "done" },
    });
    const last = await claim();
    expect(await ask("POST", `${last}/hold`, { error: { message: "429" }, delay: "1h" })).toMatchObject({
      body: { state: "waiting" },
    });
    expect(await claim()).toBe(undefined);
    expect(await ask("GET", "/v1/queues/q")).toMatchObject({
      body: { heldBack: { by: "groups", until: expect.any(Number) } },
    });
    expect(await ask("POST", "/v1/queues/q/unhold", { groupKey: "g" })).toMatchObject({
      body: { lifted: true },
    });
    expect(await ask("POST", "/v1/queues/q/unhold")).toMatchObject({ body: { lifted: false } });
    await ask("POST", "/v1/queues/q/tasks", { data: 3, cost: 1, urgent: true });
    expect(await ask("POST", `${await claim()}/hold`, { error: { message: "429" } })).toMatchObject({
      body: { state: "ready" },
    });
  });

  test("a parked task keeps its steps and continues when its signal arrives", async () => {
    const { ask } = await setUp();
    const { id } = (await ask("POST", "/v1/queues/q/tasks", { data: 1 })).body as { id: string };
    const claim = async (): Promise<{ path: string; stepped?: true }> => {
      const { body } = await ask("POST", "/v1/queues/q/claims");
      const [held] = (body as { claims: { fence: number; stepped?: true }[] }).claims;
      return { ...held!, path: `/v1/claims/${id}/${held!.fence}` };
    };
    const first = await claim();
    expect(await ask("PUT", `${first.path}/steps/plan`, { value: { days: 3 } })).toMatchObject({
      status: 204,
    });
    expect(await ask("POST", `${first.path}/park`, { signal: "approval", timeout: "1h" })).toMatchObject({
      body: { state: "parked" },
    });
    expect(await ask("GET", "/v1/queues/q")).toMatchObject({ body: { depth: { parked: 1, claimed: 0 } } });
    expect(await ask("GET", "/v1/queues/q/tasks?state=parked")).toMatchObject({
      body: { tasks: [{ id, waitsFor: "approval" }] },
    });
    const say = (): Promise<object> =>
      ask("POST", `/v1/tasks/${id}/signals/approval`, { data: { by: "ada" } });
    expect(await say()).toMatchObject({ status: 200, body: { kept: true } });
    expect(await say()).toMatchObject({ body: { kept: false } });
    expect(await claim()).toMatchObject({ stepped: true });
    expect(await ask("GET", `/v1/tasks/${id}/steps`)).toMatchObject({
      body: {
        steps: [
          { kind: "signal", name: "approval", value: { by: "ada" } },
          { kind: "step", name: "plan", value: { days: 3 } },
        ],
      },
    });
  });

  test("the acks of claims continue a run from stage to stage", async () => {
    const { ask } = await setUp();
    const begin = () => ask("POST", "/v1/pipelines/report/runs", { data: "a b" });
    expect(await begin()).toMatchObject({ status: 400, body: { code: "INVALID" } });
    const stages = [{ name: "split" }, { name: "read" }, { name: "merge", joins: true }];
    expect(await ask("PUT", "/v1/pipelines/report", { stages })).toMatchObject({ status: 204 });
    expect(await ask("GET", "/v1/pipelines")).toMatchObject({
      body: {
        pipelines: [{ name: "report", stages: [{ name: "split", joins: false }, {}, { joins: true }] }],
      },
    });
    const added = await begin();
    expect(added).toMatchObject({ status: 201, body: { existing: false } });
    const { id } = added.body as { id: string };
    const work = async (stage: string, answer: object) => {
      const { body } = await ask("POST", `/v1/queues/report%2F${stage}/claims`, { max: 10 });
      const { claims } = body as { claims: { id: string; fence: number; data: unknown }[] };
      for (const claim of claims)
        expect(await ask("POST", `/v1/claims/${claim.id}/${claim.fence}/ack`, answer)).toMatchObject({
          status: 200,
        });
      return claims;
    };
    expect(await work("split", { result: ["a", "b"], each: true })).toMatchObject([
      { data: "a b", run: { id, part: [] } },
    ]);
    expect(await ask("GET", `/v1/runs/${id}`)).toMatchObject({
      body: {
        run: { state: "running" },
        parts: [{ state: "done" }, { stage: "read", part: [0] }, { part: [1] }],
      },
    });
    expect(await work("read", { result: 1 })).toMatchObject([{ data: "a" }, { data: "b" }]);
    expect(await work("merge", { result: "all" })).toMatchObject([{ data: [1, 1], run: { joins: true } }]);
    expect(await ask("GET", `/v1/runs/${id}/result`)).toMatchObject({
      body: { state: "done", result: "all" },
    });
    const { id: other } = (await begin()).body as { id: string };
    const signal = () => ask("POST", `/v1/runs/${other}/signals/go`, { data: { by: "ada" } });
    expect(await signal()).toMatchObject({ body: { kept: true } });
    expect(await signal()).toMatchObject({ body: { kept: false } });
    expect(await ask("POST", `/v1/runs/${other}/cancel`)).toMatchObject({ body: { state: "cancelled" } });
    expect(await ask("GET", `/v1/runs/${other}/result`)).toMatchObject({ body: { state: "cancelled" } });
  });

  test("a result is verified by a claim in the verification queue", async () => {
    const { ask } = await setUp();
    await ask("PUT", "/v1/queues/q", {
      ...{ verified: true, elsewhere: 0, backoff: { type: "fixed", delay: 0, max: 0, jitter: 0 } },
    });
    const { id } = (await ask("POST", "/v1/queues/q/tasks", { data: 1 })).body as { id: string };
    const claim = async (queue: string) => {
      const { body } = await ask("POST", `/v1/queues/${queue}/claims`, { wait: "20s" });
      const [held] = (body as { claims: { id: string; fence: number; data: unknown; feedback?: string }[] })
        .claims;
      return { ...held!, path: `/v1/claims/${held!.id}/${held!.fence}` };
    };
    expect(await ask("POST", `${(await claim("q")).path}/ack`, { result: "hm" })).toMatchObject({
      body: { state: "verifying" },
    });
    const asking = await claim("q%2Fverify");
    const { fence } = asking.data as { fence: number };
    expect(await ask("GET", `/v1/verifying/${id}/${fence}`)).toMatchObject({
      body: { task: { id, state: "verifying" }, result: "hm" },
    });
    expect(await ask("POST", `${asking.path}/refuse`, { feedback: "too short" })).toMatchObject({
      body: { state: "done" },
    });
    const again = await claim("q");
    expect(again).toMatchObject({ attempt: 2, feedback: "too short" });
    await ask("POST", `${again.path}/ack`, { result: "much better" });
    expect(await ask("POST", `${(await claim("q%2Fverify")).path}/accept`)).toMatchObject({ status: 200 });
    expect(await ask("GET", `/v1/tasks/${id}/result`)).toMatchObject({
      body: { state: "done", result: "much better" },
    });
    const plain = (await ask("POST", "/v1/queues/p/tasks", { data: 1 })).body as { id: string };
    expect(await ask("POST", `/v1/claims/${plain.id}/1/accept`)).toMatchObject({ status: 400 });
  });

  test("an Idempotency-Key is honoured, and a batch is added as a whole or not at all", async () => {
    const { ask } = await setUp();
    const key = { "idempotency-key": "k" };
    const first = await ask("POST", "/v1/queues/q/tasks", { data: 1 }, key);
    const second = await ask("POST", "/v1/queues/q/tasks", { data: 1 }, key);
    expect(second.body).toMatchObject({ id: (first.body as { id: string }).id, existing: true });
    const tasks = [{ data: 1 }, { data: 2, groupKey: "" }];
    expect(await ask("POST", "/v1/queues/q/batches", { tasks })).toMatchObject({ status: 400 });
    expect(await ask("POST", "/v1/queues/q/batches", { tasks: [{ data: 1 }] })).toMatchObject({
      status: 201,
    });
    expect(await ask("GET", "/v1/queues/q")).toMatchObject({ body: { depth: { ready: 2 } } });
  });

  test("a batch that is repeated with its Idempotency-Key is added once", async () => {
    const { ask } = await setUp();
    const tasks = [{ data: 1 }, { data: 2, idempotencyKey: "own" }, { data: 3 }];
    const send = async () => {
      const { status, body } = await ask(
        "POST",
        "/v1/queues/q/batches",
        { tasks },
        { "idempotency-key": "k" },
      );
      expect(status).toBe(201);
      return (body as { tasks: { id: string; existing: boolean }[] }).tasks;
    };
    const [first, second] = [await send(), await send()];
    expect(first.map(({ existing }) => existing)).toEqual([false, false, false]);
    expect(second).toEqual(first.map((task) => ({ ...task, existing: true })));
    expect(await ask("GET", `/v1/tasks/${first[1]!.id}`)).toMatchObject({ body: { idempotencyKey: "own" } });
  });

  test("a payload that is not valid JSON, or too deep to be written, is returned as text", async () => {
    const { ask, store } = await setUp();
    const deep = "[".repeat(50_000) + "]".repeat(50_000);
    for (const data of ["no json", deep, "[".repeat(240) + "]".repeat(240)])
      await store.add([{ queue: "q", data }]);
    const { status, body } = await ask("POST", "/v1/queues/q/claims", { max: 10 });
    expect(status).toBe(200);
    const [plain, deepest, flat] = (body as { claims: { data: unknown }[] }).claims;
    expect([plain!.data, deepest!.data]).toEqual(["no json", deep]);
    expect(flat!.data).toBeInstanceOf(Array);
    expect(await ask("GET", "/v1/queues/q/tasks?state=claimed")).toMatchObject({ status: 200 });
  });

  test("a message reaches every group", async () => {
    const { ask } = await setUp();
    const subscribed = await ask("PUT", "/v1/subscriptions/order.*/audit");
    const { queue } = subscribed.body as { queue: string };
    expect(await ask("POST", "/v1/topics/order.placed/messages", { data: 1 })).toMatchObject({
      ...{ status: 201, body: { tasks: [{ existing: false }] } },
    });
    const claimed = await ask("POST", `/v1/queues/${encodeURIComponent(queue)}/claims`, { wait: "10s" });
    expect(claimed).toMatchObject({ body: { claims: [{ data: 1 }] } });
    expect(await ask("GET", "/v1/subscriptions")).toMatchObject({
      body: { subscriptions: [{ group: "audit" }] },
    });
    expect(await ask("DELETE", "/v1/subscriptions/order.*/audit")).toMatchObject({ status: 204 });
  });

  test("events arrive as they happen", async () => {
    const { server, store } = await setUp();
    const stop = new AbortController();
    const response = await fetch(`${server.url}/v1/events`, { signal: stop.signal });
    expect(response.headers.get("content-type")).toContain("text/event-stream");
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let heard = (await reader.read()).value!;
    await store.add([{ queue: "q", data: "1" }]);
    while (!heard.includes("task.added")) heard += (await reader.read()).value!;
    expect(heard).toMatch(/event: queue\.created\ndata: \{"type":"queue\.created"/);
    stop.abort();
  });
});

describe("bad requests are refused with a problem document", () => {
  const cases: [string, string, string, unknown, number, string][] = [
    ["no JSON", "POST", "/v1/queues/q/tasks", "{", 400, "INVALID"],
    ["an unknown field", "POST", "/v1/queues/q/tasks", { data: 1, prio: 1 }, 400, "INVALID"],
    ["an invalid duration", "POST", "/v1/queues/q/tasks", { data: 1, delay: "soon" }, 400, "INVALID"],
    ["a bad name", "POST", "/v1/queues/a%20b/tasks", { data: 1 }, 400, "INVALID"],
    ["too long a wait", "POST", "/v1/queues/q/claims", { wait: "2m" }, 400, "INVALID"],
    ["an invalid fence", "POST", "/v1/claims/x/y/release", undefined, 400, "INVALID"],
    ["a malformed id", "POST", "/v1/claims/x/1/ack", {}, 400, "INVALID"],
    [
      "an unknown task",
      "GET",
      "/v1/tasks/01980000-0000-7000-8000-000000000000",
      undefined,
      404,
      "TASK_NOT_FOUND",
    ],
    ["an unknown state", "GET", "/v1/queues/q/tasks?state=lost", undefined, 400, "INVALID"],
    ["an unknown path", "GET", "/v1/nowhere", undefined, 404, "INVALID"],
    [
      "data that is nested too deep",
      "POST",
      "/v1/queues/q/tasks",
      `{"data":${"[".repeat(5_000)}${"]".repeat(5_000)}}`,
      400,
      "INVALID",
    ],
  ];

  test("an unknown query parameter is refused", async () => {
    const { ask } = await setUp();
    for (const path of ["/v1/workers?queu=a", "/v1/queues?queu=a", "/v1/events?queu=a"]) {
      const { body } = await ask("GET", path);
      expect(body).toMatchObject({ status: 400, code: "INVALID", detail: expect.stringContaining("queu") });
    }
  });

  test.each(cases)("%s is refused", async (_, method, path, body, status, code) => {
    const { ask } = await setUp();
    expect(await ask(method, path, body)).toMatchObject({ status, type: PROBLEM, body: { status, code } });
  });

  test("another content type than JSON is refused", async () => {
    const { ask } = await setUp();
    const answer = await ask("POST", "/v1/queues/q/tasks", { data: 1 }, { "content-type": "text/plain" });
    expect(answer).toMatchObject({
      status: 415,
      type: PROBLEM,
      body: { detail: expect.stringContaining("JSON") },
    });
  });

  test("a body of unknown length is refused", async () => {
    const { server } = await setUp();
    const body = new Blob(['{"data":1}']).stream();
    const init = { method: "POST", body, duplex: "half", headers: { "content-type": "application/json" } };
    const answer = await fetch(`${server.url}/v1/queues/q/tasks`, init as RequestInit);
    expect({ status: answer.status, type: answer.headers.get("content-type") }).toEqual({
      status: 411,
      type: PROBLEM,
    });
  });

  test("a body above the server's limit is refused", async () => {
    const { ask } = await setUp({ native: { maxFrame: 1_000 } });
    expect(await ask("POST", "/v1/queues/q/tasks", { data: "x".repeat(2_000) })).toMatchObject({
      ...{ status: 413, type: PROBLEM, body: { code: "PAYLOAD_TOO_LARGE" } },
    });
  });

  test("a claim while the server stops is refused", async () => {
    const { ask, server } = await setUp();
    await server.drain(0);
    expect(await ask("POST", "/v1/queues/q/claims", {})).toMatchObject({
      status: 503,
      body: { retryable: true },
    });
  });
});

describe("waiting for a result over HTTP", () => {
  test("a result that is not there in time is a 202 with the task's state, which no client retries by itself", async () => {
    const { ask } = await setUp();
    const { id } = (await ask("POST", "/v1/queues/q/tasks", { data: 1 })).body as { id: string };
    const inState = (state: string) => ({ status: 202, type: "application/json", body: { id, state } });
    expect(await ask("GET", `/v1/tasks/${id}/result`)).toEqual(inState("ready"));
    await ask("POST", "/v1/queues/q/claims", {});
    expect(await ask("GET", `/v1/tasks/${id}/result?timeout=10ms`)).toEqual(inState("claimed"));
  });

  test("a run's result that is not there in time is a 202, too", async () => {
    const { ask } = await setUp();
    await ask("PUT", "/v1/pipelines/report", { stages: [{ name: "extract" }] });
    const { id } = (await ask("POST", "/v1/pipelines/report/runs", { data: 1 })).body as { id: string };
    expect(await ask("GET", `/v1/runs/${id}/result`)).toMatchObject({
      ...{ status: 202, body: { id, state: "running" } },
    });
  });

  test("a queue that does not exist is a 404, and an empty one is not", async () => {
    const { ask } = await setUp();
    const requests: [string, string, object?][] = [
      ["GET", ""],
      ["GET", "/tasks?state=ready"],
      ["GET", "/dead/patterns"],
      ["POST", "/purge"],
      ["POST", "/unhold", {}],
      ["POST", "/dead/redrive", {}],
      ["POST", "/dead/discard", { ids: ["019bc188-3c70-7000-8000-00000b3a8ceb"] }],
    ];
    for (const [method, path, body] of requests) {
      const { status, body: problem } = await ask(method, `/v1/queues/emials${path}`, body);
      expect([path, status, (problem as { detail: string }).detail]).toEqual([
        path,
        404,
        'There is no queue "emials". GET /v1/queues lists the queues; adding a task creates one.',
      ]);
    }
    await ask("PUT", "/v1/queues/emails", {});
    for (const [method, path, body] of requests)
      expect([path, (await ask(method, `/v1/queues/emails${path}`, body)).status]).toEqual([path, 200]);
  });

  test("the result of an unknown task is a 404", async () => {
    const { ask } = await setUp();
    expect(
      await ask("GET", "/v1/tasks/01980000-0000-7000-8000-000000000000/result?timeout=10ms"),
    ).toMatchObject({ status: 404, body: { code: "TASK_NOT_FOUND" } });
  });
});

test.each([
  ["POST", "/v1/queues/q/tasks", {}, "data: is missing; any JSON is accepted, also null"],
  ["POST", "/v1/queues/q/batches", { tasks: [{}] }, "tasks.0.data: is missing"],
  ["POST", "/v1/claims/01980000-0000-7000-8000-000000000000/1/reject", {}, "error: is missing"],
  ["POST", "/v1/claims/nonsense/1/ack", {}, "A task id looks like"],
  ["POST", "/v1/claims/nonsense/1/extend", { lease: "1s" }, "A task id looks like"],
  ["POST", "/v1/claims/01980000-0000-7000-8000-000000000000/one/ack", {}, "fence: must be a whole number"],
  ["GET", "/v1/queues/q/tasks?state=ready&limit=1001", undefined, "limit: must be from 1 to 1000"],
])("%s %s with %j is refused with a clear error", async (method, path, body, words) => {
  const { ask } = await setUp();
  expect(await ask(method, path, body)).toMatchObject({
    ...{ status: 400, body: { code: "INVALID", detail: expect.stringContaining(words) } },
  });
});

describe("description of the HTTP interface", () => {
  test("the description is OpenAPI 3.1, and names every path", async () => {
    const { ask, server } = await setUp();
    const { body } = await ask("GET", "/openapi.json");
    const { openapi, paths } = body as { openapi: string; paths: Record<string, object> };
    expect(openapi).toBe("3.1.0");
    expect(Object.keys(paths)).toContain("/v1/claims/{id}/{fence}/ack");
    // Operations that add accept an idempotency key, and name its header.
    const keyed = Object.keys(paths).filter((path) =>
      JSON.stringify(paths[path]).includes('"idempotency-key"'),
    );
    expect(keyed).toEqual([
      "/v1/queues/{queue}/tasks",
      "/v1/queues/{queue}/batches",
      "/v1/topics/{topic}/messages",
      "/v1/pipelines/{pipeline}/runs",
    ]);
    const page = await (await fetch(`${server.url}/docs`)).text();
    for (const path of Object.keys(paths)) expect(page).toContain(path);
    // Named schemas are resolved too, and nothing is interpreted as markup.
    expect(page).toContain("&quot;idempotencyKey&quot;");
    expect(page).not.toContain("$ref");
    expect(page).not.toMatch(/<script/i);
  });
});

describe("examples of the guide", () => {
  const guide = readFileSync(join(import.meta.dirname, "../../docs/guides/http.md"), "utf8");
  const blocks = [...guide.matchAll(/^```(sh|python) run\n([^]*?)^```$/gm)];
  const programs: Record<string, string> = { sh: "bash", python: "python3" };

  test.each(blocks.map(([, language, code]) => [language!, code!]))(
    "the %s example of the guide works",
    async (language, code) => {
      const { server } = await setUp();
      const { stdout } = await promisify(execFile)(programs[language]!, ["-c", code], {
        env: { ...process.env, DIBS_URL: server.url },
      });
      expect(stdout).toMatch(language === "sh" ? /"claims":\[\{"id":/ : /^5\n$/);
    },
  );
});

describe("schedules over HTTP", () => {
  const definition = { cron: "0 3 * * *", tz: "Europe/London", task: { queue: "reports", data: { a: 1 } } };

  test("schedules can be put, read, paused and removed over HTTP", async () => {
    const { ask } = await setUp();
    const put = await ask("PUT", "/v1/schedules/nightly", definition);
    const shown = {
      ...{ name: "nightly", ...definition, every: null, missed: "once", paused: false, error: null },
    };
    expect(put).toMatchObject({ status: 200, body: shown });
    expect((put.body as { next: number[] }).next).toHaveLength(5);
    expect(await ask("GET", "/v1/schedules")).toMatchObject({ body: { schedules: [shown] } });
    expect(await ask("POST", "/v1/schedules/nightly/pause")).toMatchObject({ status: 204 });
    expect(await ask("GET", "/v1/schedules/nightly")).toMatchObject({ body: { paused: true, next: [] } });
    expect(await ask("POST", "/v1/schedules/nightly/resume")).toMatchObject({ status: 204 });
    expect(
      await ask("PUT", "/v1/schedules/nightly", { every: "10m", task: { queue: "reports" } }),
    ).toMatchObject({ body: { cron: null, every: 600_000, task: { queue: "reports", data: null } } });
    expect(await ask("DELETE", "/v1/schedules/nightly")).toMatchObject({ status: 204 });
    expect(await ask("GET", "/v1/schedules/nightly")).toMatchObject({ status: 404, type: PROBLEM });
  });

  test("a schedule over HTTP has an end, a limit and jitter", async () => {
    const { ask } = await setUp();
    const timing = { every: "1h", until: "2100-01-01T00:00:00Z", limit: 3, jitter: "5m" };
    const { status, body } = await ask("PUT", "/v1/schedules/some", { ...timing, task: { queue: "q" } });
    const until = Date.parse(timing.until);
    expect([status, body]).toMatchObject([200, { until, limit: 3, jitter: 300_000, fired: 0, ended: false }]);
  });

  test("bad schedules are refused over HTTP with a clear error", async () => {
    const { ask } = await setUp();
    const bad = await ask("PUT", "/v1/schedules/nightly", { ...definition, cron: "whenever" });
    expect(bad).toMatchObject({ status: 400, body: { code: "INVALID" } });
    expect((bad.body as { detail: string }).detail).toContain("five fields");
    expect(await ask("POST", "/v1/schedules/nobody/pause")).toMatchObject({ status: 400 });
  });
});
