import { DibsError } from "../core/errors/errors.ts";
import { UnknownToken } from "../doors/http/problem.ts";
import { EVERYTHING, Grant } from "./scopes.ts";
import type { TokenRecord, Tokens } from "./tokens.ts";

// Decides who may connect. The server and its AMQP door ask it for each connection, and again after tokens have
// changed.

export interface Entry {
  /** Only this owner may resume its sessions. */
  owner: string;
  grant: Grant;
}

/**
 * Who may connect: with tokens, clients that have one; without tokens everyone, which is only for the local machine.
 */
export class Access {
  readonly #tokens: Tokens;
  readonly #everybody: Entry = { owner: "everybody", grant: new Grant("everybody", EVERYTHING, false) };
  readonly #letsAnyoneIn: boolean;
  #hasAsked = false;
  /** The tokens at the last call of changes(). */
  #before: readonly TokenRecord[] | undefined;

  constructor(tokens: Tokens, options: { letAnyoneIn: boolean }) {
    this.#tokens = tokens;
    this.#letsAnyoneIn = options.letAnyoneIn;
  }

  /**
   * Once there are tokens, every client needs one, on any address, unless anyone may connect. This stays so while the
   * server runs: revoking the last token, or losing their file, must not open the server to everyone.
   */
  get asksForTokens(): boolean {
    if (this.#letsAnyoneIn) return false;
    this.#hasAsked ||= this.#tokens.list().length > 0;
    return this.#hasAsked;
  }

  /** What a token allows; undefined if it is unknown. */
  find(token: string): Entry | undefined {
    return this.#lookUp(token).known;
  }

  /** For clients without a token; undefined if this server requires one. */
  anyone(): Entry | undefined {
    return this.#lookUp(undefined).asks ? undefined : this.#everybody;
  }

  enter(token: string | undefined): Entry {
    const { asks, known } = this.#lookUp(token);
    if (known) return known;
    if (!asks) return this.#everybody;
    throw new UnknownToken(
      token === undefined
        ? "This server requires a token. Create one with `dibs tokens add NAME --scope …`, and pass it as DIBS_TOKEN or open(url, { token })."
        : "This token is unknown: it was revoked, or belongs to another server.",
    );
  }

  #lookUp(token: string | undefined): { asks: boolean; known: Entry | undefined } {
    try {
      return {
        asks: this.asksForTokens,
        known: token === undefined ? undefined : this.#tokens.check(token),
      };
    } catch {
      // The operator finds the reason in the log. A client may retry, and is not refused for good.
      throw new DibsError(
        "UNAVAILABLE",
        "This server cannot read its tokens, and refuses all clients until it can. Its log says why.",
      );
    }
  }

  /**
   * Proves after a restart that a session belongs to this owner. Without tokens all clients are one owner, and nothing
   * has to be proved.
   */
  ticketOf(owner: string, session: number): string {
    return owner === this.#everybody.owner ? this.#everybody.owner : this.#tokens.ticketOf(owner, session);
  }

  /** Tokens that were created and revoked since the last call; empty for the first call. */
  changes(): { verb: string; name: string }[] {
    const now = this.#tokens.list();
    const before = this.#before ?? now;
    this.#before = now;
    if (before === now) return [];
    const missingIn = (others: readonly TokenRecord[]) => (one: TokenRecord) =>
      !others.some(({ id }) => id === one.id);
    return [
      ...before.filter(missingIn(now)).map(({ name }) => ({ verb: "revoke token", name })),
      ...now.filter(missingIn(before)).map(({ name }) => ({ verb: "add token", name })),
    ];
  }

  /** Whether this owner may still connect. */
  isWelcome(owner: string): boolean {
    return owner === this.#everybody.owner ? !this.asksForTokens : this.#tokens.has(owner);
  }
}
