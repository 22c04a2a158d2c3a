import { describe, expect, onTestFinished, test } from "vitest";
import { openPort } from "../../src/api/open.ts";
import { ManualClock } from "../../src/testing/manual-clock.ts";
import { startServer } from "../server/start.ts";

// Workers over HTTP: sessions with one heartbeat for many claims, and settlements in batches.

async function setUp() {
  const clock = new ManualClock();
  const store = await openPort(":memory:", { clock });
  const server = await startServer(store);
  onTestFinished(async () => {
    await server.close();
    await store.close();
  });
  const ask = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(server.url + path, {
      method,
      ...(body !== undefined && {
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      }),
    });
    const text = await response.text();
    return { status: response.status, body: (text === "" ? null : JSON.parse(text)) as never };
  };
  const join = async (worker: string, more: object = {}): Promise<string> => {
    const joined = await ask("POST", "/v1/sessions", { worker, queues: ["mail"], lease: "10s", ...more });
    expect(joined).toMatchObject({ status: 201, body: { lease: 10_000 } });
    return `/v1/sessions/${(joined.body as { session: string }).session}`;
  };
  const claims = async (session: string, body: object = {}): Promise<HttpClaim[]> => {
    const answer = await ask("POST", `${session}/claims`, body);
    return (answer.body as { claims: HttpClaim[] }).claims;
  };
  const add = async (...data: unknown[]): Promise<string[]> => {
    const added = await store.add(data.map((each) => ({ queue: "mail", data: JSON.stringify(each) })));
    return added.map(({ id }) => id);
  };
  return { clock, store, ask, join, claims, add };
}

interface HttpClaim {
  id: string;
  fence: number;
  lease: number;
  leaseEndsAt: number;
}

describe("a worker that joins over HTTP", () => {
  test("a worker over HTTP is listed until it leaves, and then its claims are released", async () => {
    const { ask, join, claims, add, store } = await setUp();
    const [id] = await add(1);
    const session = await join("py", { concurrency: 3, host: "h", pid: 7 });
    expect(await ask("GET", "/v1/workers")).toMatchObject({
      body: { workers: [{ name: "py", queues: ["mail"], concurrency: 3, host: "h", pid: 7, claims: 0 }] },
    });
    expect(await claims(session)).toMatchObject([{ id, lease: 10_000, leaseEndsAt: expect.any(Number) }]);
    expect(await ask("DELETE", session)).toMatchObject({ status: 204 });
    expect((await store.task(id!)).state).toBe("ready");
    expect(await ask("GET", "/v1/workers")).toMatchObject({ body: { workers: [] } });
    expect(await ask("POST", `${session}/heartbeat`)).toMatchObject({
      ...{ status: 409, body: { code: "CLAIM_LOST" } },
    });
  });

  test("a worker over HTTP keeps all its claims beyond the lease with one heartbeat", async () => {
    const { clock, ask, join, claims, add, store } = await setUp();
    const ids = await add(1, 2, 3);
    const session = await join("py");
    expect(await claims(session, { max: 10 })).toHaveLength(3);
    for (let beat = 0; beat < 6; beat++) {
      await clock.advance(6_000);
      expect(await ask("POST", `${session}/heartbeat`)).toMatchObject({ status: 200, body: { notices: [] } });
    }
    for (const id of ids) expect((await store.task(id)).state).toBe("claimed");
  });

  test("a worker over HTTP without a heartbeat for its lease is given up, and its claims count as lost", async () => {
    const { clock, join, claims, add, store } = await setUp();
    const [id] = await add(1);
    const session = await join("py");
    await claims(session);
    await clock.advance(10_000);
    await expect.poll(async () => (await store.history(id!)).map(({ outcome }) => outcome)).toEqual(["lost"]);
    expect((await store.workers()).items).toEqual([]);
  });

  test("a worker over HTTP learns of a cancel and of a timeout with its heartbeat", async () => {
    const { clock, ask, join, claims, add, store } = await setUp();
    await store.declare("mail", { timeout: 8_000 });
    const [first, second] = await add(1, 2);
    const session = await join("py");
    const held = await claims(session, { max: 2 });
    await store.cancel(first!);
    await clock.advance(4_000);
    expect(await ask("POST", `${session}/heartbeat`)).toMatchObject({
      body: { notices: [{ kind: "cancel", id: first, fence: held[0]!.fence }] },
    });
    await clock.advance(4_000);
    await clock.advance(4_000);
    const { body } = await ask("POST", `${session}/heartbeat`);
    expect((body as { notices: object[] }).notices).toContainEqual({
      ...{ kind: "timeout", id: second, fence: held[1]!.fence },
    });
  });

  test("a task that a worker over HTTP failed goes to another worker first", async () => {
    const { ask, join, claims, add, store } = await setUp();
    await store.declare("mail", { elsewhere: 60_000 });
    const [id] = await add(1);
    const one = await join("one");
    const two = await join("two");
    const [held] = await claims(one);
    const failed = { error: { message: "no" }, delay: 0 };
    await ask("POST", `/v1/claims/${id}/${held!.fence}/nack`, failed);
    expect(await claims(one)).toEqual([]);
    expect(await claims(two)).toMatchObject([{ id }]);
  });

  test("claims that two lists of a worker over HTTP do not name are released", async () => {
    const { ask, join, claims, add, store } = await setUp();
    const ids = await add(1, 2);
    const session = await join("py");
    const [kept] = await claims(session, { max: 2 });
    const list = { claims: [{ id: kept!.id, fence: kept!.fence }] };
    await ask("POST", `${session}/heartbeat`, list);
    expect((await store.task(ids[1]!)).state).toBe("claimed");
    await ask("POST", `${session}/heartbeat`, list);
    expect((await store.task(ids[1]!)).state).toBe("ready");
    expect((await store.task(ids[0]!)).state).toBe("claimed");
  });
});

describe("settling over HTTP", () => {
  test("each of many settlements over HTTP has its own outcome", async () => {
    const { ask, join, claims, add, store } = await setUp();
    const ids = await add(1, 2, 3, 4, 5);
    const session = await join("py");
    const held = await claims(session, { max: 5 });
    const ref = (at: number) => ({ id: held[at]!.id, fence: held[at]!.fence });
    const { status, body } = await ask("POST", "/v1/settlements", {
      settlements: [
        { kind: "ack", ...ref(0), result: { ok: true } },
        { kind: "nack", ...ref(1), error: { message: "no" }, delay: "1m" },
        { kind: "reject", ...ref(2), error: { message: "never" } },
        { kind: "release", ...ref(3) },
        { kind: "park", ...ref(4), signal: "go" },
        { kind: "ack", ...ref(0) },
      ],
    });
    expect(status).toBe(200);
    const { outcomes } = body as { outcomes: object[] };
    expect(outcomes).toMatchObject([
      { ...ref(0), state: "done" },
      { ...ref(1), state: "scheduled" },
      { ...ref(2), state: "dead" },
      { ...ref(3), state: "ready" },
      { ...ref(4), state: "parked" },
      { ...ref(0), problem: { code: "CLAIM_LOST", status: 409 } },
    ]);
    const states = await Promise.all(ids.map(async (id) => (await store.task(id)).state));
    expect(states).toEqual(["done", "scheduled", "dead", "ready", "parked"]);
  });

  test("a settlement of the wrong shape makes its request a bad request", async () => {
    const { ask } = await setUp();
    for (const each of [{ kind: "eat", id: "x", fence: 1 }, { kind: "nack", id: "x", fence: 1 }, {}])
      expect(await ask("POST", "/v1/settlements", { settlements: [each] })).toMatchObject({
        ...{ status: 400, body: { code: "INVALID" } },
      });
  });
});

describe("a manual claim over HTTP", () => {
  test("a manual claim over HTTP says when its lease ends", async () => {
    const { clock, ask, add } = await setUp();
    await add(1, 2);
    const claim = async (body: object): Promise<HttpClaim> => {
      const answer = await ask("POST", "/v1/queues/mail/claims", body);
      return (answer.body as { claims: HttpClaim[] }).claims[0]!;
    };
    const { wall } = clock.read();
    const first = await claim({ lease: "5s" });
    expect(first).toMatchObject({ lease: 5_000, leaseEndsAt: wall + 5_000 });
    expect(await claim({})).toMatchObject({ lease: 30_000, leaseEndsAt: wall + 30_000 });
    const path = `/v1/claims/${first.id}/${first.fence}`;
    expect(await ask("POST", `${path}/extend`, { lease: "1m" })).toMatchObject({
      ...{ status: 200, body: { cancelRequested: false, leaseEndsAt: wall + 60_000 } },
    });
    await ask("POST", `/v1/tasks/${first.id}/cancel`);
    expect(await ask("POST", `${path}/progress`, { value: 0.5 })).toMatchObject({
      body: { cancelRequested: true },
    });
  });
});
