import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished } from "vitest";
import { openPort } from "../../src/api/open.ts";
import { openRemote } from "../../src/client/remote.ts";
import { SILENT } from "../../src/core/process/logger.ts";
import type { Port } from "../../src/core/port.ts";
import { systemClock } from "../../src/engine/system-clock.ts";
import { Access } from "../../src/server/access.ts";
import type { AdminAction } from "../../src/server/guard.ts";
import type { ServerOptions } from "../../src/server/options.ts";
import { Tokens } from "../../src/server/tokens.ts";
import { startServer } from "./start.ts";

export function makeTokens(): Tokens {
  const folder = mkdtempSync(join(tmpdir(), "dibs-tokens-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return new Tokens(join(folder, "tokens.json"));
}

/** A server that requires tokens, and its store, which requires none. */
export async function setUp(options: Partial<ServerOptions> = {}) {
  const tokens = makeTokens();
  const store = await openPort(":memory:", {});
  const actions: AdminAction[] = [];
  const access = new Access(tokens, { letAnyoneIn: false });
  const server = await startServer(store, { access, audit: (action) => actions.push(action), ...options });
  onTestFinished(async () => {
    await server.close();
    await store.close();
  });
  const open = async (token?: string): Promise<Port> => {
    const port = await openRemote({ url: server.url, token, clock: systemClock, logger: SILENT });
    onTestFinished(() => port.close());
    return port;
  };
  const tokenFor = (...scopes: string[]): string => tokens.add(`t${tokens.list().length}`, scopes).token;
  const openAs = (...scopes: string[]) => open(tokenFor(...scopes));
  return { tokens, store, server, actions, open, openAs, tokenFor };
}

export const forbidden = (call: Promise<unknown>, ...words: string[]): Promise<void> =>
  expect(call).rejects.toMatchObject({
    code: "FORBIDDEN",
    retryable: false,
    message: expect.stringContaining(words[0] ?? ""),
  });

export const task = (queue: string) => ({ queue, data: "{}" });
export const claimCall = (queue: string) => ({ queues: [queue], max: 1, worker: "w", wait: 0 });
