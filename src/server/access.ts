import { DibsError } from "../core/errors.ts";
import { EVERYTHING, Grant } from "./scopes.ts";
import type { Tokens } from "./tokens.ts";

export interface Entry {
  /** Nobody else may resume what this one began. */
  owner: string;
  grant: Grant;
}

/** Who is let in: with tokens, who has one; without any, everybody, which is for this machine alone. */
export class Access {
  readonly #tokens: Tokens;
  readonly #everybody: Entry = { owner: "everybody", grant: new Grant("everybody", EVERYTHING) };
  readonly #letsAnyoneIn: boolean;

  constructor(tokens: Tokens, options: { letAnyoneIn: boolean }) {
    this.#tokens = tokens;
    this.#letsAnyoneIn = options.letAnyoneIn;
  }

  /** Once there are tokens, one is needed, on whichever address, unless anyone may come in. */
  get asksForTokens(): boolean {
    return !this.#letsAnyoneIn && this.#tokens.list().length > 0;
  }

  enter(token: string | undefined): Entry {
    if (token !== undefined) {
      const known = this.#tokens.check(token);
      if (known) return known;
      if (this.asksForTokens)
        throw new DibsError(
          "FORBIDDEN",
          "This token is not known here: it was revoked, or is another server's.",
        );
    }
    if (!this.asksForTokens) return this.#everybody;
    throw new DibsError(
      "FORBIDDEN",
      "This server asks for a token. `dibs tokens add NAME --scope …` makes one; give it as DIBS_TOKEN, or open(url, { token }).",
    );
  }

  /** By which a worker's session is known again after a restart. Without tokens all are one, and nothing has to be proved. */
  ticketOf(owner: string, session: number): string {
    return owner === this.#everybody.owner ? this.#everybody.owner : this.#tokens.ticketOf(owner, session);
  }

  /** Whether what was allowed once still is. */
  isWelcome(owner: string): boolean {
    return owner === this.#everybody.owner ? !this.asksForTokens : this.#tokens.has(owner);
  }
}
