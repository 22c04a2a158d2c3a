import type { ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { startTimer } from "../core/time/clock.ts";
import { headersOf, type Problem, problemOf } from "../doors/http/problem.ts";

/**
 * Cuts off a client that does not read its answer: the answer would stay in memory for as long as the connection lasts.
 */
export function cutSlowReader(response: ServerResponse, ms: number): void {
  response.once("prefinish", () => {
    // The client is gone: the timer would keep the answer in memory, and end nothing.
    if (response.closed) return;
    const stopTimer = startTimer(ms, () => response.destroy());
    response.once("close", stopTimer);
  });
}

export function sendProblem(response: ServerResponse, error: unknown): void {
  const problem = problemOf(error);
  send(response, problem.status, headersOf(problem), JSON.stringify(problem));
}

export function send(
  response: ServerResponse,
  status: number,
  headers: Record<string, string>,
  text: string,
): void {
  response.writeHead(status, {
    ...{ "cache-control": "no-store", "x-content-type-options": "nosniff", ...headers },
    "content-length": Buffer.byteLength(text),
  });
  response.end(response.req.method === "HEAD" ? undefined : text);
}

/** Answers before there is a response object. `Connections` destroys the socket if its client does not end it too. */
export function refuse(socket: Duplex, problem: Problem): void {
  if (!socket.writable) return void socket.destroy();
  const text = JSON.stringify(problem);
  const headers = {
    ...headersOf(problem),
    ...{ "content-length": Buffer.byteLength(text), connection: "close" },
  };
  const head = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  // Unread bytes would turn the end into a reset, and the client might lose this answer.
  socket.resume();
  socket.end(`HTTP/1.1 ${problem.status} Refused\r\n${head.join("")}\r\n${text}`);
}
