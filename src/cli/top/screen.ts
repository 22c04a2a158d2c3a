import { clearTimeout, setTimeout } from "node:timers";

/**
 * A terminal that `dibs top` owns: the alternate screen, no cursor, keys one by one. Writes at most four times a second,
 * whatever happens. Whatever ends the process, the terminal is as before.
 */
export class Screen {
  readonly #frame: () => string[];
  readonly #onKey: (key: string) => void;
  #timer: NodeJS.Timeout | undefined;
  #drawnAt = -Infinity;
  #isOpen = false;

  constructor(frame: () => string[], onKey: (key: string) => void) {
    this.#frame = frame;
    this.#onKey = onKey;
  }

  get size(): { columns: number; rows: number } {
    return { columns: process.stdout.columns || 80, rows: process.stdout.rows || 24 };
  }

  open(): void {
    this.#isOpen = true;
    process.on("exit", this.close);
    process.stdout.write("\u001b[?1049h\u001b[?25l");
    process.stdin.setRawMode(true).setEncoding("utf8").on("data", this.#read).resume();
    process.stdout.on("resize", this.redraw);
    this.redraw();
  }

  /** Draws now or, if the last drawing was less than a quarter of a second ago, when that has passed. */
  readonly redraw = (): void => {
    if (!this.#isOpen || this.#timer) return;
    const wait = Math.max(0, this.#drawnAt + LEAST_MS - performance.now());
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#drawnAt = performance.now();
      const lines = this.#frame().map((line) => `${line}\u001b[K`);
      process.stdout.write(`\u001b[H${lines.join("\r\n")}\u001b[J`);
    }, wait);
  };

  readonly close = (): void => {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    clearTimeout(this.#timer);
    process.off("exit", this.close);
    process.stdout.off("resize", this.redraw);
    process.stdin.off("data", this.#read).setRawMode(false).pause();
    process.stdout.write("\u001b[?25h\u001b[?1049l");
  };

  readonly #read = (chunk: string): void => {
    for (const key of chunk.match(KEYS) ?? []) this.#onKey(NAMES[key] ?? key);
  };
}

const LEAST_MS = 250;

// oxlint-disable-next-line no-control-regex -- what a terminal sends for arrows begins with an escape
const KEYS = /\u001b\[[A-D]|[\s\S]/g;
const NAMES: Record<string, string> = {
  "\u001b[A": "up",
  "\u001b[B": "down",
  "\u001b[C": "enter",
  "\u001b[D": "escape",
  k: "up",
  j: "down",
  "\r": "enter",
  "\n": "enter",
  "\u001b": "escape",
  "\u007f": "escape",
  "\u0003": "quit",
  "\u0004": "quit",
  q: "quit",
  p: "pause",
};
