import { NoPassword } from "./failure.ts";

/** Returns the current password: that of a cloud database is a token which expires. Called for every connection. */
export type GivePassword = () => string | Promise<string>;

/** Where connections get their password, if it is not part of the address: connection.ts asks for it at every connect. */
export interface PasswordSource {
  /** The last password that is known. */
  readonly last: string | undefined;
  get(): Promise<string>;
}

/** The user's function, for the connections of the program's own thread. */
export class GivenPassword implements PasswordSource {
  readonly #give: GivePassword;
  #last: string | undefined;

  constructor(give: GivePassword) {
    this.#give = give;
  }

  get last(): string | undefined {
    return this.#last;
  }

  async get(): Promise<string> {
    let password: unknown;
    try {
      password = await this.#give();
    } catch (error) {
      throw new NoPassword(error);
    }
    if (typeof password !== "string" || password === "")
      throw new NoPassword(new Error(`it returned ${password === "" ? "an empty text" : typeof password}`));
    return (this.#last = password);
  }
}

/** A program whose event loop is blocked does not answer. It may also just take long. */
const ANSWER_MS = 1_000;

/**
 * The password for the heartbeat thread, which cannot call the user's function: it asks the program's own thread. Without
 * an answer it uses the last known password, and a later answer counts for the next connect.
 */
export class AskedPassword implements PasswordSource {
  readonly #ask: () => void;
  readonly #asking = new Set<() => void>();
  #last: string;

  constructor(last: string, ask: () => void) {
    this.#last = last;
    this.#ask = ask;
  }

  get last(): string {
    return this.#last;
  }

  async get(): Promise<string> {
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ANSWER_MS);
      this.#asking.add(() => {
        clearTimeout(timer);
        resolve();
      });
      this.#ask();
    });
    return this.#last;
  }

  /** `null`: the function failed. */
  answer(password: string | null): void {
    this.#last = password ?? this.#last;
    for (const proceed of this.#asking) proceed();
    this.#asking.clear();
  }
}
