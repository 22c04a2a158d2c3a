// A client that does not read its answers must not cost more than a buffer, nor stay forever.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { openPort } from "../../src/api/open.ts";
import type { EventPage } from "../../src/core/event-page.ts";
import type { Port } from "../../src/core/port.ts";
import type { ServerOptions } from "../../src/server/server.ts";
import { startServer } from "./start.ts";

async function setUp(options: Partial<ServerOptions>) {
  const store = await openPort(":memory:", {});
  let [taken, isOver] = [0, false];
  /** Counts the events that were taken over. */
  const counted: Port = {
    ...store,
    async *events(signal): AsyncGenerator<EventPage, void, void> {
      try {
        for await (const page of store.events(signal)) {
          taken += page.events.length;
          yield page;
        }
      } finally {
        isOver = true;
      }
    },
  };
  const server = await startServer(counted, options);
  onTestFinished(async () => {
    await server.close();
    await store.close();
  });
  return { store, server, taken: () => taken, isOver: () => isOver };
}

/** Makes a request and reads the headers of the answer. From then on it reads nothing. */
async function askAndSleep(url: string, path: string): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  socket.on("error", () => {});
  socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\n\r\n`);
  await once(socket, "readable");
  return socket;
}

/** A cut connection is noticed by reading or by writing. */
async function isCut(socket: Socket): Promise<void> {
  const closed = once(socket, "close");
  socket.resume();
  await closed;
}

const tasksOf = (queue: string, count: number, data = "1") =>
  Array.from({ length: count }, () => ({ queue, data }));

describe("readers that read nothing", () => {
  test("a reader of events that reads nothing gets no more, and is cut off", async () => {
    const { store, server, taken, isOver } = await setUp({ readMs: 300 });
    await askAndSleep(server.url, "/v1/events");
    const queue = "q".repeat(128);
    let added = 0;
    // The kernel's buffers take some thousands. Later events stay in the store, not here.
    while (!isOver()) {
      await store.add(tasksOf(queue, 1_000));
      added += 1_000;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    expect(taken()).toBeLessThan(added);
  });

  test("an idle stream of events gets keep-alive comments", async () => {
    const { server } = await setUp({ readMs: 300 });
    const answer = await fetch(`${server.url}/v1/events`);
    const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
    let heard = "";
    while (!heard.endsWith(":\n\n:\n\n")) heard += (await reader.read()).value!;
    expect(heard).toMatch(/^: listening\n\n/);
    await reader.cancel();
  });

  test("a client that reads no pongs does not get them without end", async () => {
    const { server } = await setUp({});
    const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    socket.write(
      "GET /v1/connect HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: websocket\r\n" +
        "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    await once(socket, "readable");
    // Masked with zeros, and as long as a ping may be.
    const ping = Buffer.concat([Buffer.from([0x89, 0x80 | 125, 0, 0, 0, 0]), Buffer.alloc(125)]);
    const pings = Buffer.concat(Array.from({ length: 10_000 }, () => ping));
    for (let sent = 0; sent < 20; sent++) if (!socket.write(pings)) await once(socket, "drain");
    const hello = Buffer.from('{"hello":{"versions":[1],"client":"test"}}');
    socket.write(Buffer.concat([Buffer.from([0x81, 0x80 | hello.length, 0, 0, 0, 0]), hello]));
    let [bytes, tail] = [0, ""];
    const welcomed = new Promise<void>((resolve) => {
      socket.on("data", (part: Buffer) => {
        bytes += part.length;
        tail = tail.slice(-20) + part.toString("latin1");
        if (tail.includes("welcome")) resolve();
      });
    });
    await welcomed;
    // What the kernel's buffers took, and little more.
    expect(bytes).toBeLessThan((20 * pings.length) / 2);
  });

  test("a client that does not read a long answer is cut off", async () => {
    const { store, server } = await setUp({ readMs: 300 });
    // One row may be larger than a page usually is, and than the kernel's buffers.
    await store.declare("q", { maxPayload: 64 * 1024 * 1024 });
    await store.add(tasksOf("q", 1, JSON.stringify("x".repeat(40_000_000))));
    const socket = await askAndSleep(server.url, "/v1/queues/q/tasks?state=ready&payloads=full");
    await new Promise((resolve) => setTimeout(resolve, 600));
    let bytes = 0;
    socket.on("data", (part: Buffer) => (bytes += part.length));
    await isCut(socket);
    expect(bytes).toBeLessThan(40_000_000);
  });
});
