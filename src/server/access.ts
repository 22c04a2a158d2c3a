import { DibsError } from "../core/errors.ts";
import { NotKnown } from "../doors/http/problem.ts";
import { EVERYTHING, Grant } from "./scopes.ts";
import type { TokenRecord, Tokens } from "./tokens.ts";

export interface Entry {
  /** Nobody else may resume what this one began. */
  owner: string;
  grant: Grant;
}

/** Who is let in: with tokens, who has one; without any, everybody, which is for this machine alone. */
export class Access {
  readonly #tokens: Tokens;
  readonly #everybody: Entry = { owner: "everybody", grant: new Grant("everybody", EVERYTHING, false) };
  readonly #letsAnyoneIn: boolean;
  #hasAsked = false;
  /** As they were when somebody last asked what became of them. */
  #before: readonly TokenRecord[] | undefined;

  constructor(tokens: Tokens, options: { letAnyoneIn: boolean }) {
    this.#tokens = tokens;
    this.#letsAnyoneIn = options.letAnyoneIn;
  }

  /**
   * Once there are tokens, one is needed, on whichever address, unless anyone may come in. That lasts as long as the
   * server: to revoke the last token, or to lose their file, must not open it to everybody.
   */
  get asksForTokens(): boolean {
    if (this.#letsAnyoneIn) return false;
    this.#hasAsked ||= this.#tokens.list().length > 0;
    return this.#hasAsked;
  }

  enter(token: string | undefined): Entry {
    const { asks, known } = this.#look(token);
    if (known) return known;
    if (!asks) return this.#everybody;
    throw new NotKnown(
      token === undefined
        ? "This server asks for a token. `dibs tokens add NAME --scope …` makes one; give it as DIBS_TOKEN, or open(url, { token })."
        : "This token is not known here: it was revoked, or is another server's.",
    );
  }

  #look(token: string | undefined): { asks: boolean; known: Entry | undefined } {
    try {
      return {
        asks: this.asksForTokens,
        known: token === undefined ? undefined : this.#tokens.check(token),
      };
    } catch {
      // Whoever looks after the server finds the reason in its log; a client comes again, and is not turned away for ever.
      throw new DibsError(
        "UNAVAILABLE",
        "This server cannot read its tokens, and lets nobody in until it can. Its log says why.",
      );
    }
  }

  /** By which a worker's session is known again after a restart. Without tokens all are one, and nothing has to be proved. */
  ticketOf(owner: string, session: number): string {
    return owner === this.#everybody.owner ? this.#everybody.owner : this.#tokens.ticketOf(owner, session);
  }

  /** Tokens that were made and revoked since this was last asked; nothing the first time. */
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

  /** Whether what was allowed once still is. */
  isWelcome(owner: string): boolean {
    return owner === this.#everybody.owner ? !this.asksForTokens : this.#tokens.has(owner);
  }
}
