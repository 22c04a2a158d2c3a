import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { openPort } from "../../../../src/api/open.ts";
import { Dibs } from "../../../../src/api/dibs.ts";
import { SILENT } from "../../../../src/core/process/logger.ts";
import { freshSchema } from "../../../postgres/shared.ts";
import { startServer } from "../../../server/start.ts";

export const STORES = ["a file", "PostgreSQL"] as const;
export type StoreName = (typeof STORES)[number];

export interface Served {
  port: number;
  /** For AMQP clients. */
  url: string;
  /** The same store, for the library. */
  dibs: Dibs;
}

/** A server with the AMQP door, on a new store. The end of the test stops and removes it, unless `cleanUp` takes that. */
export async function serveAmqp(
  store: StoreName,
  cleanUp: (undo: () => Promise<void>) => void = (undo) => onTestFinished(undo),
): Promise<Served> {
  const folder = mkdtempSync(join(tmpdir(), "dibs-amqp-"));
  cleanUp(async () => rmSync(folder, { recursive: true, force: true }));
  const { url, schema } =
    store === "a file" ? { url: join(folder, "work.db"), schema: undefined } : await freshSchema(cleanUp);
  const opened = await openPort(url, schema === undefined ? {} : { schema });
  const server = await startServer(opened, { amqp: { port: 0 } });
  cleanUp(async () => {
    await server.close();
    await opened.close();
  });
  const port = server.amqpPort!;
  return { port, url: `amqp://guest:guest@127.0.0.1:${port}`, dibs: new Dibs(opened, SILENT) };
}
