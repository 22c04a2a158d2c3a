/** Longer than any process lives: the timer only keeps the process alive and never fires. */
const NEVER_MS = 2_147_483_647;

/**
 * Keeps the process alive while an operation waits. The store's threads and timers do not, so that a script ends when
 * its work is done.
 */
export class KeepAlive {
  #holders = 0;
  #timer: ReturnType<typeof setInterval> | undefined;

  hold(): () => void {
    this.#holders++;
    this.#timer ??= setInterval(() => {}, NEVER_MS);
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      if (--this.#holders > 0) return;
      clearInterval(this.#timer);
      this.#timer = undefined;
    };
  }

  async during<T>(work: Promise<T>): Promise<T> {
    const release = this.hold();
    try {
      return await work;
    } finally {
      release();
    }
  }
}
