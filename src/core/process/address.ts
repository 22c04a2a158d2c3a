import { DibsError, invalid } from "../errors/errors.ts";
import { escapeControls, show } from "../errors/show.ts";

/**
 * Addresses of stores and servers: which kind of store an address names, and how it is shown to people. open(), the
 * server and the shell call this. Everything that prints an address (errors, logs, `--print-config`) prints it through
 * this file, because an address may contain a password.
 */

export type AddressKind = "memory" | "file" | "postgres" | "server";

/** A `pg.Pool`, of any version of `pg`, used as the address of its database. */
export interface PostgresPool {
  readonly options: object;
  connect(...given: never[]): unknown;
}

function isPool(given: unknown): given is PostgresPool {
  const { options, connect } = (given ?? {}) as Partial<PostgresPool>;
  return typeof options === "object" && options !== null && typeof connect === "function";
}

const KINDS = new Map<string, AddressKind>([
  ["file", "file"],
  ["postgres", "postgres"],
  ["postgresql", "postgres"],
  ["http", "server"],
  ["https", "server"],
  ["ws", "server"],
  ["wss", "server"],
]);

const MEMORY = ":memory:";
const SCHEME = /^([a-z][a-z0-9+.-]*):\/\//i;

/**
 * Refuses a text that is not an address. Also refuses a text that could be an address or a file name: ./ in front makes
 * it a file.
 */
export function kindOf(address: unknown): AddressKind {
  if (isPool(address)) return "postgres";
  if (typeof address !== "string" || address === "") {
    throw invalid(
      `open() takes the path of a file, a postgres:// or http:// address, a pg.Pool, or ":memory:"; got ${show(address)}.`,
    );
  }
  if (address !== address.trim() || address.includes("\0")) {
    throw invalid(
      `An address or path must not begin or end with a blank, or contain NUL; got ${showAddress(address)}.`,
    );
  }
  if (address === MEMORY) return "memory";
  const scheme = SCHEME.exec(address)?.[1]?.toLowerCase();
  if (scheme === undefined) {
    checkPath(address);
    return "file";
  }
  const kind = KINDS.get(scheme);
  if (kind) return kind;
  throw new DibsError(
    "UNSUPPORTED",
    `open() cannot open ${scheme}:// addresses in this version. Give the path of a file, such as "work.db", a postgres:// or http:// address, or ":memory:".`,
  );
}

/** Starts as only a path can: /, ./, ../ or a Windows drive. */
const CLEAR_PATH = /^(?:\.{0,2}[/\\](?![/\\])|[a-z]:[/\\])/i;
/** A scheme, a host with its port, or a user with a password: each has a colon before the first slash. */
const COLON = /^[^/\\]*(?::|%3a)/i;
const NETWORK_USER = /^[/\\]{2}[^/\\]*(?:@|%40)/i;
/** A URL whose colon is missing: postgres//user:password@host. */
const USER_AFTER_SLASHES = /[/\\]{2}[^/\\]*(?::|%3a).*(?:@|%40)/i;
/** Connection strings: host=db password=…, and Server=db;Password=… */
const KEYWORDS =
  /(?:^|[\s;])(?:host|hostaddr|server|port|user|username|dbname|database|\w*password|pwd)\s*=/i;
const HOST_AND_PORT = /^(?:\[[\da-f:.]+\]|[\w.-]+):\d{1,5}$/i;

function isPath(text: string): boolean {
  if (CLEAR_PATH.test(text)) return true;
  return ![COLON, NETWORK_USER, USER_AFTER_SLASHES, KEYWORDS].some((pattern) => pattern.test(text));
}

function checkPath(text: string): void {
  if (isPath(text)) return;
  if (HOST_AND_PORT.test(text)) {
    throw invalid(
      `"${text}" is a host and a port. Write http://${text} for a dibs server, postgres://${text}/database for PostgreSQL, ` +
        `or ./${text} for a file of that name.`,
    );
  }
  throw invalid(
    `The address ${showAddress(text)} is neither a path nor a URL. Write http://host:7411 for a dibs server, ` +
      `postgres://user:password@host:5432/database for PostgreSQL, and ./ before the name of a file that looks like an address.`,
  );
}

const HIDDEN = "***";

/** An address as error messages show it: quoted, short, and without secrets. */
export function showAddress(address: unknown): string {
  return show(typeof address === "string" ? withoutSecrets(address) : address);
}

/**
 * An address without user, password and unknown parameters. The result contains only parts that are known not to be
 * secret. Everything else is left out.
 */
export function withoutSecrets(address: string): string {
  const text = address.trim();
  if (text === MEMORY) return text;
  const scheme = SCHEME.exec(text)?.[0];
  if (scheme === undefined) return isPath(text) || HOST_AND_PORT.test(text) ? escapeControls(text) : HIDDEN;
  const rest = text.slice(scheme.length);
  if (/^file:/i.test(scheme) && rest.startsWith("/"))
    return escapeControls(scheme + rest.replace(/[?#].*/s, ""));
  const user = rest.includes("@") ? `${HIDDEN}@` : "";
  const parts = partsOf(rest);
  if (!parts) return `${scheme}${user}…`;
  return `${scheme}${user}${parts.hosts}${parts.path}${parts.query && `?${showQuery(parts.query)}`}`;
}

/** The host, port and database of a PostgreSQL address, for messages that name the store. */
export function hostAndDatabaseOf(url: string): string {
  const parts = partsOf(url.trim().replace(SCHEME, ""));
  if (!parts) return "the given address";
  const { hosts, path } = parts;
  return `${hosts === "" || hosts.startsWith(":") ? `localhost${hosts}` : hosts}${path}`;
}

const HOST = /(?:\[[\da-f:.]+\]|[\w.-]*)(?::\d{1,5})?/.source;
const PARTS = new RegExp(`^(${HOST}(?:,${HOST})*)(/[\\w./~+-]*)?(?:\\?([^#]*))?$`, "i");

/**
 * The part after the user and the password. Undefined if it contains characters that do not belong there: then a part
 * of it may be a password whose @, /, ? or # was not escaped.
 */
function partsOf(rest: string): { hosts: string; path: string; query: string } | undefined {
  const at = rest.lastIndexOf("@");
  if (/[/?#\\]/.test(rest.slice(0, at + 1))) return undefined;
  const found = PARTS.exec(rest.slice(at + 1));
  return found ? { hosts: found[1]!, path: found[2] ?? "", query: found[3] ?? "" } : undefined;
}

/** Parameters that are not secret, with values that cannot contain a secret. */
const SHOWN = /^(?:sslmode|host|port)=[\w./-]*$/;

function showQuery(query: string): string {
  return query
    .split("&")
    .map((each) => (SHOWN.test(each) ? each : HIDDEN))
    .join("&");
}
