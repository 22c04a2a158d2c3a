/**
 * Bytes of messages that were published on this server and that the store has not confirmed yet. Above the limit,
 * connections that publish are blocked, until half of it is free again.
 */
export class Unstored {
  readonly #most: number;
  readonly #onFree: () => void;
  #bytes = 0;
  #isFull = false;

  constructor(most: number, onFree: () => void) {
    this.#most = most;
    this.#onFree = onFree;
  }

  get isFull(): boolean {
    return this.#isFull;
  }

  add(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > this.#most) this.#isFull = true;
  }

  remove(bytes: number): void {
    this.#bytes -= bytes;
    if (!this.#isFull || this.#bytes > this.#most / 2) return;
    this.#isFull = false;
    this.#onFree();
  }
}
