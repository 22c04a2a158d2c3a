import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { isIP } from "node:net";
import { DibsError, invalid } from "../core/errors/errors.ts";
import { show } from "../core/errors/show.ts";

// Which web pages and host names may call the server: the defence against DNS rebinding and foreign origins.

export interface CallerRules {
  /** Names by which this server may be called, besides localhost, addresses and the name that it listens on. */
  allowHosts: readonly string[];
  /** Origins of web pages that may call it, besides its own. */
  allowOrigins: readonly string[];
}

/** Normalises names and origins: an operator may have copied a whole address. */
export function rulesOf(
  host: string,
  allowHosts: readonly string[],
  allowOrigins: readonly string[],
): CallerRules {
  return {
    allowHosts: [host.toLowerCase(), ...allowHosts.map(nameOf)],
    allowOrigins: allowOrigins.map(originOf),
  };
}

function nameOf(text: string): string {
  const name = hostOf(text);
  if (name !== undefined) return name;
  throw invalid(`--allow-host is a name, such as queue.internal; got ${show(text)}.`);
}

function originOf(text: string): string {
  if (!URL.canParse(text))
    throw invalid(`--allow-origin is such as https://board.example; got ${show(text)}.`);
  const { origin } = new URL(text);
  // For schemes that the standard does not know, such as those of extensions.
  return origin === "null" ? text : origin;
}

/**
 * A web page in a user's browser must not reach this server: neither under a name that its author points at this
 * machine (DNS rebinding), nor from its own origin. Programs send no Origin, and use the server's own names.
 */
export function checkCaller(headers: IncomingHttpHeaders, rules: CallerRules): void {
  const host = hostOf(headers.host);
  if (host === undefined || !isOurs(host, rules)) {
    throw new DibsError(
      "FORBIDDEN",
      `This server is not called ${show(headers.host)}. If it should be, start it with --allow-host ${host ?? "NAME"}.`,
    );
  }
  const { origin } = headers;
  if (origin === undefined || rules.allowOrigins.includes(origin)) return;
  if (URL.canParse(origin) && new URL(origin).host === headers.host?.toLowerCase()) return;
  throw new DibsError(
    "FORBIDDEN",
    `Pages of ${show(origin)} may not call this server. If they should, start it with --allow-origin ${show(origin)}.`,
  );
}

/** What pages of another origin may send, besides what every page may. */
const SHARED = {
  "access-control-allow-methods": "GET, HEAD, POST, PUT, DELETE",
  "access-control-allow-headers": "authorization, content-type, idempotency-key, traceparent, tracestate",
  "access-control-max-age": "600",
};

/**
 * A browser shows a page of another origin only what the server shares with it, and asks first (a preflight request)
 * before it sends what a form could not. Returns whether the request was only that preflight.
 */
export function shareWithOrigin(
  { method, headers }: IncomingMessage,
  response: ServerResponse,
  { allowOrigins }: CallerRules,
): boolean {
  const { origin } = headers;
  if (origin === undefined || !allowOrigins.includes(origin)) return false;
  response.setHeader("access-control-allow-origin", origin);
  response.setHeader("vary", "origin");
  if (method !== "OPTIONS" || headers["access-control-request-method"] === undefined) return false;
  response.writeHead(204, SHARED).end();
  return true;
}

/** An address cannot be rebound: it names the machine itself. */
function isOurs(host: string, { allowHosts }: CallerRules): boolean {
  return host === "localhost" || isIP(host) !== 0 || allowHosts.includes(host);
}

/** Without the port and the brackets. */
function hostOf(header: string | undefined): string | undefined {
  if (header === undefined) return undefined;
  const url = `http://${header}`;
  if (!URL.canParse(url) || /[/?#@\\]/.test(header)) return undefined;
  return new URL(url).hostname.replace(/^\[(.*)\]$/, "$1");
}

export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127\.\d+\.\d+\.\d+$/.test(host);
}

/** The token of `Authorization: Bearer …`; undefined if there is none. */
export function bearerOf(headers: IncomingHttpHeaders): string | undefined {
  return /^Bearer +(\S+) *$/i.exec(headers.authorization ?? "")?.[1];
}
