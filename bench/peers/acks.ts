/** Knows when all that was handled is acked, for clients that ack in the background. */
export class Acks {
  #open = 0;
  #onSettled: (() => void) | undefined;

  begin(): void {
    this.#open++;
  }

  end(): void {
    if (--this.#open === 0) this.#onSettled?.();
  }

  async settled(): Promise<void> {
    while (this.#open > 0) await new Promise<void>((resolve) => (this.#onSettled = resolve));
  }
}
