import type { WebSocket } from "ws";
import type { Logger } from "../../core/process/logger.ts";
import { show } from "../../core/errors/show.ts";
import { CLOSE } from "../../protocol/messages.ts";

/**
 * The last resort for an unexpected exception while a client's message is handled: it ends this client's connection and
 * is logged. Thrown out of a socket's listener, it would end the process, and with it all other clients.
 */
export function closeFailed(socket: WebSocket | undefined, error: unknown, logger: Logger): void {
  const reason = error instanceof Error ? error.message : show(error);
  logger.error(`A message of a client failed, and its connection was closed: ${reason}`, { error });
  socket?.close(CLOSE.failed, "the server failed on a message");
}
