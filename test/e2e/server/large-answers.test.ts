// A client that requests everything at once, and reads nothing for a while, must not cost the server its memory.

import { readFileSync } from "node:fs";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { describe, expect } from "vitest";
import { WebSocket } from "ws";
import { open } from "../../../src/index.ts";
import { freshSchema } from "../../postgres/shared.ts";
import { type Stage, test } from "../harness/stage.ts";
import { ServedStage } from "./served-stage.ts";
import { isLong } from "../../run/long.ts";

const MB = 1_000_000;
/** Peak resident memory. */
const MOST_MEMORY = 500 * MB;
const REQUESTS = Number(process.env["DIBS_REQUESTS"] ?? 30);
const TASKS = 500;
const DATA = "x".repeat(200_000);

interface Store {
  url?: string;
  schema?: string;
}

const STORES: Record<string, (stage: Stage) => Promise<Store>> = {
  SQLite: async () => ({}),
  PostgreSQL: (stage) => freshSchema((undo) => stage.onEnd(undo)),
};

/** Another process fills the store, so that the server's memory is that of its answers. */
async function serveTasks(stage: Stage, { url = stage.file, ...options }: Store): Promise<ServedStage> {
  const dibs = await open(url, options);
  const tasks = Array.from({ length: 50 }, () => ({ data: DATA }));
  for (let added = 0; added < TASKS; added += 50) await dibs.queue("large").addMany(tasks);
  await dibs.close();
  return ServedStage.start(stage, { url, ...options });
}

function peakMemory({ program }: ServedStage): number {
  const status = readFileSync(`/proc/${program.pid}/status`, "utf8");
  return Number(/^VmHWM:\s*(\d+) kB$/m.exec(status)![1]) * 1024;
}

async function isAlive({ url }: ServedStage): Promise<boolean> {
  const answer = await fetch(`${url}/healthz`, { headers: { connection: "close" } });
  return ((await answer.json()) as { status: string }).status === "alive";
}

/** A request whose answer is not read before `finish` is called, which returns its length. */
async function ask(stage: Stage, url: string, path: string): Promise<() => Promise<number>> {
  const socket: Socket = connect(Number(new URL(url).port), "127.0.0.1");
  stage.onEnd(() => socket.destroy());
  socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`);
  return async () => {
    let [bytes, head] = [0, ""];
    socket.on("data", (part: Buffer) => {
      bytes += part.length;
      if (head === "") head = part.subarray(0, 12).toString("latin1");
    });
    await once(socket, "close");
    expect(head).toBe("HTTP/1.1 200");
    return bytes;
  };
}

describe.each(Object.entries(STORES))("a server on %s", (_, openStore) => {
  test(`a server stays below 500 MB while ${REQUESTS} requests for large pages are not read, and answers them all`, async ({
    stage,
  }) => {
    const served = await serveTasks(stage, await openStore(stage));
    const path = "/v1/queues/large/tasks?state=ready&limit=1000&payloads=full";
    const requests = await Promise.all(Array.from({ length: REQUESTS }, () => ask(stage, served.url, path)));
    for (let i = 0; i < 20; i++) expect(await isAlive(served)).toBe(true);
    const bytes = await Promise.all(requests.map((finish) => finish()));
    expect(Math.min(...bytes)).toBeGreaterThan(3 * MB);
    if (isLong) console.log(`${(peakMemory(served) / MB).toFixed(0)} MB`);
    expect(peakMemory(served)).toBeLessThan(MOST_MEMORY);
  });

  test(`a server stays below 500 MB while one frame of ${REQUESTS} lists is not read, and answers them all`, async ({
    stage,
  }) => {
    const served = await serveTasks(stage, await openStore(stage));
    const socket = new WebSocket(`${served.url.replace("http", "ws")}/v1/connect`);
    stage.onEnd(() => socket.terminate());
    await once(socket, "open");
    socket.send('{"hello":{"versions":[1],"client":"test"}}');
    await once(socket, "message");
    socket.pause();
    const query = { queue: "large", state: "ready", limit: 1_000, payloads: "full" };
    const calls = Array.from({ length: REQUESTS }, (__, id) => ["call", id + 1, "list", [query]]);
    socket.send(JSON.stringify({ seq: 1, ack: 0, items: calls }));
    for (let i = 0; i < 20; i++) expect(await isAlive(served)).toBe(true);
    const answered = new Set<number>();
    const all = new Promise<void>((resolve, reject) => {
      socket.on("close", (code) => reject(new Error(`The server cut the client off: ${code}.`)));
      socket.on("message", (text: Buffer) => {
        const { seq, items = [] } = JSON.parse(text.toString()) as {
          seq?: number;
          items?: [string, number][];
        };
        for (const [kind, id] of items) if (kind === "ok") answered.add(id);
        if (seq !== undefined) socket.send(JSON.stringify({ ack: seq }));
        if (answered.size === REQUESTS) resolve();
      });
    });
    socket.resume();
    await all;
    if (isLong) console.log(`${(peakMemory(served) / MB).toFixed(0)} MB`);
    expect(peakMemory(served)).toBeLessThan(MOST_MEMORY);
  });
});
