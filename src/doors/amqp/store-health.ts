/**
 * Whether the store accepts messages. After a failed write (a full disk, for example) it tries to write once a second,
 * and publishers are blocked until that succeeds.
 */
export class StoreHealth {
  readonly #write: () => Promise<unknown>;
  readonly #onRecovered: () => void;
  #isFailing = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(write: () => Promise<unknown>, onRecovered: () => void) {
    this.#write = write;
    this.#onRecovered = onRecovered;
  }

  get isFailing(): boolean {
    return this.#isFailing;
  }

  failed(): void {
    if (this.#isFailing) return;
    this.#isFailing = true;
    this.#askLater();
  }

  #askLater(): void {
    this.#timer = setTimeout(() => void this.#ask(), ASK_MS);
    this.#timer.unref();
  }

  async #ask(): Promise<void> {
    try {
      await this.#write();
    } catch {
      return this.#askLater();
    }
    this.#isFailing = false;
    this.#onRecovered();
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}

const ASK_MS = 1_000;
