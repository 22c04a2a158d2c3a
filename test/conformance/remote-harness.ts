import { openRemote } from "../../src/client/remote.ts";
import { SILENT } from "../../src/core/process/logger.ts";
import { isLong } from "../run/long.ts";
import type { Harness, Opened } from "./suite/harness.ts";
import type { ThemeName } from "./suite/index.ts";
import type { ManualClock } from "../../src/testing/manual-clock.ts";
import { startServer } from "../server/start.ts";

/**
 * All themes on a server with a store on disk take minutes, and most of them repeat what the same store's own file and
 * remote-memory.test.ts test. By default only the themes run that need both: several servers that share a store, and
 * what one reports to another.
 */
export const REMOTE_THEMES: ThemeName[] | undefined = isLong
  ? undefined
  : ["waitingClaims", "settle", "sessions", "results", "events", "severalOpeners"];

/**
 * The same store behind a server, through the remote client and a real connection. An opener is a server with its
 * client: several servers share one store as several processes do.
 */
export function remote(store: Harness): Harness {
  return {
    isRemote: true,
    shared: store.shared,
    serverTime: store.serverTime ?? false,
    open: async (clock, cleanUp) => serve(await store.open(clock, cleanUp), clock),
  };
}

async function serve({ port: broker, transfer, hang, another }: Opened, clock: ManualClock): Promise<Opened> {
  const server = await startServer(broker, { clock });
  const client = await openRemote({ url: server.url, clock, logger: SILENT });
  let closed: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    await client.close();
    await server.close();
    await broker.close();
  };
  return {
    port: { ...client, close: () => (closed ??= close()) },
    transfer,
    hang,
    ...(another && { another: async () => serve(await another(), clock) }),
  };
}
