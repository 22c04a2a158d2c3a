import { StringDecoder } from "node:string_decoder";

/**
 * What a program writes, up to a limit; the rest is counted. A program may write more than this machine has memory.
 * Used by launch.ts; perl-launcher.ts keeps the same bytes by itself.
 */

export interface Captured {
  text: string;
  /** Bytes that were written. */
  bytes: number;
  /** Bytes of them that were not kept. */
  missing: number;
}

/** The first bytes: standard output, which becomes the result. */
export class Head {
  readonly #most: number;
  readonly #chunks: Buffer[] = [];
  #kept = 0;
  #bytes = 0;

  constructor(most: number) {
    this.#most = most;
  }

  add(chunk: Buffer): void {
    this.#bytes += chunk.byteLength;
    const room = this.#most - this.#kept;
    if (room <= 0) return;
    const part = chunk.subarray(0, room);
    this.#kept += part.byteLength;
    this.#chunks.push(part);
  }

  get captured(): Captured {
    return {
      text: textOfHead(Buffer.concat(this.#chunks)),
      bytes: this.#bytes,
      missing: this.#bytes - this.#kept,
    };
  }
}

/** The last bytes: standard error, whose end says why a program failed. */
export class Tail {
  readonly #most: number;
  #chunks: Buffer[] = [];
  #kept = 0;
  #bytes = 0;

  constructor(most: number) {
    this.#most = most;
  }

  add(chunk: Buffer): void {
    this.#bytes += chunk.byteLength;
    this.#chunks.push(chunk);
    this.#kept += chunk.byteLength;
    // Joined only now and then: each joining copies all of it.
    if (this.#kept > this.#most * 2) this.#cut();
  }

  #cut(): void {
    const all = Buffer.concat(this.#chunks);
    const last = Buffer.from(all.subarray(Math.max(0, all.byteLength - this.#most)));
    this.#chunks = [last];
    this.#kept = last.byteLength;
  }

  get captured(): Captured {
    this.#cut();
    return { text: textOfTail(this.#chunks[0]!), bytes: this.#bytes, missing: this.#bytes - this.#kept };
  }
}

/** The first bytes as text, without a character that was cut in half. */
export function textOfHead(bytes: Buffer): string {
  return new StringDecoder("utf8").write(bytes);
}

/** The last bytes as text: the first of them may be the rest of a character. */
export function textOfTail(bytes: Buffer): string {
  return bytes.toString("utf8").replace(/^\uFFFD+/, "");
}
