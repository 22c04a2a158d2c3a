import { join } from "node:path";
import { describe, expect } from "vitest";
import { PostgresServer, QUICK } from "../../postgres/server.ts";
import { fill, mountSmallDisk } from "../harness/disk.ts";
import { actsOf, test, until } from "../harness/stage.ts";
import { ServedStage } from "./served-stage.ts";

async function post(
  url: string,
  data: unknown,
): Promise<{ status: number; code?: string; retryable?: boolean }> {
  const answer = await fetch(`${url}/v1/queues/work/tasks`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ data }),
  });
  return { ...((await answer.json()) as object), status: answer.status };
}

const statusOf = async (url: string): Promise<number> => (await fetch(url)).status;

describe.concurrent("a server whose store is unavailable", () => {
  test("a server reports a full disk, and continues when there is room, without a restart", async ({
    stage,
    skip,
    expect,
  }) => {
    const disk = mountSmallDisk(stage, "8m");
    skip(disk === undefined, "needs the right to mount a small disk (root on Linux)");
    stage.file = join(disk!, "work.db");
    const served = await ServedStage.start(stage);
    stage.onEnd(() => served.program.kill());
    const url = stage.file;
    const worker = await stage.startWorker({ policy: { lease: "30s" }, work: { name: "w" } });
    const dibs = await stage.open();
    const queue = actsOf(dibs);
    const held = await queue.add({ do: "pass", gate: "room" });
    await worker.hears("start", ({ id }) => id === held.id);

    const makeRoom = fill(disk!);
    const value = "x".repeat(20_000);
    const acknowledged = [];
    let refusal: unknown;
    while (refusal === undefined) {
      try {
        acknowledged.push(await queue.add({ do: "echo", value }));
      } catch (error) {
        refusal = error;
      }
    }
    expect(refusal).toMatchObject({
      code: "UNAVAILABLE",
      retryable: true,
      message: expect.stringMatching(/no room/i),
    });
    expect(await post(url, { do: "echo", value })).toMatchObject({
      status: 503,
      code: "UNAVAILABLE",
      retryable: true,
    });
    // It can store nothing, but it can be read.
    expect(await statusOf(`${url}/healthz`)).toBe(200);
    expect((await queue.stats()).depth.claimed).toBe(1);
    worker.tell({ open: "room" });
    await worker.hears("warned", ({ message }) => /no room/i.test(String(message)));

    makeRoom();
    await until("there is room", async () => (await post(url, { do: "echo" })).status === 201);
    expect(await held.result({ timeout: "25s" })).toBe("room");
    await Promise.all(acknowledged.map((task) => task.result({ timeout: "25s" })));
    expect(await held.history()).toMatchObject([{ attempt: 1, outcome: "done" }]);
    expect(served.program.isRunning).toBe(true);
  });

  test("a server is not ready while PostgreSQL is down, and is ready again afterwards", async ({
    stage,
    expect,
  }) => {
    const postgres = await PostgresServer.start({ settings: QUICK });
    stage.onEnd(() => postgres.remove());
    stage.file = postgres.url;
    const served = await ServedStage.start(stage);
    const url = stage.file;
    const dibs = await stage.open();
    await actsOf(dibs).add({ do: "echo" });
    expect(await statusOf(`${url}/readyz`)).toBe(200);
    await postgres.stop("immediate");
    await until("it says so", async () => (await statusOf(`${url}/readyz`)) === 503);
    expect(await statusOf(`${url}/healthz`)).toBe(200);
    // Calls wait meanwhile, for as long as the store retries.
    const meanwhile = post(url, 1);
    await postgres.restart();
    await until("it is ready", async () => (await statusOf(`${url}/readyz`)) === 200);
    expect(await meanwhile).toMatchObject({ status: 201 });
    expect((await actsOf(dibs).stats()).depth.ready).toBe(2);
    expect(await actsOf(dibs).add({ do: "echo" })).toMatchObject({ existing: false });
    expect(served.program.isRunning).toBe(true);
  });
});

describe("what a server logs", () => {
  test("the log says who did what to which queue, and never contains a payload or a token", async ({
    stage,
  }) => {
    const store = stage.file;
    const { Tokens, tokensPathOf } = await import("../../../src/server/tokens.ts");
    const tokens = new Tokens(tokensPathOf({ url: store, tokens: null }));
    const { token } = tokens.add("ada", ["admin:*"]);
    // Also at the log level error: the audit log does not depend on it.
    const served = await ServedStage.start(stage, { logLevel: "error" });
    const loud = await ServedStage.start(Object.assign(stage, { file: store }), { logLevel: "debug" });
    const url = stage.file;
    const dibs = await stage.open({ token });
    const queue = dibs.queue("work", { maxAttempts: 1 });
    const SECRET = "s3cr3t-of-a-payload";
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    await queue.add({ SECRET }, { headers: { note: SECRET }, idempotencyKey: SECRET });
    const [claim] = await queue.claim();
    await claim!.reject(new Error(SECRET));
    await queue.pause();
    await fetch(`${url}/v1/queues/work/tasks`, { method: "POST", headers, body: `{"data":"${SECRET}",` });
    await fetch(`${url}/v1/queues/work/tasks`, { method: "POST", headers, body: `{"date":"${SECRET}"}` });
    await fetch(`${url}/v1/queues/work/claims`, { headers: { authorization: `Bearer dibs_${SECRET}` } });
    const socket = new WebSocket(`${url.replace("http", "ws")}/v1/connect`, { headers });
    await new Promise((resolve) => socket.addEventListener("open", resolve));
    socket.send('{"hello":{"versions":[1],"client":"test"}}');
    socket.send(
      `{"seq":1,"ack":0,"items":[["call",1,"add",["${SECRET}"]],["call",2,"claim",[null]],"${SECRET}"]}`,
    );
    socket.send(`{"${SECRET}`);
    await new Promise((resolve) => socket.addEventListener("close", resolve));
    await loud.program.stop();
    const audit = (text: string): object[] =>
      text
        .split("\n")
        .filter((line) => line.includes('"audit"'))
        .map((line) => (JSON.parse(line) as { audit: object }).audit);
    expect(audit(loud.program.stderr)).toEqual([
      { by: "ada", verb: "declare", queue: "work" },
      { by: "ada", verb: "pause", queue: "work" },
    ]);
    expect(loud.program.stderr).not.toContain(SECRET);
    expect(loud.program.stderr).not.toContain(token.slice("dibs_000000000000_".length));
    // The quiet server has its audit log too.
    const quiet = await stage.open.call(Object.assign(stage, { file: served.url }), { token });
    await quiet.queue("work").resume();
    await served.program.stop();
    expect(audit(served.program.stderr)).toEqual([{ by: "ada", verb: "resume", queue: "work" }]);
  });
});
