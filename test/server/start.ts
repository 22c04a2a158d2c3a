import { tmpdir } from "node:os";
import { join } from "node:path";
import { SILENT } from "../../src/core/process/logger.ts";
import type { Port } from "../../src/core/port.ts";
import { systemClock } from "../../src/engine/system-clock.ts";
import { Access } from "../../src/server/access.ts";
import { Server } from "../../src/server/server.ts";
import type { ServerOptions } from "../../src/server/options.ts";
import { Tokens } from "../../src/server/tokens.ts";

/** No file and no tokens: everyone on this machine may connect. */
const NO_TOKENS = new Access(new Tokens(join(tmpdir(), "dibs-none", "there-is-no-such-file.json")), {
  letAnyoneIn: false,
});

/** A server on a store that the caller closes. */
export function startServer(store: Port, options: Partial<ServerOptions> = {}): Promise<Server> {
  return Server.start({
    ...{ store, access: NO_TOKENS, host: "127.0.0.1", port: 0, letAnyoneIn: false },
    ...{ clock: systemClock, logger: SILENT },
    ...options,
  });
}
