import { Worker } from "node:worker_threads";
import type { Conflict } from "../../../core/commit.ts";
import { startTimer } from "../../../core/time/clock.ts";
import { ownFile } from "../../../core/process/own-files.ts";
import { HeartbeatTimer } from "../../../engine/heartbeat-timer.ts";
import { systemClock } from "../../../engine/system-clock.ts";
import type { ConnectionOptions } from "../connection/connection.ts";
import type { PasswordSource } from "../connection/password.ts";
import type { BatchResult } from "../batch/batch-result.ts";
import type { TxOptions } from "../transaction/tx.ts";

/** The data with which the thread is started. */
export interface HeartbeatData {
  link: ConnectionOptions;
  tx: TxOptions;
  where: string;
  patience: number;
}

export type HeartbeatRequest =
  | { join: number; lease: number; sentAt: number }
  | { leave: number }
  /** The first, or the answer to ASK_PASSWORD. Null: there is none. */
  | { password: string | null }
  | { close: true };

/** A heartbeat that was committed; sessions for which none was for a whole lease; or a heartbeat that is retried. */
export type HeartbeatReport = { result: BatchResult } | { lost: number[] } | Conflict;

/** The thread is connecting, and the password comes from a function of the user. */
export const ASK_PASSWORD = "password?";

/** The first message of the thread: from here on it sends heartbeats. */
export const STARTED = "started";

/** Sends heartbeats for the sessions of this process. */
export interface Heartbeats {
  /** `sentAt`: when the join was sent, in awake time. The store's lease starts later, and a thread may be slow to start. */
  join(session: number, lease: number, sentAt: number): void;
  leave(session: number): void;
  stop(): Promise<void>;
}

export type StartHeartbeats = (
  data: HeartbeatData,
  onReport: (report: HeartbeatReport) => void,
  onFailure: (error: Error) => void,
  sendHere: SendHere,
) => Heartbeats;

/** Sends a heartbeat on the writing connection. Returns whether it was committed. */
export type SendHere = (sessions: number[]) => Promise<boolean>;

interface Joined {
  lease: number;
  /** When its last heartbeat was sent, as far as this thread knows. */
  sentAt: number;
}

/** A thread that cannot be loaded ends at each start. */
const FIRST_PAUSE_MS = 20;
const LONGEST_PAUSE_MS = 5_000;

/**
 * Sends heartbeats from a thread with its own connection: a handler that blocks the event loop must not lose its claims.
 * The thread starts with the first session, and again if it ends, after longer and longer pauses if it sent none. Until it
 * has started, this process sends them itself: at a load of 13 on two cores the start took 1.5 s, longer than some leases.
 */
export class HeartbeatThread implements Heartbeats {
  readonly #data: HeartbeatData;
  readonly #onReport: (report: HeartbeatReport) => void;
  readonly #onFailure: (error: Error) => void;
  readonly #joined = new Map<number, Joined>();
  /** Sends heartbeats while no thread does. */
  readonly #here: HeartbeatTimer;
  readonly #password: PasswordSource | undefined;
  #thread: Worker | undefined;
  #hasStarted = false;
  #restart: NodeJS.Timeout | undefined;
  #pause = FIRST_PAUSE_MS;
  #stopped = false;

  constructor(
    data: HeartbeatData,
    onReport: (report: HeartbeatReport) => void,
    onFailure: (error: Error) => void,
    sendHere: SendHere,
    password?: PasswordSource,
  ) {
    this.#password = password;
    this.#data = data;
    this.#onReport = onReport;
    this.#onFailure = onFailure;
    this.#here = new HeartbeatTimer(startTimer, sendHere);
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

  #post(request: HeartbeatRequest): void {
    this.#thread?.postMessage(request);
  }

  #start(): void {
    const thread = new Worker(ownFile("./heartbeat-thread.ts", import.meta.url), {
      workerData: this.#data,
      // Flags of the program, such as --input-type, do not apply to this thread.
      execArgv: [],
      name: "dibs heartbeat",
    });
    this.#thread = thread;
    thread.unref();
    if (this.#password?.last !== undefined) this.#post({ password: this.#password.last });
    let hasSent = false;
    thread.on("message", (report: HeartbeatReport | typeof STARTED | typeof ASK_PASSWORD) => {
      if (report === ASK_PASSWORD) return void this.#answerPassword();
      if (report === STARTED) {
        this.#hasStarted = true;
        this.#here.stop();
        return;
      }
      hasSent = true;
      this.#onReport(report);
    });
    thread.on("error", (error) => this.#onFailure(error));
    thread.once("exit", () => {
      this.#thread = undefined;
      if (!this.#stopped) this.#ended(hasSent);
    });
  }

  async #answerPassword(): Promise<void> {
    const password = await this.#password!.get().catch(() => null);
    this.#post({ password });
  }

  /** The sessions continue, whatever ended the thread. */
  #ended(hasSent: boolean): void {
    if (this.#hasStarted) for (const [session, { lease }] of this.#joined) this.#here.join(session, lease);
    this.#hasStarted = false;
    if (hasSent) {
      this.#pause = FIRST_PAUSE_MS;
      // When it sent its last heartbeats is not known here: not later than now.
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
