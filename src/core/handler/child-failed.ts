import { DibsError, type ErrorCode } from "../errors/errors.ts";
import type { ChildEnd } from "./children.ts";
import type { EndState } from "../task/task.ts";

// What `waitForChildren` throws in a parent's handler if a child ended without success.

const CODES: Record<Exclude<EndState, "done">, ErrorCode> = {
  dead: "TASK_DEAD",
  cancelled: "TASK_CANCELLED",
  expired: "TASK_EXPIRED",
};

/** The child of which `waitForChildren` has no result. */
export interface FailedChild {
  id: string;
  queue: string;
  /** Null: told apart by the order of the spawns. */
  name: string | null;
  state: Exclude<EndState, "done">;
}

/**
 * A child ended without success: `child` says which one. A handler that lets this error pass makes its task a dead letter
 * at once, because another attempt would find the same end.
 */
export class ChildFailedError extends DibsError {
  readonly child: FailedChild;

  constructor(end: ChildEnd) {
    const { id, queue, name, error } = end;
    const state = end.state as FailedChild["state"];
    const what = `Child ${name === null ? id : `"${name}" (${id})`} in queue "${queue}"`;
    super(CODES[state], `${what} ${HOW[state]}${error ? `: ${error.name}: ${error.message}` : "."}`, {
      ...(error && { cause: asError(error) }),
    });
    this.child = { id, queue, name, state };
  }

  override get name(): string {
    return "ChildFailedError";
  }
}

const HOW: Record<FailedChild["state"], string> = {
  dead: "is dead",
  cancelled: "was cancelled",
  expired: "expired",
};

function asError({ name, message, stack }: NonNullable<ChildEnd["error"]>): Error {
  return Object.assign(new Error(message), { name, stack: stack ?? undefined });
}

/** By its fields: a handler may be bundled with another copy of this file. */
export function isChildFailure(error: unknown): boolean {
  const thrown = error as { code?: unknown; child?: Partial<FailedChild> | null } | null | undefined;
  const state = thrown?.child?.state;
  return state !== undefined && Object.hasOwn(CODES, state) && thrown?.code === CODES[state];
}
