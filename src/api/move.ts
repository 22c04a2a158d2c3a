import { checkCount } from "../core/arguments.ts";
import { type DibsError, invalid } from "../core/errors.ts";
import { checkNames, checkObject } from "../core/options.ts";
import type { Port } from "../core/port.ts";
import { checkQueueName } from "../core/queue-name.ts";
import { show } from "../core/show.ts";
import { verifiedQueue } from "../core/verification.ts";
import { Dibs } from "./dibs.ts";
import { Mover } from "./mover.ts";
import { open, type OpenOptions } from "./open.ts";

export interface MoveOptions {
  /** Only these; all of them unless set. */
  queues?: string[] | undefined;
  /** Go on when nothing is left, and move what producers still add, until `signal`. */
  follow?: boolean | undefined;
  /** Stops after the batch that is under way. */
  signal?: AbortSignal | undefined;
  /** How the store that is left is opened, where its address is given: `{ schema: "jobs" }`. None is made. */
  from?: Omit<OpenOptions, "create"> | undefined;
  /** The same of the other one. */
  to?: OpenOptions | undefined;
  /** Told after every batch. */
  onProgress?: ((progress: { queue: string; moved: number }) => void) | undefined;
  /** Told time and again while it waits, and for what. */
  onWait?: ((wait: MoveWait) => void) | undefined;
}

export interface MoveWait {
  /** Tasks that run in the store that is left: their ends are to be moved too. */
  running: number;
  /** Why a store cannot be reached: it is tried again. Null where what runs is waited for. */
  error: DibsError | null;
}

export interface Moved {
  /** By this call. */
  moved: number;
  /** What is still in the store that was moved from: nothing, unless the call was stopped. */
  left: number;
  queues: MovedQueue[];
  /** Those that add to these queues. They stay where they are, and fire there until somebody deletes them. */
  schedules: string[];
}

export interface MovedQueue {
  name: string;
  moved: number;
  /** In the store that it was moved to. */
  paused: boolean;
}

/**
 * Moves all tasks of a store to another, while producers and workers go on: `move("work.db", "postgres://…")`. The
 * queues are paused in the store they leave; what runs there ends there, and is waited for. May be interrupted at any
 * moment and run again: nothing is lost or doubled.
 */
export async function move(
  from: string | Dibs,
  to: string | Dibs,
  options: MoveOptions = {},
): Promise<Moved> {
  checkCount(arguments, "move(from, to, options)");
  checkOptions(options);
  checkStore(from, options.from, "from");
  checkStore(to, options.to, "to");
  const opened: Dibs[] = [];
  const portOf = async (store: string | Dibs, how: OpenOptions): Promise<Port> => {
    if (store instanceof Dibs) return store.port;
    const dibs = await open(store, how);
    opened.push(dibs);
    return dibs.port;
  };
  try {
    const here = await portOf(from, { ...options.from, create: false });
    // Before the other store is opened, and perhaps made.
    await checkQueues(here, options.queues);
    return await new Mover(here, await portOf(to, options.to ?? {}), options).run();
  } finally {
    for (const dibs of opened) await dibs.close();
  }
}

function checkStore(store: unknown, how: unknown, side: "from" | "to"): void {
  if (store instanceof Dibs) {
    if (how === undefined) return;
    throw invalid(`${side} says how an address is opened, and this store is open already: leave it out.`);
  }
  if (typeof store === "string" && store !== "") return;
  throw invalid(`move() takes two stores, each an address or what open() answered; got ${show(store)}.`);
}

const KNOWN = ["queues", "follow", "signal", "from", "to", "onProgress", "onWait"];

function checkOptions(options: MoveOptions): void {
  checkObject(options, "The options of move");
  checkNames(options, KNOWN, "move");
  if (options.queues !== undefined && !Array.isArray(options.queues))
    throw invalid(`queues must be an array of names; got ${show(options.queues)}.`);
  options.queues?.forEach(checkQueueName);
  options.queues?.forEach((name, _, names) => {
    const judged = verifiedQueue(name);
    if (judged !== undefined && !names.includes(judged))
      throw invalid(`Queue "${name}" asks for verdicts on what "${judged}" holds: move them together.`);
  });
  if (options.follow && !options.signal)
    throw invalid("follow goes on until its signal is aborted: give a signal.");
}

/** So many names tell what one has mistyped; a thousand would hide it. */
const MOST_NAMES = 50;

async function checkQueues(from: Port, wanted: string[] = []): Promise<void> {
  if (wanted.length === 0) return;
  const there = (await from.queues()).map(({ name }) => name);
  const missing = wanted.filter((name) => !there.includes(name));
  if (missing.length === 0) return;
  const more = there.length > MOST_NAMES ? ` and ${there.length - MOST_NAMES} more` : "";
  const names = there.length === 0 ? "none" : `${there.slice(0, MOST_NAMES).join(", ")}${more}`;
  throw invalid(
    `There is no queue ${missing.map(show).join(", ")} in the store that is to be moved. Those there are: ${names}.`,
  );
}
