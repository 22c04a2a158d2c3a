/**
 * The errors of AMQP 0-9-1 with the codes and names that RabbitMQ sends. Clients match on the texts, so these are built
 * in the same form: NAME, a dash, the details.
 */
export const CODES = {
  CONTENT_TOO_LARGE: 311,
  NO_ROUTE: 312,
  NO_CONSUMERS: 313,
  CONNECTION_FORCED: 320,
  INVALID_PATH: 402,
  ACCESS_REFUSED: 403,
  NOT_FOUND: 404,
  RESOURCE_LOCKED: 405,
  PRECONDITION_FAILED: 406,
  FRAME_ERROR: 501,
  SYNTAX_ERROR: 502,
  COMMAND_INVALID: 503,
  CHANNEL_ERROR: 504,
  UNEXPECTED_FRAME: 505,
  RESOURCE_ERROR: 506,
  NOT_ALLOWED: 530,
  NOT_IMPLEMENTED: 540,
  INTERNAL_ERROR: 541,
} as const;

export type CodeName = keyof typeof CODES;

/** Those that end the whole connection. The others end one channel. */
const OF_CONNECTION: ReadonlySet<CodeName> = new Set<CodeName>([
  "CONNECTION_FORCED",
  "INVALID_PATH",
  "FRAME_ERROR",
  "SYNTAX_ERROR",
  "COMMAND_INVALID",
  "CHANNEL_ERROR",
  "UNEXPECTED_FRAME",
  "RESOURCE_ERROR",
  "NOT_ALLOWED",
  "NOT_IMPLEMENTED",
  "INTERNAL_ERROR",
]);

export class AmqpError extends Error {
  readonly code: number;
  readonly endsConnection: boolean;
  /** The method that it is about, if the code that throws it knows; the client gets its class and method number. */
  about: readonly [classId: number, methodId: number] | undefined;

  constructor(name: CodeName, details: string, scope?: "channel" | "connection") {
    super(`${name} - ${details}`);
    this.code = CODES[name];
    this.about = undefined;
    this.endsConnection = scope === undefined ? OF_CONNECTION.has(name) : scope === "connection";
  }
}

/** Notes the method that an error is about, unless one is noted already. */
export function about(error: AmqpError, id: readonly [number, number]): AmqpError {
  error.about ??= id;
  return error;
}

/** Bytes as RabbitMQ prints them: as text if all can be printed. Long ones are cut off. */
export function octets(bytes: Uint8Array): string {
  const first = [...bytes.subarray(0, 32)];
  const rest = bytes.length > 32 ? "..." : "";
  if (first.length > 0 && first.every((byte) => byte >= 32 && byte < 127))
    return `<<"${String.fromCharCode(...first)}"${rest}>>`;
  return `<<${first.join(",")}${rest}>>`;
}

/** A text that fits into a short string of the protocol: 255 bytes. */
export function shortText(text: string): string {
  if (Buffer.byteLength(text) <= 255) return text;
  let end = 250;
  while (Buffer.byteLength(text.slice(0, end)) > 250) end--;
  return `${text.slice(0, end)}...`;
}
