import { connect } from "node:net";
import { WebSocket } from "ws";
import { ERROR_CODES } from "../../src/core/errors/errors.ts";
import { PATH } from "../../src/protocol/messages.ts";
import { VERBS, type WireVerb } from "../../src/protocol/verbs.ts";
import type { Random } from "../simulation/random.ts";
import type { Canaries } from "./canaries.ts";
import type { Attack } from "./fuzz.ts";
import { anyBytes, anyLiar, anyValue, bend, scratch } from "./values.ts";

/** Replaced by the id of another client's task, or of none. */
const ID = "ID";
const NOBODYS_ID = "01980000-0000-7000-8000-000000000000";
const HELD = { id: ID, fence: 1, queue: "work", attempt: 1 };
const WORKER = { id: "w", name: "w", queues: ["work"], concurrency: 1, host: "h", pid: 1 };

const PAGE = { after: '["a"]', limit: 5 };

/** Valid calls. The compiler requires one for each verb. */
const CALLS: Record<WireVerb, unknown[]> = {
  declare: ["work", { lease: 1_000 }, { force: true }],
  pause: ["work", false],
  queues: [{ queue: "work", ...PAGE }],
  stats: ["work"],
  purge: ["work"],
  unhold: ["work", "g"],
  drop: ["other"],
  add: [
    [
      { queue: "work", data: "{}", headers: { a: "b" }, priority: 1, groupKey: "g" },
      { queue: "work", data: { $: ["bytes", "AQI="] } },
    ],
  ],
  subscribe: ["order.*", "audit", {}],
  unsubscribe: ["order.*", "audit"],
  subscriptions: [{ topic: "order.placed", limit: 5 }],
  publish: [{ topic: "order.placed", data: "1" }],
  claim: [{ queues: ["work"], max: 2, worker: "w", wait: 5 }],
  settle: [HELD, { kind: "ack", result: "1", adds: [{ queue: "work", data: "1" }] }],
  extend: [HELD, 1_000],
  progress: [HELD, 0.5, "half"],
  task: [ID],
  history: [ID],
  cancel: [ID],
  change: [ID, { kind: "update", priority: 1, delay: 5, data: "{}", contentType: "text/plain" }],
  end: [ID, { timeout: 5 }],
  list: [{ queue: "work", state: "ready", limit: 5 }],
  patterns: ["work", "fingerprint", 5],
  redrive: ["work", { ids: [ID] }, 0],
  discard: ["work", {}],
  join: [WORKER, 1_000],
  reconcile: [1, [1, 2]],
  rejoin: [1, [1], { name: 1, ticket: "t" }],
  retire: [1],
  leave: [1, { lost: true }],
  workers: [{ queue: "work", after: "[1]", limit: 5 }],
  schedule: ["s", { every: 3_600_000, missed: "once", task: { queue: "work", data: "1" } }, { force: true }],
  pauseSchedule: ["s", true],
  unschedule: ["s"],
  fireSchedule: ["s"],
  schedules: [{ name: "s", ...PAGE }],
  supervise: [
    {
      ...{
        kind: "pool",
        name: "p",
        holder: "h",
        host: "h",
        pid: 1,
        queues: ["work"],
        lease: 1_000,
        report: "{}",
      },
      entries: [{ type: "pool.resized", queue: "work", reasons: ["load"], from: 1, to: 2 }],
    },
  ],
  supervised: ["pool", { name: "p", ...PAGE }],
  decisions: ["pool", "shared", 10],
  step: [HELD, "s", "1"],
  spawn: [HELD, [{ name: "a", task: { queue: "work", data: "1" } }]],
  children: [ID, { after: 1, limit: 5, ends: true }],
  steps: [ID],
  signal: [ID, "s", "1"],
  verifying: [{ id: ID, fence: 1 }],
  definePipeline: ["report", [{ name: "a", joins: false }]],
  pipelines: [{ name: "report", ...PAGE }],
  run: [ID, { limit: 5 }],
  runs: [{ pipeline: "report", limit: 5 }],
  cancelRun: [ID],
};
/**
 * Fields that engines write themselves, with ids of another token's tasks: a client that gets one of them accepted could
 * join another queue's run or answer for another queue's verifier.
 */
const ENGINE_FIELDS: Record<string, unknown> = {
  at: { id: ID, seq: 1, stage: "a", part: "0", joins: [], pipeline: "report" },
  run: {
    id: ID,
    seq: 1,
    pipeline: "report",
    stages: [{ name: "a", queue: "work", joins: false }],
    queue: "work",
  },
  asked: ID,
  seq: 1,
  session: 1,
  of: { id: ID, fence: 1 },
};

/** Calls that name nothing, and list everything that may be seen. */
const LISTS: readonly (readonly [WireVerb, ...unknown[]])[] = [
  ...(["queues", "workers", "schedules", "pipelines", "subscriptions"] as const).map(
    (verb) => [verb] as const,
  ),
  ["supervised", "pool"],
  ["supervised", "alerts"],
];

function itemOf({ random, canaries }: Attack, id: number): unknown {
  switch (random.weighted({ call: 12, abort: 1, listen: 1, next: 1, unlisten: 1, bye: 0.05, any: 1 })) {
    case "call": {
      const verb = random.chance(0.97)
        ? random.pick(Object.keys(VERBS))
        : random.pick(["close", "clock", "events", "__proto__", "", "toString"]);
      if (random.chance(0.05)) {
        const [list, ...args] = random.pick(LISTS);
        return [
          "call",
          id,
          list,
          [...args, ...(random.chance(0.5) ? [{ limit: random.between(1, 3) }] : [])],
        ];
      }
      const call = Object.hasOwn(CALLS, verb) ? CALLS[verb as WireVerb] : [];
      const args = aim(random, random.chance(0.1) ? smuggle(random, call) : call, canaries);
      const named = random.weighted({ verb: 96, value: 2, liar: 2 });
      const sent = { verb: () => verb, value: () => anyValue(random), liar: () => anyLiar(random) }[named]();
      return ["call", id, sent, bend(random, args)];
    }
    case "abort":
      return ["abort", random.between(1, id)];
    case "listen":
      return ["listen", id];
    case "next":
      return ["next", random.between(1, id)];
    case "unlisten":
      return ["unlisten", random.between(1, id)];
    case "bye":
      return ["bye"];
    default:
      return anyValue(random);
  }
}

/** The same call with a field of the engines in one or more of its objects. */
function smuggle(random: Random, value: unknown): unknown {
  if (Array.isArray(value)) return value.map((part) => smuggle(random, part));
  if (typeof value !== "object" || value === null) return value;
  const parts = Object.entries(value).map(([key, part]) => [key, smuggle(random, part)]);
  const field = random.pick(Object.keys(ENGINE_FIELDS));
  if (random.chance(0.6)) parts.push([field, ENGINE_FIELDS[field]]);
  return Object.fromEntries(parts) as unknown;
}

/** The same call on tasks and queues of other clients, or that do not exist. */
function aim(random: Random, value: unknown, canaries: Canaries): unknown {
  if (value === ID) return random.chance(0.7) ? random.pick(canaries.ids) : NOBODYS_ID;
  if (value === "work" && random.chance(0.1)) return canaries.queue;
  if (Array.isArray(value)) return value.map((part) => aim(random, part, canaries));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, aim(random, part, canaries)]));
}

/** Messages on one WebSocket after another: invalid frames, and what is not a frame at all. */
export async function fuzzMessages(attack: Attack, count: number): Promise<number> {
  let sent = 0;
  while (sent < count) sent += await converse(attack, count - sent);
  return sent;
}

async function converse(attack: Attack, most: number): Promise<number> {
  const { url, random, token } = attack;
  const watch = attack.watch();
  const headers = { authorization: `Bearer ${token}` };
  const socket = new WebSocket(url.replace("http", "ws") + PATH, { headers });
  const troubles: string[] = [];
  socket.on("error", () => {});
  socket.on("message", (data) => {
    const text = (data as Buffer).toString();
    const leak = watch.leakIn(text);
    const trouble = leak === undefined ? troubleWith(text) : `told ${leak}: ${text.slice(0, 500)}`;
    if (trouble !== undefined) troubles.push(trouble);
  });
  const closed = new Promise((resolve) => socket.on("close", resolve));
  await Promise.race([new Promise((resolve) => socket.on("open", resolve)), closed]);
  let sent = 1;
  let seq = 0;
  const hello = { hello: { versions: [random.chance(0.03) ? anyLiar(random) : 1], client: "fuzz" } };
  const isProper = random.chance(0.9);
  socket.send(isProper ? JSON.stringify(hello) : scratch(random, JSON.stringify(bend(random, hello))));
  while (sent < most && socket.readyState === WebSocket.OPEN && troubles.length === 0) {
    const items = Array.from({ length: random.between(0, 2) }, (_, index) =>
      itemOf(attack, seq * 10 + index + 1),
    );
    const frame = { seq: ++seq, ack: random.between(0, 3), items };
    const isBent = random.chance(0.04);
    const text = JSON.stringify(isBent ? bend(random, frame) : frame) ?? "";
    watch.sent(text);
    socket.send(
      random.chance(0.01) ? scratch(random, text) : random.chance(0.005) ? anyBytes(random, 50) : text,
    );
    sent++;
    if (sent % 20 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  if (random.chance(0.3)) socket.terminate();
  else socket.close();
  await closed;
  if (troubles[0] !== undefined) throw new Error(troubles[0]);
  return sent;
}

/** An answer must follow the protocol, and an error must have a code. */
function troubleWith(text: string): string | undefined {
  const message = JSON.parse(text) as {
    welcome?: object;
    refused?: { code: never };
    ack?: number;
    items?: unknown[][];
  };
  if (message.welcome) return undefined;
  if (message.refused) return ERROR_CODES.includes(message.refused.code) ? undefined : `refused as ${text}`;
  if (typeof message.ack !== "number") return `said ${text.slice(0, 300)}`;
  for (const [kind, , error] of message.items ?? []) {
    if (!["ok", "error", "notice", "events"].includes(kind as string)) return `said ${text.slice(0, 300)}`;
    const { code, message: words } = (error ?? {}) as { code?: never; message?: string };
    if (kind === "error" && !(ERROR_CODES.includes(code!) && typeof words === "string" && words !== ""))
      return `answered with an error that is none: ${JSON.stringify(error)}`;
  }
  return undefined;
}

const upgrade = (token: string): string =>
  `GET ${PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`;

/** Bytes that are almost a WebSocket's, each on its own connection. */
export async function fuzzFrames({ url, random, token }: Attack, count: number): Promise<number> {
  const port = Number(new URL(url).port);
  await Promise.all(Array.from({ length: count }, () => sendFrames(port, token, framesOf(random))));
  return count;
}

function framesOf(random: Random): Buffer {
  const first = random.pick([0x81, 0x82, 0x80, 0x88, 0x89, 0x8a, 0x01, 0xf1, 0x83, 0xff]);
  const payload = random.chance(0.5)
    ? Buffer.from('{"hello":{"versions":[1],"client":"x"}}')
    : anyBytes(random, 200);
  const length = random.pick([payload.length & 0x7f, 126, 127, 0, 125]);
  const mask = random.chance(0.8) ? 0x80 : 0;
  const key = Buffer.from([1, 2, 3, 4]);
  const masked = Buffer.from(payload.map((byte, index) => byte ^ key[index % 4]!));
  const extended =
    length === 126
      ? Buffer.from([0, payload.length])
      : length === 127
        ? anyBytes(random, 8)
        : Buffer.alloc(0);
  return Buffer.concat([
    Buffer.from([first, mask | length]),
    extended,
    ...(mask ? [key, masked] : [payload]),
    anyBytes(random, 20),
  ]);
}

function sendFrames(port: number, token: string, bytes: Buffer): Promise<void> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.setTimeout(100, () => socket.destroy());
    socket.on("error", () => {});
    socket.on("close", () => resolve());
    socket.once("data", () => socket.write(bytes));
    socket.resume();
    socket.write(upgrade(token));
  });
}
