import { closeSync, openSync, readFileSync, writeSync } from "node:fs";

/** What a process in the storm logs of what it learned, before it does the next thing. */
export type Entry =
  /** `add` is about to be called for a task without a key: if nothing more is logged, its outcome is unknown. */
  | { kind: "adding"; by: string; n: number }
  /** `add` has resolved. */
  | { kind: "added"; id: string; by: string; n: number; key: string | null }
  /** A handler has begun, or a manual claim was made. */
  | { kind: "began"; id: string; fence: number; attempt: number; by: string }
  /** A handler is about to throw. */
  | { kind: "failing"; id: string; fence: number }
  /** `ack` has resolved. */
  | { kind: "acked"; id: string; fence: number }
  /** `ack` was refused: CLAIM_LOST. */
  | { kind: "lost"; id: string; fence: number };

/** Survives SIGKILL without fsync: what was written is in the kernel. */
export class StormLog {
  readonly #fd: number;

  constructor(path: string) {
    this.#fd = openSync(path, "a");
  }

  write(entry: Entry): void {
    writeSync(this.#fd, `${JSON.stringify(entry)}\n`);
  }

  close(): void {
    closeSync(this.#fd);
  }
}

export function readLog(path: string): Entry[] {
  return readFileSync(path, "utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Entry);
}
