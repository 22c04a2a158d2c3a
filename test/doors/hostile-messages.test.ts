// Messages with hostile objects, and unexpected exceptions. An exception that leaves a handler would end the server's
// process; here it would end the test run.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { WebSocket } from "ws";
import { openPort } from "../../src/api/open.ts";
import { AnswerBudget } from "../../src/core/answer/answer-budget.ts";
import { SILENT } from "../../src/core/process/logger.ts";
import type { Port } from "../../src/core/port.ts";
import { NativeDoor } from "../../src/doors/native/door.ts";
import { systemClock } from "../../src/engine/system-clock.ts";
import { CLOSE, PATH } from "../../src/protocol/messages.ts";
import { startServer } from "../server/start.ts";

/** Objects whose properties hide those that every object has. JSON can carry all of them. */
const LIARS: [string, string][] = [
  ["toString", '{"toString":1}'],
  ["toString and valueOf", '{"toString":1,"valueOf":1}'],
  ["the name of its class", '{"constructor":{"name":{"toString":1}}}'],
  ["its constructor", '{"constructor":null}'],
  ["toJSON and then", '{"toJSON":{"toString":1},"then":{"toString":1}}'],
  ["its length", '{"length":1e9,"toString":1}'],
  ["its length by another such object", '{"length":{"toString":1}}'],
  ["its prototype", '{"__proto__":{"toString":1},"toString":null}'],
];

async function setUp(change: (store: Port) => Port = (store) => store) {
  const store = await openPort(":memory:", {});
  const errors: string[] = [];
  const logger = { ...SILENT, error: (message: string) => void errors.push(message) };
  const server = await startServer(change(store), { logger });
  onTestFinished(async () => {
    await server.close();
    await store.close();
  });
  return { store, server, errors };
}

/** A hand-written client: records what it gets until its connection is closed. */
async function connect(url: string) {
  const socket = new WebSocket(url.replace("http", "ws") + PATH);
  const told: string[] = [];
  const waiting: (() => void)[] = [];
  const wake = (): void => waiting.splice(0).forEach((each) => each());
  const closed = new Promise<number>((resolve) => socket.on("close", resolve));
  let isClosed = false;
  socket.on("message", (data) => {
    told.push((data as Buffer).toString());
    wake();
  });
  socket.on("close", () => {
    isClosed = true;
    wake();
  });
  onTestFinished(() => socket.terminate());
  await new Promise((resolve) => socket.on("open", resolve));
  return {
    send: (text: string) => socket.send(text),
    /** The first message that contains these words. */
    async hear(words: string): Promise<string> {
      for (;;) {
        const found = told.find((text) => text.includes(words));
        if (found !== undefined) return found;
        if (isClosed) throw new Error(`Closed; told ${told.join("\n")}`);
        await new Promise<void>((resolve) => waiting.push(resolve));
      }
    },
    /** The code with which its connection was closed. */
    end: () => closed,
  };
}

const HELLO = '{"hello":{"versions":[1],"client":"x"}}';

test.each(LIARS)("a hello with an object that overrides %s is refused", async (_, liar) => {
  const { server, errors } = await setUp();
  const client = await connect(server.url);
  client.send(`{"hello":{"versions":[${liar},"x"],"client":${liar}}}`);
  expect(await client.hear("refused")).toContain("UNSUPPORTED");
  expect(await client.end()).toBe(CLOSE.protocol);
  expect(errors).toEqual([]);
});

test.each(LIARS)("calls with an object that overrides %s are answered with errors", async (_, liar) => {
  const { server, errors } = await setUp();
  const client = await connect(server.url);
  client.send(HELLO);
  const calls = [
    `["call",1,${liar},[]]`,
    `["call",2,"add",${liar}]`,
    `["call",3,"add",[[{"queue":${liar},"data":"1"}]]]`,
    `["call",4,"declare",["q",{"lease":${liar}}]]`,
    `["call",5,"rejoin",[${liar},${liar},${liar}]]`,
    `["call",6,"end",[${liar},{"of":"runs"}]]`,
    `["call",7,"publish",[{"topic":${liar},"data":"1"}]]`,
    `["call",8,"definePipeline",[${liar},[{"name":${liar}}]]]`,
    `["call",9,"schedule",[${liar},{"task":{"queue":${liar},"data":"1"},"every":${liar}}]]`,
  ];
  client.send(`{"seq":1,"ack":0,"items":[${calls.join(",")}]}`);
  for (let id = 1; id <= calls.length; id++)
    expect(await client.hear(`["error",${id},`)).toMatch(/INVALID|UNSUPPORTED|CLAIM_LOST/);
  expect(errors).toEqual([]);
});

test.each(LIARS)("a policy with an object that overrides %s is a bad request over HTTP", async (_, liar) => {
  const { server, errors } = await setUp();
  for (const policy of [`{"lease":${liar}}`, `{"backoff":${liar}}`, `{"rateLimit":[${liar}]}`, liar]) {
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${server.url}/v1/queues/q`, { method: "PUT", body: policy, headers });
    expect(response.status).toBe(400);
  }
  expect(errors).toEqual([]);
});

test.each(LIARS)("bodies with an object that overrides %s are bad requests over HTTP", async (_, liar) => {
  const { server, errors } = await setUp();
  const id = "01980000-0000-7000-8000-000000000000";
  const bodies: [method: string, path: string, body: string][] = [
    ["POST", "/v1/queues/q/batches", `{"tasks":${liar}}`],
    ["POST", "/v1/queues/q/tasks", `{"data":1,"groupKey":${liar}}`],
    ["POST", "/v1/queues/q/claims", `{"worker":${liar}}`],
    ["POST", "/v1/queues/q/dead/redrive", `{"ids":${liar}}`],
    ["PUT", "/v1/pipelines/p", `{"stages":${liar}}`],
    ["POST", `/v1/claims/${id}/1/nack`, `{"error":{"message":${liar}}}`],
    ["POST", `/v1/claims/${id}/1/refuse`, `{"feedback":${liar}}`],
  ];
  const headers = { "content-type": "application/json" };
  for (const [method, path, body] of bodies) {
    const response = await fetch(server.url + path, { method, body, headers });
    expect({ path, status: response.status }).toEqual({ path, status: 400 });
    expect(await response.json()).toMatchObject({ code: "INVALID" });
  }
  expect(errors).toEqual([]);
});

test("an exception while a message is handled closes that connection and no other", async () => {
  const events: Port["events"] = () => {
    throw new Error("unexpected failure");
  };
  const { server, errors } = await setUp((store) => ({ ...store, events }));
  const [other, client] = await Promise.all([connect(server.url), connect(server.url)]);
  other.send(HELLO);
  client.send(HELLO);
  await client.hear("welcome");
  client.send(`{"seq":1,"ack":0,"items":[["listen",1]]}`);
  expect(await client.end()).toBe(CLOSE.failed);
  expect(errors).toEqual([expect.stringContaining("unexpected failure")]);
  other.send(`{"seq":1,"ack":0,"items":[["call",1,"queues",[]]]}`);
  expect(await other.hear('["ok",1')).toContain("[]");
});

test("an exception while a hello is handled closes that connection", async () => {
  const store = await openPort(":memory:", {});
  const errors: string[] = [];
  const logger = { ...SILENT, error: (message: string) => void errors.push(message) };
  const budget = new AnswerBudget();
  budget.client = () => {
    throw new Error("unexpected failure");
  };
  const door = new NativeDoor({ clock: systemClock, logger, budget });
  const http = createServer();
  const admitted = { port: store, owner: "ada", ticketOf: () => "" };
  http.on("upgrade", (request, socket, head) => door.accept(request, socket, head, admitted));
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    door.close();
    http.close();
    await store.close();
  });
  const client = await connect(`http://127.0.0.1:${(http.address() as AddressInfo).port}`);
  client.send(HELLO);
  expect(await client.end()).toBe(CLOSE.failed);
  expect(errors).toEqual([expect.stringContaining("unexpected failure")]);
});

test("a call that rejects with a value that is not an error is refused", async () => {
  // oxlint-disable-next-line prefer-promise-reject-errors -- what a broken store might do
  const queues: Port["queues"] = () => Promise.reject(undefined);
  const { server } = await setUp((store) => ({ ...store, queues }));
  const client = await connect(server.url);
  client.send(HELLO);
  client.send(`{"seq":1,"ack":0,"items":[["call",1,"queues",[]]]}`);
  expect(await client.hear('["error",1')).toContain("INVALID");
});
