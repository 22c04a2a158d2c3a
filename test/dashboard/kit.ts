import { onTestFinished } from "vitest";
import type { LiveFrame } from "../../src/dashboard/live-frames.ts";
import { Dashboard } from "../../src/dashboard/dashboard.ts";
import { SILENT } from "../../src/core/process/logger.ts";
import type { Port } from "../../src/core/port.ts";
import { openPort } from "../../src/api/open.ts";
import { Access } from "../../src/server/access.ts";
import type { ServerOptions } from "../../src/server/options.ts";
import { Tokens } from "../../src/server/tokens.ts";
import { startServer } from "../server/start.ts";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A store in memory behind a server with the dashboard, and ways to call it. */
export async function startDashboard(options: Partial<ServerOptions> = {}, store?: Port) {
  const port = store ?? (await openPort(":memory:", {}));
  const dashboard = new Dashboard({
    ...{ store: port, logger: SILENT, version: "1.2.3", storeName: "work.db", engine: "memory" },
  });
  const server = await startServer(port, {
    dashboard,
    audit: (action) => dashboard.audit.add({ at: Date.now(), ...action }),
    ...options,
  });
  onTestFinished(async () => {
    await dashboard.stop();
    await server.close();
    if (!store) await port.close();
  });
  return { port, dashboard, server, call: callerOf(server.url), url: server.url };
}

export type Call = ReturnType<typeof callerOf>;

/** What an answer contains is what the test expects of it. */
// oxlint-disable-next-line typescript/no-explicit-any
type Answer = any;

export function callerOf(url: string, token?: string) {
  return async (method: string, path: string, body?: unknown): Promise<{ status: number; body: Answer }> => {
    const response = await fetch(`${url}/${path}`, {
      method,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
  };
}

/** Tokens in a file that the test may change. */
export function makeTokens(): { tokens: Tokens; access: Access } {
  const folder = mkdtempSync(join(tmpdir(), "dibs-dashboard-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const tokens = new Tokens(join(folder, "tokens.json"));
  return { tokens, access: new Access(tokens, { letAnyoneIn: false }) };
}

/** Reads the live feed: `next(type)` skips to the next frame of a type, and `ended` says whether it is over. */
export async function openLive(url: string, query = "", token?: string) {
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const response = await fetch(`${url}/v1/live${query}`, {
    signal: stop.signal,
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
  });
  const frames = framesOf(response);
  const next = async <Type extends LiveFrame["type"]>(
    type: Type,
    isMeant: (frame: Extract<LiveFrame, { type: Type }>) => boolean = () => true,
  ): Promise<Extract<LiveFrame, { type: Type }>> => {
    for (;;) {
      const { value, done } = await frames.next();
      if (done) throw new Error(`the stream ended before a frame of type ${type}`);
      if (value.type === type && isMeant(value as never)) return value as never;
    }
  };
  return { response, frames, next, close: () => stop.abort() };
}

async function* framesOf({ body }: Response): AsyncGenerator<LiveFrame, void, void> {
  let rest = "";
  for await (const text of body!.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop()!;
    for (const line of lines) yield JSON.parse(line) as LiveFrame;
  }
}
