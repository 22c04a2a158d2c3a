import { closeSync, openSync, writeSync } from "node:fs";

/**
 * The process groups that run now, one to a line of a fixed length. guardian.ts reads them from the file when the
 * process that wrote them is gone, and not before: a message for each program would wake that process each time.
 */

/** Characters of a line: a process group, spaces, and the end of the line. */
export const LINE = 12;

export class GroupsFile {
  readonly #file: number;
  readonly #lines = new Map<number, number>();
  readonly #free: number[] = [];

  constructor(path: string) {
    this.#file = openSync(path, "wx", 0o600);
  }

  add(group: number): void {
    const line = this.#free.pop() ?? this.#lines.size;
    this.#lines.set(group, line);
    this.#write(line, String(group));
  }

  remove(group: number): void {
    const line = this.#lines.get(group)!;
    this.#lines.delete(group);
    this.#free.push(line);
    this.#write(line, "");
  }

  close(): void {
    closeSync(this.#file);
  }

  #write(line: number, text: string): void {
    try {
      writeSync(this.#file, `${text.padEnd(LINE - 1)}\n`, line * LINE);
    } catch {
      // The disk is full: on Linux the guardian also finds programs by their mark.
    }
  }
}
