// A client that does not read its answers must not cost more than a buffer, nor stay forever.

import { once } from "node:events";
import { get, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { openPort } from "../../src/api/open.ts";
import type { EventPage } from "../../src/core/event/event-page.ts";
import type { DibsEvent } from "../../src/core/event/events.ts";
import type { Port } from "../../src/core/port.ts";
import { BOUNDS } from "../../src/engine/bounds.ts";
import type { ServerOptions } from "../../src/server/options.ts";
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

/** Follows the events, and reads nothing of them yet. */
async function follow(url: string): Promise<IncomingMessage> {
  const request = get(`${url}/v1/events`);
  onTestFinished(() => void request.destroy());
  request.on("error", () => {});
  const [answer] = (await once(request, "response")) as [IncomingMessage];
  return answer.setEncoding("utf8");
}

/** The events that an answer still brings, up to the first of a type, or to its end. */
async function readToEnd(
  answer: IncomingMessage,
  last?: DibsEvent["type"],
): Promise<{ events: DibsEvent[] }> {
  const events: DibsEvent[] = [];
  let rest = "";
  try {
    for await (const part of answer) {
      const records = (rest + part).split("\n\n");
      rest = records.pop()!;
      for (const record of records) {
        const data = record.split("\n").find((line) => line.startsWith("data: "));
        if (data !== undefined) events.push(JSON.parse(data.slice("data: ".length)) as DibsEvent);
      }
      if (last !== undefined && events.some(({ type }) => type === last)) break;
    }
  } catch (error) {
    // The connection was cut.
    expect((error as NodeJS.ErrnoException).code).toBe("ECONNRESET");
  }
  return { events };
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

  test("a reader of events that was cut off can tell that its answer is incomplete", async () => {
    const { store, server, isOver } = await setUp({ readMs: 300 });
    const answer = await follow(server.url);
    const queue = "q".repeat(128);
    while (!isOver()) {
      await store.add(tasksOf(queue, 1_000));
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    const { events } = await readToEnd(answer);
    // Whatever had arrived by then is whole, and the answer is not.
    for (const { type } of events) expect(type).toMatch(/^(queue.created|task.added|gap)$/);
    expect(answer.complete).toBe(false);
  });

  test("a reader of events that paused gets whole events afterwards, and the number of missed ones", async () => {
    const { store, server, taken } = await setUp({});
    await store.declare("q", {});
    const answer = await follow(server.url);
    let added = 0;
    // More than the kernel's buffers take, so that some have to wait.
    while (added - taken() < 2 * BOUNDS.events) {
      await store.add(tasksOf("q", 5_000));
      added += 5_000;
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await store.pause("q", true);
    const { events } = await readToEnd(answer, "queue.paused");
    const missed = events.reduce((sum, event) => sum + (event.type === "gap" ? event.missed : 0), 0);
    const told = events.filter(({ type }) => type === "task.added");
    expect(told.length + missed).toBe(added);
    const ids = told.map((event) => "taskId" in event && event.taskId);
    expect(new Set(ids).size).toBe(ids.length);
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
