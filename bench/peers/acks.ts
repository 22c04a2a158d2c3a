/** Counts open acks, and resolves when all handled tasks are acked. For clients that ack in the background. */
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
