import { spawn } from "node:child_process";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { expect, onTestFinished, test } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import { bareEnvironment } from "../run/compile-cache.ts";

const MAIN = fileURLToPath(new URL("../../src/cli/main.ts", import.meta.url));

/** Clears the screen, sets the window's title, writes backwards and breaks the line. */
const EVIL = "\u001b[2J\u001b]0;owned\u0007\u009b31m\u202e\u0085\nnext";
/** What a terminal executes, except for the newline at the end of a line. */
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const OBEYED = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/;

/** A server that speaks the protocol and answers with its own texts. */
async function serve(answer: (socket: WebSocket, verb: string, id: number) => void): Promise<string> {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  onTestFinished(() => server.close());
  await once(server, "listening");
  server.on("connection", (socket) => {
    socket.once("message", () => {
      const bounds = { beatMs: 5_000, resumeMs: 1_000, maxFrame: 1e6 };
      socket.send(JSON.stringify({ welcome: { version: 1, server: "x", session: "s", ...bounds } }));
      let seq = 0;
      socket.on("message", (data) => {
        const { seq: heard = 0, items = [] } = JSON.parse((data as Buffer).toString()) as {
          seq?: number;
          items?: [string, number, string][];
        };
        const say = (item: unknown): void =>
          socket.send(JSON.stringify({ seq: ++seq, ack: heard, items: [item] }));
        const saying = { send: say } as unknown as WebSocket;
        for (const [kind, id, verb] of items) if (kind === "call") answer(saying, verb, id);
      });
    });
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function dibs(...args: string[]) {
  const child = spawn(process.execPath, [MAIN, ...args], { env: bareEnvironment() });
  onTestFinished(() => void child.kill("SIGKILL"));
  const text = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (part: string) => (text.stdout += part));
  child.stderr.setEncoding("utf8").on("data", (part: string) => (text.stderr += part));
  const [code] = (await once(child, "close")) as [number];
  return { code, ...text };
}

const depth = Object.fromEntries(
  [
    ...["ready", "waiting", "scheduled", "claimed", "parked", "verifying", "done", "dead"],
    ...["cancelled", "expired"],
  ].map((state) => [state, 0]),
);

const NO_TRAFFIC = {
  ...{
    oldestAge: null,
    failureRate: null,
    serviceTime: null,
    waitTime: null,
    serviceTimes: null,
    workers: 0,
  },
  rates: { windowMs: 60_000, addedPerSecond: 0, donePerSecond: 0, failedPerSecond: 0 },
};

test.each<[string, string[]]>([
  ["for people", []],
  ["for programs", ["--json"]],
])("a hostile server's names are printed without control characters, %s", async (_, flags) => {
  const queue = { name: "q", policy: {}, paused: false, createdAt: 0 };
  const stats = { queue: EVIL, paused: false, depth, ...NO_TRAFFIC, heldBack: { by: EVIL, until: null } };
  const answers: Record<string, unknown> = {
    queues: { items: [queue], next: null },
    workers: { items: [], next: null },
  };
  const url = await serve((socket, verb, id) => socket.send(["ok", id, answers[verb] ?? stats] as never));
  const { code, stdout } = await dibs("queues", "--url", url, ...flags);
  expect({ code, stdout }).toMatchObject({ code: 0, stdout: expect.stringContaining("owned") });
  expect(stdout).not.toMatch(OBEYED);
  expect(stdout).toContain(String.raw`\u009b31m\u202e\u0085`);
  if (flags.length > 0) expect(JSON.parse(stdout)).toMatchObject([{ queue: EVIL }]);
  else expect(stdout.trim().split("\n")).toHaveLength(2);
});

test("an error of a hostile server shows no control characters", async () => {
  const url = await serve((socket, _, id) =>
    socket.send(["error", id, { code: "FORBIDDEN", message: EVIL }] as never),
  );
  const { code, stderr } = await dibs("add", "q", "1", "--url", url);
  expect({ code, stderr }).toMatchObject({ code: 4, stderr: expect.stringContaining("owned") });
  expect(stderr).not.toMatch(OBEYED);
  expect(stderr.trim().split("\n")).toHaveLength(1);
});
