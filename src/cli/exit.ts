import { isDibsError } from "../core/errors/errors.ts";

/** Exit codes for calling programs. Documented in docs/reference/shell.md. */
export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  unavailable: 3,
  forbidden: 4,
  /** The queue, task, schedule, … that the command names does not exist. */
  "not found": 5,
  /** A person was asked for confirmation and said no. */
  declined: 6,
  /** `dibs work --once`: the task was handled, and failed. */
  "task failed": 7,
  /** `dibs work --once --wait`: no task came in time. */
  "no task": 8,
  /** Ctrl-C ended the command before it was finished. */
  interrupted: 130,
} as const;

/** An error of the shell itself, with the exit code that it leads to. */
export class ShellError extends Error {
  readonly exitCode: number;

  constructor(reason: keyof typeof EXIT, message: string) {
    super(message);
    this.exitCode = EXIT[reason];
  }
}

export function notFound(message: string): ShellError {
  return new ShellError("not found", message);
}

export function exitCodeOf(error: unknown): number {
  if (error instanceof ShellError) return error.exitCode;
  if (!isDibsError(error)) return EXIT.failed;
  if (error.code === "INVALID") return EXIT.usage;
  if (error.code === "UNAVAILABLE") return EXIT.unavailable;
  if (error.code === "TASK_NOT_FOUND") return EXIT["not found"];
  return error.code === "FORBIDDEN" ? EXIT.forbidden : EXIT.failed;
}

/** For --help. */
export function describeExits(): string {
  return Object.entries(EXIT)
    .map(([name, code]) => `${code} ${name}`)
    .join(", ");
}
