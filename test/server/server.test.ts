import { request } from "node:http";
import { connect } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { openPort } from "../../src/api/open.ts";
import type { Measured } from "../../src/core/commit.ts";
import { open } from "../../src/index.ts";
import type { Server } from "../../src/server/server.ts";
import type { ServerOptions } from "../../src/server/options.ts";
import { startServer } from "./start.ts";
import { Proxy } from "../proxy.ts";
import { latch } from "../stores.ts";

async function setUp(options: Partial<ServerOptions> = {}) {
  let tell: (measured: Measured) => void = () => {};
  const store = await openPort(":memory:", {}, { measure: (measured) => tell(measured) });
  const server = await startServer(store, { onMeasured: (listener) => (tell = listener), ...options });
  onTestFinished(async () => {
    await server.close();
    await store.close();
  });
  return { store, server, tell: (measured: Measured) => tell(measured) };
}

function get(
  server: Server,
  path: string,
  headers: Record<string, string> = {},
  method = "GET",
): Promise<{ status: number; type: string | undefined; body: Record<string, unknown> }> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(server.url);
    const sent = request({ hostname, port, path, method, headers, agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (part: string) => (text += part));
      response.on("end", () =>
        resolve({
          status: response.statusCode!,
          type: response.headers["content-type"],
          body: (text === "" ? {} : JSON.parse(text)) as Record<string, unknown>,
        }),
      );
    });
    sent.on("error", reject);
    sent.end();
  });
}

const UPGRADE = {
  connection: "Upgrade",
  upgrade: "websocket",
  "sec-websocket-version": "13",
  "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
};

/** The status of the answer to an upgrade request. */
function upgrade(server: Server, path: string, headers: Record<string, string> = {}): Promise<number> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(server.url);
    const sent = request({ hostname, port, path, headers: { ...UPGRADE, ...headers }, agent: false });
    sent.on("response", (response) => resolve(response.statusCode!));
    sent.on("upgrade", (response, socket) => {
      socket.destroy();
      resolve(response.statusCode!);
    });
    sent.on("error", reject);
    sent.end();
  });
}

describe("a server over HTTP", () => {
  test("a server reports that it is alive and ready", async () => {
    const { server } = await setUp();
    expect(await get(server, "/healthz")).toMatchObject({ status: 200, body: { status: "alive" } });
    expect(await get(server, "/readyz?x=1")).toMatchObject({ status: 200, body: { status: "ready" } });
  });

  test("a server is not ready when its store does not answer", async () => {
    const { server, store } = await setUp();
    await store.close();
    expect(await get(server, "/readyz")).toMatchObject({ status: 503, body: { retryable: false } });
    expect(await get(server, "/healthz")).toMatchObject({ status: 200 });
  });

  test("a server answers an unknown path with a problem document", async () => {
    const { server } = await setUp();
    const type = "application/problem+json";
    expect(await get(server, "/nowhere")).toMatchObject({ status: 404, type, body: { status: 404 } });
    expect(await get(server, "/healthz", {}, "DELETE")).toMatchObject({ status: 404, type });
  });
});

describe("/metrics", () => {
  test("/metrics count calls, and show what is in the store", async () => {
    const { server } = await setUp();
    const dibs = await open(server.url);
    onTestFinished(() => dibs.close());
    const queue = dibs.queue("work");
    await queue.addMany([{ data: 1 }, { data: 2 }, { data: 3 }]);
    const [first, second] = await queue.claim({ max: 2 });
    await first!.ack();
    await second!.reject(new Error("no"));
    const text = await (await fetch(`${server.url}/metrics`)).text();
    for (const line of [
      'dibs_tasks_added_total{queue="work"} 3',
      'dibs_tasks_claimed_total{queue="work"} 2',
      'dibs_tasks_settled_total{queue="work",settlement="ack",state="done"} 1',
      'dibs_tasks_settled_total{queue="work",settlement="reject",state="dead"} 1',
      'dibs_task_wait_seconds_count{queue="work"} 2',
      'dibs_task_service_seconds_count{queue="work"} 2',
      'dibs_call_seconds_count{verb="settle"} 2',
      'dibs_queue_depth{queue="work",state="ready"} 1',
      'dibs_queue_depth{queue="work",state="dead"} 1',
      'dibs_queue_workers{queue="work"} 0',
      "dibs_clients 1",
      "dibs_connections 2",
    ]) {
      expect(text.split("\n")).toContain(line);
    }
    const valueOf = (name: string): number => Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1]);
    expect(valueOf("dibs_commit_seconds_count")).toBeGreaterThan(0);
    expect(valueOf("dibs_commit_operations_count")).toBe(valueOf("dibs_commit_seconds_count"));
    expect(valueOf("dibs_commit_operations_sum")).toBeGreaterThanOrEqual(4);
  });
});

test("/metrics count batches that the store rolled back and retried", async () => {
  const { server, tell } = await setUp();
  for (const conflict of ["deadlock", "deadlock", "serialization"] as const) tell({ conflict });
  const lines = (await (await fetch(`${server.url}/metrics`)).text()).split("\n");
  expect(lines).toContain('dibs_store_conflicts_total{kind="deadlock"} 2');
  expect(lines).toContain('dibs_store_conflicts_total{kind="serialization"} 1');
});

test("/metrics do not grow with every name that a queue ever had", async () => {
  const { server } = await setUp();
  const dibs = await open(server.url);
  onTestFinished(() => dibs.close());
  const names = Array.from({ length: 1_100 }, (_, n) => `q${n}`);
  await Promise.all(names.map((name) => dibs.queue(name).add(1)));
  const added = (await (await fetch(`${server.url}/metrics`)).text())
    .split("\n")
    .filter((line) => line.startsWith("dibs_tasks_added_total{"));
  expect(added).toHaveLength(1_001);
  expect(added).toContain('dibs_tasks_added_total{queue="(others)"} 100');
  expect(await dibs.queues()).toHaveLength(1_100);
});

describe("web pages of other origins", () => {
  test.each([
    ["a name that its author points at this machine", { host: "evil.example" }],
    ["such a name with our port", { host: "evil.example:7411" }],
    ["a name that begins like ours", { host: "localhost.evil.example" }],
    ["its own origin", { origin: "https://evil.example" }],
    ["an opaque origin", { origin: "null" }],
    ["another port of this machine", { origin: "http://127.0.0.1:1" }],
  ])("a web page does not reach the server with %s", async (_, headers) => {
    const { server } = await setUp();
    expect(await get(server, "/readyz", headers as never)).toMatchObject({
      status: 403,
      body: { code: "FORBIDDEN" },
    });
    expect(await upgrade(server, "/v1/connect", headers as never)).toBe(403);
  });

  test("pages of the server's own origin and of allowed ones reach it", async () => {
    // Also as copied from the address of a page.
    const { server } = await setUp({
      allowHosts: ["Queue.internal:7411"],
      allowOrigins: ["https://Board.example/"],
    });
    const own = { origin: server.url, host: new URL(server.url).host };
    for (const headers of [
      own,
      { host: "queue.internal" },
      { origin: "https://board.example" },
      { host: "[::1]" },
    ]) {
      expect(await get(server, "/readyz", headers)).toMatchObject({ status: 200 });
      expect(await upgrade(server, "/v1/connect", headers)).toBe(101);
    }
    expect(await upgrade(server, "/elsewhere")).toBe(404);
  });
});

test.each([
  [{ allowHosts: ["http://queue.internal"] }, "--allow-host"],
  [{ allowOrigins: ["board.example"] }, "--allow-origin"],
])("an invalid name or origin is refused: %j", async (options, words) => {
  await expect(setUp(options)).rejects.toMatchObject({
    ...{ code: "INVALID", message: expect.stringContaining(words) },
  });
});

describe("pages of an allowed origin", () => {
  const origin = "https://board.example";

  test("an allowed origin gets CORS headers, and preflight requests are answered", async () => {
    const { server } = await setUp({ allowOrigins: [origin] });
    const asked = await fetch(`${server.url}/v1/queues/q/tasks`, {
      method: "OPTIONS",
      headers: {
        ...{ origin, "access-control-request-method": "POST" },
        "access-control-request-headers": "authorization,content-type,idempotency-key",
      },
    });
    expect(asked.status).toBe(204);
    expect(Object.fromEntries(asked.headers)).toMatchObject({
      "access-control-allow-origin": origin,
      "access-control-allow-methods": expect.stringContaining("POST"),
      "access-control-allow-headers": expect.stringMatching(/authorization, content-type, idempotency-key/),
    });
    for (const path of ["/readyz", "/v1/queues", "/v1/tasks/none"]) {
      const { headers } = await fetch(server.url + path, { headers: { origin } });
      expect([headers.get("access-control-allow-origin"), headers.get("vary")]).toEqual([origin, "origin"]);
    }
  });

  test("another origin gets no CORS headers", async () => {
    const { server } = await setUp({ allowOrigins: [origin] });
    const answer = await fetch(`${server.url}/v1/queues`, {
      method: "OPTIONS",
      headers: { origin: "https://evil.example", "access-control-request-method": "GET" },
    });
    expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([403, null]);
  });
});

describe("graceful shutdown of a server", () => {
  test("a stopping server gives no tasks to claims over HTTP, also not to waiting ones", async () => {
    const store = await openPort(":memory:", {});
    const asked = latch();
    const server = await startServer({
      ...store,
      claim: (claimCall) => {
        asked.open();
        return store.claim(claimCall);
      },
    });
    onTestFinished(async () => {
      await server.close();
      await store.close();
    });
    const claim = (): Promise<Response> =>
      fetch(`${server.url}/v1/queues/work/claims`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ wait: "50s" }),
      });
    const waiting = claim();
    await asked.promise;
    await server.drain(0);
    await store.add([{ queue: "work", data: "1" }]);
    for (const answer of [await waiting, await claim()]) {
      expect(answer.status).toBe(503);
      expect([answer.headers.get("connection"), answer.headers.get("retry-after")]).toEqual(["close", "1"]);
      expect(await answer.json()).toMatchObject({ code: "UNAVAILABLE", retryable: true });
    }
    expect((await store.stats("work")).depth).toMatchObject({ ready: 1, claimed: 0 });
  });

  test("a stopping server answers requests in progress, and ends endless ones", async () => {
    const store = await openPort(":memory:", {});
    const [asked, goOn] = [latch(), latch()];
    const slow: typeof store = {
      ...store,
      add: async (tasks, options) => {
        asked.open();
        await goOn.promise;
        return store.add(tasks, options);
      },
    };
    const server = await startServer(slow);
    const { url } = server;
    onTestFinished(() => store.close());
    const [{ id } = { id: "" }] = await store.add([{ queue: "work", data: "1" }]);
    const adding = fetch(`${url}/v1/queues/work/tasks`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: '{"data":2}',
    });
    const result = fetch(`${url}/v1/tasks/${id}/result?timeout=1h`);
    const events = await fetch(`${url}/v1/events`);
    await asked.promise;
    await server.drain(0);
    const closed = server.close();
    goOn.open();
    expect((await adding).status).toBe(201);
    expect((await result).status).toBe(503);
    expect(await events.text()).toContain(": listening");
    await closed;
    await expect(fetch(`${url}/healthz`)).rejects.toThrow();
  });

  test("a stopping server does not wait for a client that does not close its connection", async () => {
    const { server } = await setUp();
    const { hostname, port } = new URL(server.url);
    const sent = request({ hostname, port, path: "/v1/connect", headers: UPGRADE, agent: false });
    const upgraded = new Promise<void>((resolve) => {
      sent.on("upgrade", (_, socket) => {
        onTestFinished(() => void socket.destroy());
        socket.on("error", () => {});
        resolve();
      });
    });
    sent.end();
    await upgraded;
    const began = performance.now();
    await server.close();
    expect(performance.now() - began).toBeLessThan(10_000);
  });

  test("a stopping server gives no more tasks to clients, and lets them finish", async () => {
    const { server, store } = await setUp();
    const dibs = await open(server.url);
    onTestFinished(() => dibs.close());
    const queue = dibs.queue<number, string>("work");
    const [began, goOn] = [latch(), latch()];
    const worker = queue.work(async (task) => {
      began.open();
      await goOn.promise;
      return `done ${task.data}`;
    });
    await worker.ready;
    const first = await queue.add(1);
    await began.promise;
    const draining = server.drain(60_000);
    expect(await get(server, "/readyz")).toMatchObject({ status: 503 });
    const second = await queue.add(2);
    await expect(queue.claim()).rejects.toMatchObject({ code: "UNAVAILABLE", retryable: true });
    goOn.open();
    await draining;
    expect(await store.task(first.id)).toMatchObject({ state: "done", attempt: 1 });
    expect(await store.task(second.id)).toMatchObject({ state: "ready", attempt: 1 });
    expect(await store.history(first.id)).toHaveLength(1);
  });

  test("a stopping server does not wait for a client that is gone", async () => {
    const { server, store } = await setUp({ native: { resumeMs: 50 } });
    const proxy = await Proxy.start(Number(new URL(server.url).port));
    onTestFinished(() => proxy.close());
    const dibs = await open(`http://127.0.0.1:${proxy.port}`);
    const { id } = await dibs.queue("work").add(1);
    await dibs.queue("work").claim({ lease: "10m" });
    proxy.cut();
    await server.drain(60_000);
    const { tasks } = await store.claim({ queues: ["work"], max: 1, worker: "other", wait: 60_000 });
    expect(tasks).toMatchObject([{ id, attempt: 2 }]);
    await dibs.close();
  });

  test("a stopping server releases claims that are not finished in time, without counting an attempt", async () => {
    const { server, store } = await setUp();
    const dibs = await open(server.url);
    onTestFinished(() => dibs.close());
    const queue = dibs.queue("work");
    const began = latch();
    queue.work(async (task) => {
      began.open();
      await new Promise((resolve) => task.signal.addEventListener("abort", resolve));
    });
    const { id } = await queue.add(1);
    await began.promise;
    await server.drain(10);
    expect(await store.task(id)).toMatchObject({ state: "ready", attempt: 1 });
    expect(await store.history(id)).toMatchObject([{ outcome: "released" }]);
  });
});

describe("clients that waste resources", () => {
  test("a client with headers that are too large is cut off", async () => {
    const { server } = await setUp();
    expect(await get(server, "/healthz", { "x-large": "x".repeat(20_000) })).toMatchObject({ status: 431 });
    expect(await get(server, "/healthz")).toMatchObject({ status: 200 });
  });

  test("a client with a message that is too large is cut off", async () => {
    const { server } = await setUp({ native: { maxFrame: 10_000 } });
    const dibs = await open(server.url);
    onTestFinished(() => dibs.close());
    const queue = dibs.queue("work");
    await expect(queue.add("x".repeat(20_000))).rejects.toMatchObject({
      code: "PAYLOAD_TOO_LARGE",
      message: expect.stringContaining("10000"),
    });
    expect(await queue.add("x")).toMatchObject({ existing: false });
  });

  test("a client above the limit of connections is refused", async () => {
    const { server } = await setUp({ maxConnections: 1 });
    const dibs = await open(server.url);
    onTestFinished(() => dibs.close());
    const { port } = new URL(server.url);
    const socket = connect(Number(port), "127.0.0.1");
    await new Promise((resolve) => socket.on("close", resolve));
    await dibs.queues();
  });
});
