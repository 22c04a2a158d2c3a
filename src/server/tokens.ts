import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { chownSync, lstatSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { kindOf, showAddress } from "../core/process/address.ts";
import { DibsError, invalid } from "../core/errors/errors.ts";
import { checkText } from "../core/input/options.ts";
import { show } from "../core/errors/show.ts";
import { checkRegular, filePathOf, realPathOf } from "../engine/real-file.ts";
import { Grant, parseScope, type Scope } from "./scopes.ts";

/** A token as it is stored: nothing in it grants access. */
export interface TokenRecord {
  id: string;
  name: string;
  scopes: Scope[];
  /** SHA-256 of the token. The token has 256 random bits, so no slower hash is needed. */
  hash: string;
  createdAt: string;
}

const TOKEN = /^dibs_([0-9a-f]{12})_[A-Za-z0-9_-]{43}$/;

/**
 * The tokens of a server, in a file that only its user may read. `dibs tokens` writes it. A running server follows it,
 * so that a revoked token is useless at once.
 */
export class Tokens {
  readonly path: string;
  #records: TokenRecord[] = [];
  /** Signs the texts that a server gives to clients and must recognise after a restart. */
  #secret = "";
  #readAt = "";

  constructor(path: string) {
    this.path = realPathOf(path, "tokens");
  }

  list(): TokenRecord[] {
    this.#refresh();
    return this.#records;
  }

  /** The token itself is returned only here, and stored nowhere. */
  add(name: string, scopes: string[]): { token: string; record: TokenRecord } {
    checkText(name, "A token's name", 128);
    if (scopes.length === 0)
      throw invalid("A token needs at least one scope, such as work:emails or admin:*.");
    const parsed = scopes.map(parseScope);
    const id = randomBytes(6).toString("hex");
    const token = `dibs_${id}_${randomBytes(32).toString("base64url")}`;
    const record = {
      ...{ id, name, scopes: parsed },
      ...{ hash: hashOf(token).toString("hex"), createdAt: new Date().toISOString() },
    };
    this.#change((records) => {
      if (records.some((each) => each.name === name))
        throw invalid(
          `There is already a token with the name ${show(name)}. Revoke it, or use another name.`,
        );
      return [...records, record];
    });
    return { token, record };
  }

  /** By name or id. */
  revoke(nameOrId: string): TokenRecord {
    let found: TokenRecord | undefined;
    this.#change((records) => {
      found = records.find(({ id, name }) => id === nameOrId || name === nameOrId);
      if (!found) throw invalid(`There is no token ${show(nameOrId)}. \`dibs tokens ls\` lists them.`);
      return records.filter((record) => record !== found);
    });
    return found!;
  }

  /** What a token allows; undefined if it is unknown. */
  check(token: string): { owner: string; grant: Grant } | undefined {
    const id = TOKEN.exec(token)?.[1];
    const record = this.list().find((each) => each.id === id);
    // Compared also if there is no record, so that the time taken reveals nothing.
    const expected = Buffer.from(record?.hash ?? NO_HASH, "hex");
    if (!timingSafeEqual(hashOf(token), expected) || !record) return undefined;
    return { owner: record.id, grant: new Grant(record.name, record.scopes) };
  }

  /** Proves that a session belongs to this owner: no other owner can compute it for any session. */
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
    // Reading a named pipe would block the server until another process writes to it.
    if (stat && !stat.isFile()) throw unreadable(this.path, "it is not a regular file");
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
      // The parser's message quotes the file, which contains a secret.
      throw unreadable(this.path, error instanceof SyntaxError ? "it is not JSON" : (error as Error).message);
    }
    throw unreadable(this.path, "it is not as `dibs tokens` writes it");
  }

  /** One change at a time: if two processes read the same file and write, one of the new tokens would be lost. */
  #change(change: (records: TokenRecord[]) => TokenRecord[]): void {
    // The draft replaces the file: a device would be lost, and other hard links would keep revoked tokens.
    const found = lstatSync(this.path, { throwIfNoEntry: false });
    if (found) checkRegular(this.path, found, "tokens");
    const draft = `${this.path}.new`;
    this.#begin(draft);
    try {
      const tokens = change(this.list());
      const secret = this.#secret || randomBytes(32).toString("base64url");
      writeFileSync(draft, `${JSON.stringify({ secret, tokens }, null, 2)}\n`, { flush: true });
      this.#giveToServer(draft);
      // Atomic, because a server may read the file at this moment.
      renameSync(draft, this.path);
    } catch (error) {
      rmSync(draft, { force: true });
      throw error;
    }
  }

  /** The draft file is the lock while a process writes. It is ignored after LONGEST_WRITE_MS: its process is gone. */
  #begin(draft: string): void {
    for (;;) {
      try {
        return writeFileSync(draft, "", { mode: 0o600, flag: "wx" });
      } catch (error) {
        const { code, message } = error as NodeJS.ErrnoException;
        if (code !== "EEXIST") throw unwritable(this.path, message);
      }
      const begun = statSync(draft, { throwIfNoEntry: false })?.mtimeMs;
      if (begun !== undefined && Date.now() - begun > LONGEST_WRITE_MS) rmSync(draft, { force: true });
      else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 20);
    }
  }

  /** A file of the administrator would be unreadable for the server, which runs as another user. */
  #giveToServer(draft: string): void {
    if (process.getuid?.() !== 0) return;
    const { uid, gid } = statSync(this.path, { throwIfNoEntry: false }) ?? statSync(dirname(this.path));
    chownSync(draft, uid, gid);
  }
}

const LONGEST_WRITE_MS = 5_000;
const NO_HASH = "0".repeat(64);

function hashOf(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}

function unreadable(path: string, reason: string): DibsError {
  return new DibsError(
    "INVALID",
    `The tokens in ${path} cannot be read: ${reason}. No client is accepted with them.`,
  );
}

function unwritable(path: string, reason: string): DibsError {
  return new DibsError("INVALID", `The tokens in ${path} cannot be written: ${reason}.`);
}

/** Next to the store's file, or in the working directory for other stores. */
export function tokensPathOf({ tokens, url }: { tokens: string | null; url: string }): string {
  if (tokens !== null) return tokens;
  const kind = kindOf(url);
  if (kind === "server")
    throw invalid(
      `${showAddress(url)} is a server, and its tokens are in a file on its machine: create them there, or name that file with --tokens.`,
    );
  return kind === "file" ? `${filePathOf(url)}.tokens.json` : "dibs.tokens.json";
}
