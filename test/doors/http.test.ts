import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { openPort } from "../../src/api/open.ts";
import type { ServerOptions } from "../../src/server/server.ts";
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
  test("a task goes from its adding to its result", async () => {
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
      status: 204,
    });
    expect(await ask("POST", `${held}/extend`, { lease: "2m" })).toMatchObject({ status: 204 });
    expect(await ask("GET", `/v1/tasks/${id}`)).toMatchObject({
      body: { state: "claimed", progress: { value: 0.5, note: "half" }, data: { to: "ada" } },
    });
    const result = ask("GET", `/v1/tasks/${id}/result?timeout=20s`);
    expect(await ask("POST", `${held}/ack`, { result: [1] })).toMatchObject({ body: { state: "done" } });
    expect(await result).toMatchObject({ status: 200, body: { state: "done", result: [1] } });
    expect(await ask("POST", `${held}/ack`, {})).toMatchObject({
      ...{ status: 409, type: PROBLEM, body: { code: "CLAIM_LOST", status: 409, retryable: false } },
    });
    expect(await ask("GET", `/v1/tasks/${id}/history`)).toMatchObject({
      body: { attempts: [{ worker: "me" }] },
    });
  });

  test("a claim waits for a task, and is answered in that moment", async () => {
    const { ask, store } = await setUp();
    const claimed = ask("POST", "/v1/queues/a%2Fb/claims", { wait: "30s", max: 5 });
    await store.add([{ queue: "a/b", data: new Uint8Array([1, 2]), contentType: "application/x" }]);
    expect(await claimed).toMatchObject({
      body: { claims: [{ queue: "a/b", data: "AQI=", encoding: "base64", contentType: "application/x" }] },
    });
  });

  test("a failure is tried again, a rejected task is a dead letter and can be redriven", async () => {
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

  test("an Idempotency-Key is honoured, and a batch is added whole or not at all", async () => {
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

  test("a message reaches every group", async () => {
    const { ask } = await setUp();
    expect(await ask("PUT", "/v1/subscriptions/order.*/audit")).toMatchObject({ status: 204 });
    expect(await ask("POST", "/v1/topics/order.placed/messages", { data: 1 })).toMatchObject({
      ...{ status: 201, body: { tasks: [{ existing: false }] } },
    });
    expect(await ask("GET", "/v1/subscriptions")).toMatchObject({
      body: { subscriptions: [{ group: "audit" }] },
    });
    expect(await ask("DELETE", "/v1/subscriptions/order.*/audit")).toMatchObject({ status: 204 });
  });

  test("events come as they happen", async () => {
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

describe("what cannot be meant is refused with a problem document:", () => {
  const cases: [string, string, string, unknown, number, string][] = [
    ["no JSON", "POST", "/v1/queues/q/tasks", "{", 400, "INVALID"],
    ["a field that is none", "POST", "/v1/queues/q/tasks", { data: 1, prio: 1 }, 400, "INVALID"],
    ["a duration in words", "POST", "/v1/queues/q/tasks", { data: 1, delay: "soon" }, 400, "INVALID"],
    ["a bad name", "POST", "/v1/queues/a%20b/tasks", { data: 1 }, 400, "INVALID"],
    ["too long a wait", "POST", "/v1/queues/q/claims", { wait: "2m" }, 400, "INVALID"],
    ["a fence that is none", "POST", "/v1/claims/x/y/release", undefined, 400, "INVALID"],
    [
      "a task that is none",
      "GET",
      "/v1/tasks/01980000-0000-7000-8000-000000000000",
      undefined,
      404,
      "TASK_NOT_FOUND",
    ],
    ["a state that is none", "GET", "/v1/queues/q/tasks?state=lost", undefined, 400, "INVALID"],
    ["a path that is none", "GET", "/v1/nowhere", undefined, 404, "INVALID"],
    [
      "depth without end",
      "POST",
      "/v1/queues/q/tasks",
      `{"data":${"[".repeat(5_000)}${"]".repeat(5_000)}}`,
      400,
      "INVALID",
    ],
  ];

  test.each(cases)("%s", async (_, method, path, body, status, code) => {
    const { ask } = await setUp();
    expect(await ask(method, path, body)).toMatchObject({ status, type: PROBLEM, body: { status, code } });
  });

  test("another type than JSON", async () => {
    const { ask } = await setUp();
    const answer = await ask("POST", "/v1/queues/q/tasks", { data: 1 }, { "content-type": "text/plain" });
    expect(answer).toMatchObject({
      status: 415,
      type: PROBLEM,
      body: { detail: expect.stringContaining("JSON") },
    });
  });

  test("a body of unknown length", async () => {
    const { server } = await setUp();
    const body = new Blob(['{"data":1}']).stream();
    const init = { method: "POST", body, duplex: "half", headers: { "content-type": "application/json" } };
    const answer = await fetch(`${server.url}/v1/queues/q/tasks`, init as RequestInit);
    expect({ status: answer.status, type: answer.headers.get("content-type") }).toEqual({
      status: 411,
      type: PROBLEM,
    });
  });

  test("more than the server takes", async () => {
    const { ask } = await setUp({ native: { maxFrame: 1_000 } });
    expect(await ask("POST", "/v1/queues/q/tasks", { data: "x".repeat(2_000) })).toMatchObject({
      ...{ status: 413, type: PROBLEM, body: { code: "PAYLOAD_TOO_LARGE" } },
    });
  });

  test("a claim while the server stops", async () => {
    const { ask, server } = await setUp();
    await server.drain(0);
    expect(await ask("POST", "/v1/queues/q/claims", {})).toMatchObject({
      status: 503,
      body: { retryable: true },
    });
  });
});

describe("the description", () => {
  test("is OpenAPI 3.1, and names every path", async () => {
    const { ask, server } = await setUp();
    const { body } = await ask("GET", "/openapi.json");
    const { openapi, paths } = body as { openapi: string; paths: Record<string, object> };
    expect(openapi).toBe("3.1.0");
    expect(Object.keys(paths)).toContain("/v1/claims/{id}/{fence}/ack");
    const page = await (await fetch(`${server.url}/docs`)).text();
    for (const path of Object.keys(paths)) expect(page).toContain(path);
  });
});

describe("the guide's examples run:", () => {
  const guide = readFileSync(join(import.meta.dirname, "../../docs/guides/http.md"), "utf8");
  const blocks = [...guide.matchAll(/^```(sh|python) run\n([^]*?)^```$/gm)];
  const programs: Record<string, string> = { sh: "bash", python: "python3" };

  test.each(blocks.map(([, language, code]) => [language!, code!]))("%s", async (language, code) => {
    const { server } = await setUp();
    const { stdout } = await promisify(execFile)(programs[language]!, ["-c", code], {
      env: { ...process.env, DIBS_URL: server.url },
    });
    expect(stdout).toMatch(language === "sh" ? /"claims":\[\{"id":/ : /^5\n$/);
  });
});

describe("schedules over HTTP", () => {
  const definition = { cron: "0 3 * * *", tz: "Europe/London", task: { queue: "reports", data: { a: 1 } } };

  test("are put, shown, paused and removed", async () => {
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

  test("are refused in words", async () => {
    const { ask } = await setUp();
    const bad = await ask("PUT", "/v1/schedules/nightly", { ...definition, cron: "whenever" });
    expect(bad).toMatchObject({ status: 400, body: { code: "INVALID" } });
    expect((bad.body as { detail: string }).detail).toContain("five fields");
    expect(await ask("POST", "/v1/schedules/nobody/pause")).toMatchObject({ status: 400 });
  });
});
