import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { DibsError, invalid } from "../core/errors.ts";
import { checkText } from "../core/options.ts";
import { show } from "../core/show.ts";
import { Grant, parseScope, type Scope } from "./scopes.ts";

/** A token at rest: nothing in it lets anybody in. */
export interface TokenRecord {
  id: string;
  name: string;
  scopes: Scope[];
  /** SHA-256 of the token. It is 256 random bits, so that nothing slower is needed. */
  hash: string;
  createdAt: string;
}

const TOKEN = /^dibs_([0-9a-f]{12})_[A-Za-z0-9_-]{43}$/;

/**
 * The tokens of a server, in a file that only its user may read. `dibs tokens` writes it; a running server follows it,
 * so that a token that was revoked is of no use from that moment on.
 */
export class Tokens {
  readonly path: string;
  #records: TokenRecord[] = [];
  /** Signs what a server hands out and must know again after a restart. */
  #secret = "";
  #readAt = "";

  constructor(path: string) {
    this.path = path;
  }

  list(): TokenRecord[] {
    this.#refresh();
    return this.#records;
  }

  /** The token itself is shown once, here, and kept nowhere. */
  add(name: string, scopes: string[]): { token: string; record: TokenRecord } {
    checkText(name, "A token's name", 128);
    if (scopes.length === 0)
      throw invalid("A token needs at least one scope, such as work:emails or admin:*.");
    const parsed = scopes.map(parseScope);
    if (this.list().some((record) => record.name === name))
      throw invalid(`There is a token of the name ${show(name)} already. Revoke it, or take another name.`);
    const id = randomBytes(6).toString("hex");
    const token = `dibs_${id}_${randomBytes(32).toString("base64url")}`;
    const record = {
      ...{ id, name, scopes: parsed },
      ...{ hash: hashOf(token).toString("hex"), createdAt: new Date().toISOString() },
    };
    this.#write([...this.#records, record]);
    return { token, record };
  }

  /** By name or id. */
  revoke(nameOrId: string): TokenRecord {
    const found = this.list().find(({ id, name }) => id === nameOrId || name === nameOrId);
    if (!found)
      throw invalid(`There is no token ${show(nameOrId)}. \`dibs tokens ls\` lists those there are.`);
    this.#write(this.#records.filter((record) => record !== found));
    return found;
  }

  /** What a token allows; undefined: it is none of ours. */
  check(token: string): { owner: string; grant: Grant } | undefined {
    const id = TOKEN.exec(token)?.[1];
    const record = this.list().find((each) => each.id === id);
    // Compared also where there is none, so that the time it takes does not tell.
    const expected = Buffer.from(record?.hash ?? NO_HASH, "hex");
    if (!timingSafeEqual(hashOf(token), expected) || !record) return undefined;
    return { owner: record.id, grant: new Grant(record.name, record.scopes) };
  }

  /** Proves that a session was this owner's: nobody else can make it, not even for a session of another's. */
  ticketOf(owner: string, session: number): string {
    this.#refresh();
    return createHmac("sha256", this.#secret).update(`${owner} ${session}`).digest("base64url");
  }

  has(owner: string): boolean {
    return this.list().some(({ id }) => id === owner);
  }

  #refresh(): void {
    const seen = this.#stamp();
    if (seen === this.#readAt) return;
    const { tokens, secret } = seen === "" ? { tokens: [], secret: "" } : this.#read();
    this.#records = tokens;
    this.#secret = secret;
    this.#readAt = seen;
  }

  #stamp(): string {
    const stat = statSync(this.path, { throwIfNoEntry: false, bigint: true });
    return stat ? `${stat.ino} ${stat.mtimeNs} ${stat.size}` : "";
  }

  #read(): { tokens: TokenRecord[]; secret: string } {
    try {
      const file = JSON.parse(readFileSync(this.path, "utf8")) as { tokens: TokenRecord[]; secret: string };
      const { tokens, secret } = file;
      if (
        typeof secret === "string" &&
        tokens.every(({ id, hash, scopes }) => id && /^[0-9a-f]{64}$/.test(hash) && scopes.map(parseScope))
      )
        return { tokens, secret };
    } catch (error) {
      throw unreadable(this.path, (error as Error).message);
    }
    throw unreadable(this.path, "it is not as `dibs tokens` writes it");
  }

  /** Whole or not at all: a server may read it in this moment. */
  #write(records: TokenRecord[]): void {
    const secret = this.#secret || randomBytes(32).toString("base64url");
    const draft = `${this.path}.${process.pid}.new`;
    try {
      writeFileSync(draft, `${JSON.stringify({ secret, tokens: records }, null, 2)}\n`, {
        mode: 0o600,
        flush: true,
      });
      renameSync(draft, this.path);
    } finally {
      rmSync(draft, { force: true });
    }
  }
}

const NO_HASH = "0".repeat(64);

function hashOf(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}

function unreadable(path: string, reason: string): DibsError {
  return new DibsError(
    "INVALID",
    `The tokens in ${path} cannot be read: ${reason}. Nobody is let in by them.`,
  );
}

/** Beside the store's file; in the working directory for stores that are elsewhere. */
export function tokensPathOf({ tokens, url }: { tokens: string | null; url: string }): string {
  if (tokens !== null) return tokens;
  const isFile = url !== ":memory:" && !/^[a-z][a-z0-9+]*:\/\//i.test(url);
  return isFile ? `${url}.tokens.json` : "dibs.tokens.json";
}
