// Every path over HTTP, with a token that may do everything with other queues: it changes nothing of foreign ones, and
// its answers do not say whether they exist.

import { expect, test } from "vitest";
import type { Port } from "../../src/core/port.ts";
import { makeTokens, startDashboard } from "../dashboard/kit.ts";
import { absentSubject, makeSubject, plain, snapshotOf, type Subject } from "./scope-subjects.ts";

const OWN = ["add", "work", "read", "admin"].flatMap((kind) => [`${kind}:own-*`, `${kind}:topic/own-*`]);
const NONE = "01980000-0000-7000-8000-00000000ffff";

/** What paths name besides a subject's own. */
interface Named extends Subject {
  /** A claim of a verifier on the subject's result. */
  judging: { id: string; fence: number };
  /** A worker's session over HTTP. */
  httpSession: string;
  job: string;
}

type Request = (named: Named) => [path: string, body?: unknown];
const ERROR = { message: "no" };

/** One request for each operation, about something that the subject has. */
const REQUESTS: Record<string, Request> = {
  "GET /v1/queues": () => ["/v1/queues"],
  ...onQueue("GET", [""]),
  ...onQueue("PUT", [""], { maxAttempts: 2 }),
  ...onQueue("POST", ["/pause", "/resume", "/purge"]),
  ...onQueue("POST", ["/unhold", "/dead/redrive", "/dead/discard", "/claims"], {}),
  ...onQueue("GET", ["/dead/patterns", "/history"]),
  ...onQueue("POST", ["/tasks"], { data: 1 }),
  ...onQueue("POST", ["/batches"], { tasks: [{ data: 1 }] }),
  ...onQueue("POST", ["/preview"], { maxDepth: 1 }),
  "GET /v1/queues/{queue}/tasks": ({ queue }) => [`/v1/queues/${queue}/tasks?state=ready`],
  ...onQueue("DELETE", [""]),
  "GET /v1/workers": ({ queue }) => [`/v1/workers?queue=${queue}`],
  ...onTask("GET", ["", "/history", "/steps", "/children"]),
  ...onTask("POST", ["/cancel", "/promote"]),
  ...onTask("POST", ["/update"], { priority: 7, data: "forged" }),
  "GET /v1/tasks/{id}/result": ({ done }) => [`/v1/tasks/${done}/result`],
  "POST /v1/tasks/{id}/run-again": ({ done }) => [`/v1/tasks/${done}/run-again`, {}],
  "POST /v1/tasks/{id}/signals/{name}": ({ task }) => [`/v1/tasks/${task}/signals/go`, {}],
  "GET /v1/verifying/{id}/{fence}": ({ verifying: { id, fence } }) => [`/v1/verifying/${id}/${fence}`],
  "POST /v1/topics/{topic}/messages": ({ topic }) => [`/v1/topics/${topic}/messages`, { data: 1 }],
  "GET /v1/subscriptions": ({ topic }) => [`/v1/subscriptions?topic=${topic}`],
  "PUT /v1/subscriptions/{pattern}/{group}": ({ topic }) => [`/v1/subscriptions/${topic}/g2`],
  "DELETE /v1/subscriptions/{pattern}/{group}": ({ topic }) => [`/v1/subscriptions/${topic}/g`],
  "PUT /v1/claims/{id}/{fence}/steps/{name}": ({ held }) => [`${claimPath(held)}/steps/plan`, { value: 1 }],
  ...onClaim("extend", { lease: "1m" }),
  ...onClaim("progress", { value: 0.5, log: "forged" }),
  ...onClaim("ack", { result: 1 }),
  ...onClaim("nack", { error: ERROR }),
  ...onClaim("hold", { error: ERROR, delay: "1s" }),
  ...onClaim("reject", { error: ERROR }),
  ...onClaim("release", {}),
  ...onClaim("park", { signal: "go" }),
  // To a queue that the token may add to: the claim is what it may not use.
  ...onClaim("children", { children: [{ name: "a", queue: "own-1", data: 1 }] }),
  "POST /v1/claims/{id}/{fence}/accept": ({ judging }) => [`${claimPath(judging)}/accept`],
  "POST /v1/claims/{id}/{fence}/refuse": ({ judging }) => [
    `${claimPath(judging)}/refuse`,
    { feedback: "no" },
  ],
  "POST /v1/settlements": ({ held: { id, fence } }) => [
    "/v1/settlements",
    { settlements: [{ kind: "ack", id, fence, result: 1 }] },
  ],
  "POST /v1/sessions": ({ queue }) => ["/v1/sessions", { worker: "w", queues: [queue] }],
  ...onSession("POST", ["/claims", "/heartbeat"], {}),
  ...onSession("DELETE", [""]),
  "GET /v1/pipelines": () => ["/v1/pipelines"],
  "PUT /v1/pipelines/{pipeline}": ({ pipeline }) => [
    `/v1/pipelines/${pipeline}`,
    { stages: [{ name: "a" }, { name: "b" }] },
  ],
  "POST /v1/pipelines/{pipeline}/runs": ({ pipeline }) => [`/v1/pipelines/${pipeline}/runs`, { data: 1 }],
  "GET /v1/pipelines/{pipeline}/runs": ({ pipeline }) => [`/v1/pipelines/${pipeline}/runs`],
  ...onRun("GET", ["", "/result"]),
  ...onRun("POST", ["/cancel"]),
  "POST /v1/runs/{id}/signals/{name}": ({ run }) => [`/v1/runs/${run}/signals/go`, {}],
  "GET /v1/schedules": () => ["/v1/schedules"],
  ...onSchedule("GET", [""]),
  "PUT /v1/schedules/{name}": ({ schedule, queue }) => [
    `/v1/schedules/${schedule}`,
    { every: "1h", task: { queue } },
  ],
  ...onSchedule("POST", ["/pause", "/resume", "/fire"]),
  ...onSchedule("DELETE", [""]),
  "GET /v1/pools": () => ["/v1/pools"],
  "GET /v1/pools/{name}/decisions": ({ pool }) => [`/v1/pools/${pool}/decisions`],
  "GET /v1/alerts": () => ["/v1/alerts"],
  "GET /v1/alerts/{name}/decisions": () => ["/v1/alerts/alerts/decisions"],
  "GET /v1/me": () => ["/v1/me"],
  "GET /v1/history": () => ["/v1/history"],
  "GET /v1/search": ({ queue }) => [`/v1/search?q=payload&queue=${queue}`],
  "GET /v1/dead": () => ["/v1/dead"],
  "GET /v1/alerts/states": () => ["/v1/alerts/states"],
  "GET /v1/audit": () => ["/v1/audit"],
  "GET /v1/jobs": () => ["/v1/jobs"],
  "POST /v1/jobs": ({ queue, task }) => ["/v1/jobs", { action: "cancel", queue, ids: [task] }],
  "GET /v1/jobs/{id}": ({ job }) => [`/v1/jobs/${job}`],
  "POST /v1/jobs/{id}/stop": ({ job }) => [`/v1/jobs/${job}/stop`],
  "GET /v1/live": ({ queue }) => [`/v1/live?queue=${queue}`],
};

/** More requests on these paths. */
const VARIANTS: [operation: string, request: Request][] = [
  ["GET /v1/search", ({ task }) => [`/v1/search?q=id:${task}`]],
  ["GET /v1/search", ({ queue }) => [`/v1/search?q=queue:${queue}`]],
  ["GET /v1/search", () => ["/v1/search?q=payload"]],
  ["GET /v1/workers", () => ["/v1/workers"]],
  ["GET /v1/subscriptions", () => ["/v1/subscriptions"]],
  ["POST /v1/jobs", ({ queue }) => ["/v1/jobs", { action: "discard", queue, q: "state:done" }]],
  [
    "POST /v1/queues/{queue}/tasks",
    ({ queue }) => [
      `/v1/queues/${queue}/tasks`,
      { data: 1, unique: { key: "k", while: "waiting", on: "replace" } },
    ],
  ],
  [
    "POST /v1/settlements",
    ({ held: { id, fence } }) => [
      "/v1/settlements",
      { settlements: ["nack", "reject"].map((kind) => ({ kind, id, fence, error: ERROR })) },
    ],
  ],
];

function onQueue(method: string, ends: string[], body?: unknown): Record<string, Request> {
  return every(method, "/v1/queues/{queue}", ends, ({ queue }) => `/v1/queues/${queue}`, body);
}
function onTask(method: string, ends: string[], body?: unknown): Record<string, Request> {
  return every(method, "/v1/tasks/{id}", ends, ({ task }) => `/v1/tasks/${task}`, body);
}
function onRun(method: string, ends: string[]): Record<string, Request> {
  return every(method, "/v1/runs/{id}", ends, ({ run }) => `/v1/runs/${run}`);
}
function onSchedule(method: string, ends: string[]): Record<string, Request> {
  return every(method, "/v1/schedules/{name}", ends, ({ schedule }) => `/v1/schedules/${schedule}`);
}
function onSession(method: string, ends: string[], body?: unknown): Record<string, Request> {
  return every(method, "/v1/sessions/{session}", ends, ({ httpSession: id }) => `/v1/sessions/${id}`, body);
}
function onClaim(end: string, body: unknown): Record<string, Request> {
  return every("POST", "/v1/claims/{id}/{fence}", [`/${end}`], ({ held }) => claimPath(held), body);
}
function claimPath({ id, fence }: { id: string; fence: number }): string {
  return `/v1/claims/${id}/${fence}`;
}
function every(
  method: string,
  template: string,
  ends: string[],
  path: (named: Named) => string,
  body?: unknown,
): Record<string, Request> {
  const entries = ends.map((end): [string, Request] => [
    `${method} ${template}${end}`,
    (named) => [path(named) + end, body],
  ]);
  return Object.fromEntries(entries);
}

/** Not about one subject; tests of their own say what a token gets. */
const ELSEWHERE = ["GET /v1/events", "GET /v1/demo", "POST /v1/demo"];

async function startServer() {
  const { tokens, access } = makeTokens();
  const started = await startDashboard({ access });
  const askAs = (name: string, scopes: string[]) => {
    const { token } = tokens.add(name, scopes);
    return async (operation: string, request: Request, named: Named) => {
      const [path, body] = request(named);
      const stop = new AbortController();
      const answer = await fetch(started.url + path, {
        method: operation.split(" ")[0]!,
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal: stop.signal,
      });
      // A stream that is allowed does not end.
      const text = operation === "GET /v1/live" && answer.ok ? "" : await answer.text();
      stop.abort();
      return { operation, status: answer.status, text };
    };
  };
  return { ...started, askAs };
}

type Ask = ReturnType<Awaited<ReturnType<typeof startServer>>["askAs"]>;

async function makeNamed(store: Port, queue: string, operator: Ask): Promise<Named> {
  const subject = await makeSubject(store, queue);
  const call = { queues: [`${queue}.v/verify`], max: 1, worker: "w", wait: 0 };
  const [judging] = (await store.claim(call)).tasks;
  const named = { ...subject, judging: judging!, httpSession: "", job: "" };
  const make = async (path: string, body: unknown): Promise<{ session: string; id: string }> =>
    JSON.parse((await operator(`POST ${path}`, () => [path, body], named)).text) as never;
  const { session } = await make("/v1/sessions", { worker: "w", queues: [queue] });
  const { id } = await make("/v1/jobs", { action: "cancel", queue, ids: [NONE] });
  return { ...named, httpSession: session, job: id };
}

/** What an answer says, without the names in the request. */
function said({ status, text }: { status: number; text: string }, named: Named): object {
  return { status, text: plain(text.replaceAll(named.httpSession, "SESSION"), named) };
}

function makeAbsent(queue: string): Named {
  const subject = absentSubject(queue);
  return { ...subject, judging: subject.held, httpSession: "none-that-exists", job: NONE };
}

test("the table contains a request for every operation of /openapi.json", async () => {
  const { url } = await startServer();
  const { paths } = (await (await fetch(`${url}/openapi.json`)).json()) as { paths: Record<string, object> };
  const operations = Object.entries(paths).flatMap(([path, each]) =>
    Object.keys(each).map((method) => `${method.toUpperCase()} ${path}`),
  );
  expect([...Object.keys(REQUESTS), ...ELSEWHERE].sort()).toEqual(operations.sort());
});

test.each([...Object.entries(REQUESTS), ...VARIANTS])(
  "%s about something foreign is answered as if it did not exist, and changes nothing",
  async (operation, request) => {
    const { port: store, askAs } = await startServer();
    const operator = askAs("operator", ["admin:*"]);
    const limited = askAs("limited", OWN);
    const foreign = await makeNamed(store, "foreign-1", operator);
    const absent = makeAbsent("foreign-absent");
    const before = await snapshotOf(store, foreign);
    const answer = await limited(operation, request, foreign);
    expect(said(answer, foreign)).toEqual(said(await limited(operation, request, absent), absent));
    expect(JSON.stringify(said(answer, foreign))).not.toMatch(/canary|foreign/);
    expect(await snapshotOf(store, foreign)).toEqual(before);
    // An operator may make the same request, so it was not refused for its form.
    const { status, text } = await operator(operation, request, foreign);
    expect({ status: [400, 403].includes(status) ? status : "ok", text }).toEqual({ status: "ok", text });
  },
);
