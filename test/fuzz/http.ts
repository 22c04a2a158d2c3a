import { Agent, request } from "node:http";
import { connect } from "node:net";
import { ERROR_CODES } from "../../src/core/errors/errors.ts";
import type { Random } from "../simulation/random.ts";
import type { Attack } from "./fuzz.ts";
import { anyBytes, anyValue, bend, scratch } from "./values.ts";

/** Valid requests. Durations are short, so that the test does not wait. */
const REQUESTS: readonly [method: string, path: string, body?: unknown][] = [
  [
    "POST",
    "/v1/queues/work/tasks",
    { data: { a: 1 }, priority: 1, headers: { a: "b" }, ttl: "1m", groupKey: "g" },
  ],
  ["POST", "/v1/queues/work/batches", { tasks: [{ data: 1 }, { data: null, delay: "1s", maxAttempts: 2 }] }],
  ["POST", "/v1/queues/work/claims", { max: 3, wait: 5, lease: "1s", worker: "w" }],
  ["POST", "/v1/claims/ID/1/ack", { result: { ok: true } }],
  ["POST", "/v1/claims/ID/1/nack", { error: { message: "no", stack: null }, delay: "1s" }],
  ["POST", "/v1/claims/ID/1/reject", { error: { name: "E", message: "no" } }],
  ["POST", "/v1/claims/ID/1/release"],
  ["POST", "/v1/claims/ID/1/extend", { lease: "10s" }],
  ["POST", "/v1/claims/ID/1/progress", { value: 0.5, note: "half" }],
  ["GET", "/v1/queues"],
  ["GET", "/v1/queues/work"],
  [
    "PUT",
    "/v1/queues/work",
    { lease: 1_000, maxAttempts: 3, backoff: { type: "fixed", delay: 1, max: 1, jitter: 0 } },
  ],
  ["DELETE", "/v1/queues/other"],
  ["POST", "/v1/queues/work/pause"],
  ["POST", "/v1/queues/work/resume"],
  ["POST", "/v1/queues/work/purge"],
  ["GET", "/v1/queues/work/tasks?state=ready&limit=10"],
  ["GET", "/v1/queues/work/dead/patterns?by=worker&limit=5"],
  ["POST", "/v1/queues/work/dead/redrive", { ids: ["ID"], spacing: 10 }],
  ["POST", "/v1/queues/work/dead/discard", { pattern: "x", error: "y" }],
  ["GET", "/v1/tasks/ID"],
  ["GET", "/v1/tasks/ID/history"],
  ["GET", "/v1/tasks/ID/result?timeout=5ms"],
  ["POST", "/v1/tasks/ID/cancel"],
  ["POST", "/v1/topics/order.placed/messages", { data: 1, idempotencyKey: "k" }],
  ["GET", "/v1/subscriptions?topic=order.placed"],
  ["PUT", "/v1/subscriptions/order.*/audit"],
  ["DELETE", "/v1/subscriptions/order.*/audit"],
  ["GET", "/v1/workers?queue=work"],
  ["GET", "/v1/workers"],
  ["GET", "/v1/subscriptions"],
  ["POST", "/v1/claims/ID/1/hold", { error: { message: "limit" }, delay: "1s" }],
  ["POST", "/v1/claims/ID/1/park", { signal: "s", timeout: "1s" }],
  ["PUT", "/v1/claims/ID/1/steps/s", { value: 1 }],
  ["POST", "/v1/claims/ID/1/accept"],
  ["POST", "/v1/claims/ID/1/refuse", { feedback: "no" }],
  ["GET", "/v1/verifying/ID/1"],
  ["GET", "/v1/tasks/ID/steps"],
  ["POST", "/v1/tasks/ID/signals/s", { data: 1 }],
  ["POST", "/v1/queues/work/unhold", { groupKey: "g" }],
  ["GET", "/v1/pipelines"],
  ["PUT", "/v1/pipelines/report", { stages: [{ name: "a", joins: false }, { name: "b" }] }],
  ["POST", "/v1/pipelines/report/runs", { data: 1 }],
  ["GET", "/v1/runs/ID"],
  ["GET", "/v1/runs/ID/result?timeout=5ms"],
  ["POST", "/v1/runs/ID/cancel"],
  ["GET", "/v1/schedules"],
  ["GET", "/v1/schedules/s"],
  ["PUT", "/v1/schedules/s", { queue: "work", every: "1h", data: 1 }],
  ["DELETE", "/v1/schedules/s"],
  ["POST", "/v1/schedules/s/pause"],
  ["POST", "/v1/schedules/s/fire"],
  ["GET", "/v1/pipelines/report/runs?limit=1"],
  ["GET", "/v1/queues?limit=1"],
  ["GET", "/v1/pools?limit=1"],
  ["GET", "/v1/pools/shared/decisions?limit=5"],
  ["GET", "/v1/alerts"],
  ["GET", "/v1/alerts/alerts/decisions"],
  ["GET", "/v1/events"],
  ["GET", "/metrics"],
  ["GET", "/readyz"],
  ["GET", "/openapi.json"],
];

const KNOWN_ID = "01980000-0000-7000-8000-000000000000";
const HEADERS = [
  "accept",
  "authorization",
  "idempotency-key",
  "origin",
  "traceparent",
  "x-forwarded-for",
  "expect",
  "cookie",
  "range",
  "host",
];
/** A client whose answer takes longer goes away, as clients do. */
const PATIENCE_MS = 250;

export interface Answer {
  status: number;
  type: string | undefined;
  body: string;
}

/** Well-formed HTTP with wrong paths, headers and bodies. */
export async function fuzzRequests(attack: Attack, count: number): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 });
  try {
    await Promise.all(Array.from({ length: count }, () => ask(attack, agent)));
  } finally {
    agent.destroy();
  }
  return count;
}

function ask(attack: Attack, agent: Agent): Promise<void> {
  const { url, random, token, watch: makeWatch } = attack;
  const [method, path, body] = random.pick(REQUESTS);
  const given = pathOf(attack, path);
  const text = body === undefined && random.chance(0.8) ? undefined : bodyOf(attack, body);
  const headers = { authorization: `Bearer ${token}`, ...headersOf(random, text) };
  const watch = makeWatch();
  watch.sent(`${given} ${text}`);
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const fail = (why: string): void =>
      reject(new Error(`${method} ${given} ${JSON.stringify(headers)} ${text?.slice(0, 500)}: ${why}`));
    let sent;
    try {
      const verb = random.chance(0.03) ? random.pick(["HEAD", "PATCH", "OPTIONS", "TRACE", "GET"]) : method;
      sent = request({ hostname, port, path: given, method: verb, headers, agent }, (response) => {
        let all = "";
        response.setEncoding("utf8").on("data", (part: string) => (all += part));
        // A stream of events has no end: its client goes away.
        if (response.headers["content-type"] === "text/event-stream")
          setTimeout(() => response.destroy(), PATIENCE_MS);
        response.on("close", () => {
          const leak = response.complete ? undefined : watch.leakIn(all);
          if (leak === undefined) resolve();
          else fail(`told ${leak}: ${all.slice(0, 500)}`);
        });
        response.on("end", () => {
          const answer = { status: response.statusCode!, type: response.headers["content-type"], body: all };
          const leak = watch.leakIn(all);
          const trouble =
            leak === undefined
              ? verb === "HEAD"
                ? undefined
                : troubleWith(answer)
              : `told ${leak}: ${all.slice(0, 500)}`;
          if (trouble === undefined) resolve();
          else fail(trouble);
        });
      });
    } catch {
      // Node's client cannot send it: the raw bytes below do.
      resolve();
      return;
    }
    sent.setTimeout(PATIENCE_MS, () => sent.destroy());
    sent.on("error", () => resolve());
    sent.end(text);
  });
}

/** What is wrong with an answer. It must be the requested answer, or a problem document. */
function troubleWith({ status, type, body }: Answer): string | undefined {
  if (status < 300) return undefined;
  if (status === 500 || status > 503) return `answered ${status} ${body}`;
  if (type !== "application/problem+json") return `answered ${status} as ${type}: ${body.slice(0, 300)}`;
  const problem = JSON.parse(body) as { status: number; code: never; detail: string; retryable: boolean };
  const isProper =
    problem.status === status &&
    ERROR_CODES.includes(problem.code) &&
    typeof problem.detail === "string" &&
    problem.detail !== "" &&
    typeof problem.retryable === "boolean";
  return isProper ? undefined : `is no problem document: ${body}`;
}

function pathOf({ random, canaries }: Attack, path: string): string {
  const id = random.weighted({ some: 4, foreign: 4, none: 1 });
  const known = path
    .replace("ID", { some: KNOWN_ID, foreign: random.pick(canaries.ids), none: "x" }[id])
    .replace("work", random.chance(0.2) ? canaries.queue : "work");
  if (!random.chance(0.3)) return known;
  const parts = known.split("/");
  const at = random.between(1, parts.length - 1);
  parts[at] = random.pick([
    "",
    "%",
    "%00",
    "%2F",
    "..",
    "a%20b",
    "%ff",
    "é",
    "__proto__",
    "9".repeat(30),
    "-1",
    "x".repeat(300),
    "?state=",
    "?limit=1e9&limit=2",
  ]);
  return encodeURI(parts.join("/")).replaceAll("%25", "%");
}

function bodyOf({ random, canaries }: Attack, body: unknown): string {
  const value = random.chance(0.15) ? anyValue(random) : bend(random, body ?? {});
  const text = (JSON.stringify(value) ?? "null").replace('"ID"', JSON.stringify(random.pick(canaries.ids)));
  return random.chance(0.2) ? scratch(random, text) : text;
}

function headersOf(random: Random, text: string | undefined): Record<string, string> {
  const headers: Record<string, string> = text === undefined ? {} : { "content-type": "application/json" };
  if (random.chance(0.05))
    headers["content-type"] = random.pick([
      "text/plain",
      "application/json; charset=utf-16",
      ";",
      "application/x-www-form-urlencoded",
    ]);
  if (random.chance(0.2))
    headers[random.pick(HEADERS)] = random.pick([
      "",
      "x",
      "*/*",
      "100-continue",
      "Bearer",
      "Bearer dibs_0_",
      "null",
      "http://evil.example",
      "é",
      "x".repeat(3_000),
      "00-0-0-0",
    ]);
  if (text !== undefined && random.chance(0.03)) headers["transfer-encoding"] = "chunked";
  return headers;
}

const BASES = REQUESTS.map(([method, path, body]) => {
  const text = body === undefined ? "" : JSON.stringify(body);
  return `${method} ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\nConnection: close\r\n\r\n${text}`;
});

/** Bytes that are almost HTTP, each on its own connection. */
export async function fuzzBytes({ url, random, watch: makeWatch }: Attack, count: number): Promise<number> {
  const { port } = new URL(url);
  await Promise.all(
    Array.from({ length: count }, () => {
      const base = random.pick(BASES);
      const bytes = random.chance(0.1) ? anyBytes(random, 300) : Buffer.from(scratch(random, base), "latin1");
      return sendBytes(Number(port), bytes).then((answer) => {
        // Cut off silently, or answered in HTTP with what is wrong.
        const leak = makeWatch().leakIn(answer);
        if (leak !== undefined)
          throw new Error(`${JSON.stringify(bytes.toString("latin1"))} was told ${leak}`);
        const status = /^HTTP\/1\.1 (\d{3}) /.exec(answer)?.[1];
        if (answer === "" || (status !== undefined && status !== "500")) return;
        throw new Error(`${JSON.stringify(bytes.toString("latin1"))} was answered ${answer}`);
      });
    }),
  );
  return count;
}

/** Everything that comes back, until nothing more arrives. */
export function sendBytes(port: number, bytes: Buffer, patience = 200): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    let answer = "";
    socket.setTimeout(patience, () => socket.destroy());
    socket.on("data", (part) => (answer += part.toString("latin1")));
    socket.on("error", () => {});
    socket.on("close", () => resolve(answer));
    socket.write(bytes);
    // Half of the inputs announce more bytes, which never come.
    socket.end();
  });
}
