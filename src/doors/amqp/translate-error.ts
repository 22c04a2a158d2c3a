import { isDibsError } from "../../core/errors/errors.ts";
import type { Logger } from "../../core/process/logger.ts";
import { show } from "../../core/errors/show.ts";
import { AmqpError } from "./wire/errors.ts";

/**
 * The one place where errors of the broker become errors of AMQP. Unexpected errors are logged, and clients do not see
 * them.
 */
export function translateError(error: unknown, logger: Logger): AmqpError {
  if (error instanceof AmqpError) return error;
  if (isDibsError(error)) {
    if (error.code === "FORBIDDEN") return new AmqpError("ACCESS_REFUSED", error.message);
    if (error.code === "PAYLOAD_TOO_LARGE")
      return new AmqpError("CONTENT_TOO_LARGE", error.message, "channel");
    if (error.code === "INVALID") return new AmqpError("PRECONDITION_FAILED", error.message);
  }
  const reason = error instanceof Error ? error.message : show(error);
  logger.error(`An AMQP client's call failed, and its connection was closed: ${reason}`, { error });
  return new AmqpError("INTERNAL_ERROR", "the server failed on a method; its log says why");
}
