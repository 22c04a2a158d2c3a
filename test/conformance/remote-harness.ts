import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { openRemote } from "../../src/client/remote.ts";
import { SILENT } from "../../src/core/logger.ts";
import { NativeDoor } from "../../src/doors/native/door.ts";
import type { Harness, Opened } from "../../src/engine/conformance/harness.ts";
import type { ManualClock } from "../../src/testing/manual-clock.ts";

/**
 * The same store behind a server, asked by the remote client through a real connection. An opener is a server with
 * its client: several servers share one store as several processes do.
 */
export function remote(store: Harness): Harness {
  return {
    shared: store.shared,
    open: async (clock, cleanUp) => serve(await store.open(clock, cleanUp), clock),
  };
}

async function serve({ port: broker, hang, another }: Opened, clock: ManualClock): Promise<Opened> {
  const door = new NativeDoor({ clock, logger: SILENT });
  const server = createServer();
  server.on("upgrade", (request, socket, head) =>
    door.accept(request, socket, head, { port: broker, owner: "anybody" }),
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const client = await openRemote({ url: `http://127.0.0.1:${port}`, clock, logger: SILENT });
  let closed: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    await client.close();
    door.close();
    await new Promise((resolve) => server.close(resolve));
    await broker.close();
  };
  return {
    port: { ...client, close: () => (closed ??= close()) },
    hang,
    ...(another && { another: async () => serve(await another(), clock) }),
  };
}
