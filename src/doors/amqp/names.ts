import { createHash, randomBytes } from "node:crypto";
import { LONGEST_NAME } from "../../core/queue/queue-name.ts";

/**
 * Names of AMQP queues as names of dibs queues. A virtual host is a prefix: `vhost:NAME/`; the default one has none, so
 * that both sides use the same name. Names with other characters than a queue of dibs may have, or that are too long,
 * get a readable part and a hash.
 */
export const DEFAULT_VHOST = "/";
const PREFIX = "vhost:";
/** Messages that expired or were dropped in a queue with a dead-letter exchange, until a server has routed them. */
export const DEAD_LETTERS = "amqp:dead-letters";
/** The alphabet of core/queue/queue-name.ts. */
const PLAIN = /^[A-Za-z0-9](?:[A-Za-z0-9_.:/-]*[A-Za-z0-9])?$/;
const PLAIN_VHOST = /^[A-Za-z0-9_.-]+$/;
/** Names that this mapping makes. A client's queue of such a name gets a hash, so that no two queues share a name. */
const MAPPED = /^vhost:|^amqp:|~|:[0-9a-f]{12}$/;

export function queueOf(vhost: string, name: string): string {
  // Most messages go to the queue of the message before.
  if (name !== last.name || vhost !== last.vhost) last = { vhost, name, queue: mapped(vhost, name) };
  return last.queue;
}

let last = { vhost: DEFAULT_VHOST, name: "q", queue: "q" };

function mapped(vhost: string, name: string): string {
  const prefix = prefixOf(vhost);
  const plain = prefix + name;
  if (PLAIN.test(name) && !MAPPED.test(name) && plain.length <= LONGEST_NAME) return plain;
  const readable = name.replaceAll(/[^A-Za-z0-9_.-]+/g, "-").slice(0, 64);
  return `${prefix}x${readable}:${hashOf(name)}`;
}

/** What scopes of tokens call an exchange. */
export function exchangeScope(vhost: string, name: string): string {
  return `exchange/${queueOf(vhost, name)}`;
}

function prefixOf(vhost: string): string {
  if (vhost === DEFAULT_VHOST) return "";
  const isPlain = PLAIN_VHOST.test(vhost) && vhost.length <= 32;
  return `${PREFIX}${isPlain ? vhost : `x${hashOf(vhost)}`}/`;
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 12);
}

/** A name for a queue or a consumer that the client left to the server. */
export function generatedName(prefix: "amq.gen-" | "amq.ctag-"): string {
  return prefix + randomBytes(16).toString("base64url").replaceAll(/[_-]/g, "0");
}
