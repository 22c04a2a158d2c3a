import { Worker } from "node:worker_threads";
import type { Conflict } from "../../../core/commit.ts";
import { startTimer } from "../../../core/clock.ts";
import { HeartbeatTimer } from "../../../engine/heartbeat-timer.ts";
import { systemClock } from "../../../engine/system-clock.ts";
import type { ConnectionOptions } from "../connection/connection.ts";
import type { BatchResult } from "../batch/batch-result.ts";
import type { TxOptions } from "../transaction/tx.ts";

/** What the thread is started with. */
export interface PulseData {
  link: ConnectionOptions;
  tx: TxOptions;
  where: string;
  patience: number;
}

export type PulseRequest =
  | { join: number; lease: number; sentAt: number }
  | { leave: number }
  | { close: true };

/** A beat that came through, with what it brought; sessions of which none did for a whole lease; or a beat that is tried again. */
export type PulseReport = { ran: BatchResult } | { lost: number[] } | Conflict;

/** The first message of the thread: from here on it beats. */
export const STARTED = "started";

/** Gives the signs of life of the sessions that joined through a process. */
export interface Heartbeats {
  /** `sentAt`: when it was asked to join, awake. The store counts from no later, and a thread may take long to start. */
  join(session: number, lease: number, sentAt: number): void;
  leave(session: number): void;
  stop(): Promise<void>;
}

export type StartHeartbeats = (
  data: PulseData,
  onReport: (report: PulseReport) => void,
  onFailure: (error: Error) => void,
  beatHere: BeatHere,
) => Heartbeats;

/** Beats on the process's own connection. Answers whether the beat came through. */
export type BeatHere = (sessions: number[]) => Promise<boolean>;

interface Joined {
  lease: number;
  /** When it gave its last sign of life, as far as that is known here. */
  sentAt: number;
}

/** A thread that cannot be loaded ends as soon as it is started, each time. */
const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 5_000;

/**
 * Beats the sessions that joined through here, from a thread with a connection of its own: a handler that blocks the
 * event loop must not lose its claims. Started with the first session, and anew if it ended, later each time
 * that it did not come to beat. Until it has started, the process beats itself: at a load of 13 on two cores that took
 * 1.5 s, which is longer than some leases.
 */
export class HeartbeatThread implements Heartbeats {
  readonly #data: PulseData;
  readonly #onReport: (report: PulseReport) => void;
  readonly #onFailure: (error: Error) => void;
  readonly #joined = new Map<number, Joined>();
  /** Beats while no thread does. */
  readonly #here: HeartbeatTimer;
  #thread: Worker | undefined;
  #hasStarted = false;
  /** Until it is started again. */
  #restart: NodeJS.Timeout | undefined;
  #pause = FIRST_PAUSE_MS;
  #stopped = false;

  constructor(
    data: PulseData,
    onReport: (report: PulseReport) => void,
    onFailure: (error: Error) => void,
    beatHere: BeatHere,
  ) {
    this.#data = data;
    this.#onReport = onReport;
    this.#onFailure = onFailure;
    this.#here = new HeartbeatTimer(startTimer, beatHere);
  }

  join(session: number, lease: number, sentAt: number): void {
    this.#joined.set(session, { lease, sentAt });
    if (!this.#hasStarted) this.#here.join(session, lease);
    if (!this.#thread && !this.#restart) this.#start();
    this.#post({ join: session, lease, sentAt });
  }

  leave(session: number): void {
    this.#here.leave(session);
    if (this.#joined.delete(session)) this.#post({ leave: session });
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#here.stop();
    clearTimeout(this.#restart);
    const thread = this.#thread;
    if (!thread) return;
    thread.ref();
    const exited = new Promise((resolve) => thread.once("exit", resolve));
    this.#post({ close: true });
    await exited;
  }

  #post(request: PulseRequest): void {
    this.#thread?.postMessage(request);
  }

  #start(): void {
    const thread = new Worker(new URL("./heartbeat-thread.ts", import.meta.url), {
      workerData: this.#data,
      // Flags of the program's own, such as --input-type, are not for this thread.
      execArgv: [],
      name: "dibs pulse",
    });
    this.#thread = thread;
    thread.unref();
    let hasBeaten = false;
    thread.on("message", (report: PulseReport | typeof STARTED) => {
      if (report === STARTED) {
        this.#hasStarted = true;
        this.#here.stop();
        return;
      }
      hasBeaten = true;
      this.#onReport(report);
    });
    thread.on("error", (error) => this.#onFailure(error));
    thread.once("exit", () => {
      this.#thread = undefined;
      if (!this.#stopped) this.#ended(hasBeaten);
    });
  }

  /** Whatever ended it: the sessions must go on. */
  #ended(hasBeaten: boolean): void {
    if (this.#hasStarted) for (const [session, { lease }] of this.#joined) this.#here.join(session, lease);
    this.#hasStarted = false;
    if (hasBeaten) {
      this.#pause = FIRST_PAUSE_MS;
      // Which signs of life it gave, and when, is not known here: none later than now.
      const sentAt = systemClock.read().awake;
      for (const joined of this.#joined.values()) joined.sentAt = sentAt;
    }
    this.#restart = setTimeout(() => this.#startAgain(), this.#pause).unref();
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE_MS);
  }

  #startAgain(): void {
    this.#restart = undefined;
    if (this.#joined.size === 0) return;
    this.#start();
    for (const [session, { lease, sentAt }] of this.#joined) this.#post({ join: session, lease, sentAt });
  }
}
