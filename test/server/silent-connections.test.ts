// However a connection ends, its slot is free soon after, whatever its client does or does not do.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { connect as connectSecurely } from "node:tls";
import { describe, expect, onTestFinished, test } from "vitest";
import { openPort } from "../../src/api/open.ts";
import type { Port } from "../../src/core/port.ts";
import type { Server } from "../../src/server/server.ts";
import type { ServerOptions } from "../../src/server/options.ts";
import { makeCertificate } from "./certificate.ts";
import { startServer } from "./start.ts";

const SHORT_MS = 150;

const TIMEOUTS: Partial<ServerOptions> = {
  ...{ headersMs: SHORT_MS, requestMs: SHORT_MS, readMs: SHORT_MS, farewellMs: SHORT_MS },
  native: { helloMs: SHORT_MS, farewellMs: SHORT_MS },
};

async function setUp(options: Partial<ServerOptions> = {}, change = (store: Port): Port => store) {
  const store = await openPort(":memory:", {});
  const server = await startServer(change(store), { ...TIMEOUTS, ...options });
  onTestFinished(async () => {
    await server.close();
    await store.close();
  });
  return { server, store };
}

/** A connection that its client never ends, not even when the server has ended its side. */
async function dial(server: Server, ...first: (string | Buffer)[]): Promise<Socket> {
  const before = server.connections;
  const socket = connect({ port: Number(new URL(server.url).port), host: "127.0.0.1", allowHalfOpen: true });
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  await once(socket, "connect");
  await areOpen(server, before + 1);
  for (const part of first) socket.write(part);
  return socket;
}

async function areOpen(server: Server, count: number): Promise<void> {
  while (server.connections < count) await new Promise((resolve) => setImmediate(resolve));
}

/** Waits until the server has freed all slots except `left`. Sends nothing meanwhile: that could end connections. */
async function areFreed(server: Server, left = 0): Promise<void> {
  while (server.connections > left) await new Promise((resolve) => setTimeout(resolve, 10));
}

async function isAlive({ url }: Server): Promise<number> {
  return (await fetch(`${url}/healthz`, { headers: { connection: "close" } })).status;
}

/** Makes one request, and keeps the connection. */
async function askOnce(server: Server): Promise<Socket> {
  const socket = await dial(server, "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n");
  await once(socket, "data");
  return socket;
}

/** With these limits no client is cut off for being slow. */
const LONG: Partial<ServerOptions> = { headersMs: 60_000, requestMs: 60_000, readMs: 60_000 };

const UPGRADE =
  "GET /v1/connect HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: websocket\r\n" +
  "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

const POST = "POST /v1/queues/q/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n";

/** A masked WebSocket text frame; the mask is zero. */
function textFrame(text: string): Buffer {
  const body = Buffer.from(text);
  return Buffer.concat([Buffer.from([0x81, 0x80 | body.length, 0, 0, 0, 0]), body]);
}

const HELLO = textFrame('{"hello":{"versions":[1],"client":"test"}}');

const SILENT: [name: string, ...first: (string | Buffer)[]][] = [
  ["sends nothing"],
  ["never ends its headers", "GET /healthz HTTP/1.1\r\nhost: localhost\r\n"],
  [
    "never ends its body",
    "POST /v1/queues/q/tasks HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{",
  ],
  ["sends what is not HTTP", "hello\r\n\r\n"],
  ["is refused an upgrade", UPGRADE.replace("/v1/connect", "/elsewhere")],
  ["sends no hello", UPGRADE],
  ["is refused for its hello", UPGRADE, textFrame("{}")],
  ["is refused for its version", UPGRADE, textFrame('{"hello":{"versions":[99]}}')],
  ["sends no frame of the protocol", UPGRADE, HELLO, textFrame("[]")],
  [
    "asks for the connection to close",
    "GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
  ],
];

describe("a client that never closes its connection", () => {
  test.each(SILENT)(
    "a client that never closes its connection is cut off when it %s",
    async (_, ...first) => {
      const { server } = await setUp();
      const socket = await dial(server, ...first);
      socket.resume();
      await areFreed(server);
    },
  );

  test("a client that does not finish the TLS handshake is cut off", async () => {
    const { server } = await setUp({ tls: await makeCertificate() });
    await dial(server, Buffer.from([0x16, 0x03, 0x01]));
    await areFreed(server);
  });

  test("a client that finishes the TLS handshake and sends nothing is cut off", async () => {
    const { server } = await setUp({ tls: await makeCertificate() });
    const socket = await dial(server);
    const secure = connectSecurely({ socket, rejectUnauthorized: false });
    secure.on("error", () => {});
    await once(secure, "secureConnect");
    secure.resume();
    await areFreed(server);
  });

  test("a client that reads none of a long answer, and has ended its own side, is cut off", async () => {
    const { server, store } = await setUp();
    const data = JSON.stringify("x".repeat(200_000));
    await store.add(Array.from({ length: 200 }, () => ({ queue: "q", data })));
    const path = "/v1/queues/q/tasks?state=ready&limit=200";
    const socket = await dial(server, `GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`);
    await once(socket, "readable");
    socket.end();
    await areFreed(server);
  });

  test("a client that listens to the events and reads none is cut off", async () => {
    const { server, store } = await setUp();
    const socket = await dial(server, "GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n");
    await once(socket, "readable");
    const queue = "q".repeat(128);
    const adding = setInterval(() => {
      void store.add(Array.from({ length: 1_000 }, () => ({ queue, data: "1" }))).catch(() => {});
    }, 5);
    onTestFinished(() => clearInterval(adding));
    await areFreed(server);
  });

  test.each([
    ["TCP", async () => ({})],
    ["TLS", async () => ({ tls: await makeCertificate() })],
  ])("a client that listens to the events over %s and reads none is reset", async (_, options) => {
    const { server, store } = await setUp(await options());
    const tcp = await dial(server);
    const socket = server.url.startsWith("https")
      ? connectSecurely({ socket: tcp, rejectUnauthorized: false })
      : tcp;
    const failed = once(socket, "error").catch((error: unknown) => [error]);
    socket.write("GET /v1/events HTTP/1.1\r\nhost: localhost\r\n\r\n");
    await once(socket, "readable");
    tcp.pause();
    const adding = setInterval(() => {
      const queue = "q".repeat(128);
      void store.add(Array.from({ length: 1_000 }, () => ({ queue, data: "1" }))).catch(() => {});
    }, 5);
    onTestFinished(() => clearInterval(adding));
    await areFreed(server);
    // What it had received before is still there.
    socket.resume();
    expect((await failed)[0]).toMatchObject({ code: "ECONNRESET" });
  });

  test("a client that reads none of its answers on a WebSocket, and keeps calling, is cut off", async () => {
    const { server, store } = await setUp({ native: { ...TIMEOUTS.native, beatMs: 60_000 } });
    const data = JSON.stringify("x".repeat(200_000));
    const tasks = await store.add(Array.from({ length: 200 }, () => ({ queue: "q", data })));
    const calls = tasks.map(
      ({ id }, n) => `{"seq":${n + 1},"ack":0,"items":[["call",${n},"task",["${id}"]]]}`,
    );
    const socket = await dial(server, UPGRADE, HELLO, ...calls.map(textFrame));
    await once(socket, "readable");
    const asking = setInterval(() => socket.write(textFrame('{"ack":0}')), 20);
    onTestFinished(() => clearInterval(asking));
    await areFreed(server);
  });
});

describe("a server at its limit of connections", () => {
  test("at the limit, a new connection replaces a client that has sent nothing", async () => {
    const { server } = await setUp({ ...LONG, maxConnections: 100 });
    const silent = await Promise.all(Array.from({ length: 100 }, () => dial(server)));
    await areOpen(server, 100);
    expect(await isAlive(server)).toBe(200);
    await areFreed(server, 99);
    expect(silent.map(({ readableEnded }) => readableEnded)).toEqual([
      true,
      ...silent.slice(1).map(() => false),
    ]);
  });

  test("at the limit, a new connection replaces a client between two requests", async () => {
    const { server } = await setUp({ ...LONG, maxConnections: 2 });
    const clients = [await askOnce(server), await askOnce(server)];
    expect(await isAlive(server)).toBe(200);
    await areFreed(server, 1);
    expect(clients.map(({ readableEnded }) => readableEnded)).toEqual([true, false]);
  });

  test("at the limit, a new connection replaces a client whose body has not arrived", async () => {
    const { server } = await setUp({ ...LONG, maxConnections: 10 });
    const silent = [];
    for (let i = 0; i < 10; i++) {
      const socket = await dial(server, `${POST}content-length: 100\r\nexpect: 100-continue\r\n\r\n`);
      // The server has its headers.
      await once(socket, "data");
      silent.push(socket);
    }
    expect(await isAlive(server)).toBe(200);
    await areFreed(server, 9);
    expect(silent.map(({ readableEnded }) => readableEnded)).toEqual([
      true,
      ...silent.slice(1).map(() => false),
    ]);
  });

  test("at the limit, a client whose request is being executed is not replaced", async () => {
    const claiming = Promise.withResolvers<void>();
    const { server, store } = await setUp({ ...LONG, maxConnections: 1 }, (port) => ({
      ...port,
      claim: (call) => {
        claiming.resolve();
        return port.claim(call);
      },
    }));
    const body = '{"wait":60000}';
    const head = POST.replace("tasks", "claims");
    const socket = await dial(server, `${head}content-length: ${body.length}\r\n\r\n${body}`);
    await claiming.promise;
    await expect(isAlive(server)).rejects.toThrow();
    await store.add([{ queue: "q", data: "1" }]);
    expect(String((await once(socket, "data"))[0])).toContain("200 OK");
  });

  test("at the limit, a new connection is served once silent clients are cut off", async () => {
    // The last one is admitted before the first is cut off, also on a busy machine.
    const native = { helloMs: 3_000, farewellMs: SHORT_MS };
    const { server } = await setUp({ ...LONG, maxConnections: 10, native });
    const silent = await Promise.all(Array.from({ length: 10 }, () => dial(server, UPGRADE)));
    await Promise.all(silent.map((socket) => once(socket, "readable")));
    await expect(isAlive(server)).rejects.toThrow();
    await areFreed(server);
    expect(await isAlive(server)).toBe(200);
  });
});
