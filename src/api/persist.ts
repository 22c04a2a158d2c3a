import { setTimeout as sleep } from "node:timers/promises";
import type { Clock } from "../core/clock.ts";
import { DibsError, isDibsError } from "../core/errors.ts";
import type { Port } from "../core/port.ts";
import type { MoveOptions } from "./move.ts";

/** What a move asks of a store. Each of these may be asked any number of times: the second time finds it done. */
const REPEATABLE = [
  "arrive",
  "cancel",
  "declare",
  "depart",
  "gone",
  "pause",
  "queues",
  "schedules",
  "stats",
  "subscribe",
  "subscriptions",
] as const;

export type Movable = Pick<Port, (typeof REPEATABLE)[number]>;

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 2_000;
/** Longer than a restart or a failover takes; above it somebody has to look after the store. */
const PATIENCE_MS = 60_000;

/** A store that a restart of its server, or a lost connection, does not interrupt: what was asked is asked again. */
export function persist(port: Port, options: Pick<MoveOptions, "signal" | "onWait">): Movable {
  const calls = REPEATABLE.map((verb) => {
    const ask = port[verb].bind(port) as (...args: unknown[]) => Promise<unknown>;
    return [verb, (...args: unknown[]) => repeat(() => ask(...args), port.clock, options)] as const;
  });
  return Object.fromEntries(calls) as unknown as Movable;
}

async function repeat(
  ask: () => Promise<unknown>,
  clock: Clock,
  { signal, onWait }: Pick<MoveOptions, "signal" | "onWait">,
): Promise<unknown> {
  let since: number | undefined;
  for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(pause * 2, LONGEST_PAUSE_MS)) {
    try {
      return await ask();
    } catch (error) {
      if (!isTrouble(error)) throw error;
      const now = clock.read().awake;
      since ??= now;
      if (!error.retryable || signal?.aborted || now - since >= PATIENCE_MS) throw interrupted(error);
      onWait?.({ running: 0, error });
    }
    await sleep(pause, undefined, signal && { signal }).catch(() => {});
  }
}

function isTrouble(error: unknown): error is DibsError {
  return isDibsError(error) && (error.code === "UNAVAILABLE" || error.code === "OUTCOME_UNKNOWN");
}

/** To whoever moves it makes no difference whether a commit is there: the next run finds out. */
function interrupted(error: DibsError): DibsError {
  const why =
    error.code === "OUTCOME_UNKNOWN"
      ? "A store was lost in the moment of a commit, and did not come back in time."
      : error.message;
  return new DibsError(
    "UNAVAILABLE",
    `${why} The move was interrupted by that. Run it again when the store can be reached: nothing is lost or doubled.`,
    { cause: error, retryable: error.retryable },
  );
}
