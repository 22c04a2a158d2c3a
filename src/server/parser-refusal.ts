import { HttpRefusal } from "../doors/http/problem.ts";

/** Most bytes of a request's headers. */
export const HEADER_BYTES = 16 * 1024;

/** What Node's parser did not take for HTTP. Undefined: the connection is lost, or TLS was never agreed on. */
export function refusalOf({ code }: NodeJS.ErrnoException): HttpRefusal | undefined {
  if (code === "HPE_HEADER_OVERFLOW")
    return new HttpRefusal(431, `Headers have at most ${HEADER_BYTES} bytes.`);
  if (code === "ERR_HTTP_REQUEST_TIMEOUT") return new HttpRefusal(408, "The request did not arrive in time.");
  return code?.startsWith("HPE_") ? new HttpRefusal(400, "This is not HTTP.") : undefined;
}
