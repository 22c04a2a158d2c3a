// A client that is gone, or that asked for headers only, must leave nothing in the server's memory.

import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test, vi } from "vitest";
import { openPort } from "../../src/api/open.ts";
import { cutSlowReader } from "../../src/server/send.ts";
import { startServer } from "./start.ts";

test("HEAD of the event stream opens no reader of events", async () => {
  const store = await openPort(":memory:", {});
  const events = vi.fn((signal: AbortSignal) => store.events(signal));
  const server = await startServer({ ...store, events });
  onTestFinished(async () => {
    await server.close();
    await store.close();
  });
  const answer = await fetch(`${server.url}/v1/events`, { method: "HEAD" });
  expect(answer.status).toBe(200);
  expect(answer.headers.get("content-type")).toBe("text/event-stream");
  expect(events).not.toHaveBeenCalled();
});

test("an answer that is written after its client left starts no timer, which would keep it in memory", async () => {
  const http = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void http.close());
  await once(http, "listening");
  const sent = request({ port: (http.address() as AddressInfo).port });
  sent.on("error", () => {});
  sent.end();
  const [, response] = (await once(http, "request")) as [IncomingMessage, ServerResponse];
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  cutSlowReader(response, 30_000);
  const closed = once(response, "close");
  sent.destroy();
  await closed;
  const timers = vi.getTimerCount();
  const prefinished = once(response, "prefinish");
  response.end("too late");
  await prefinished;
  expect(vi.getTimerCount()).toBe(timers);
});
