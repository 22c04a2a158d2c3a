import type { Conflict } from "../../../core/commit.ts";
import type { Hint } from "../../../engine/hint.ts";
import type { Op, Outcome } from "../../../engine/engine.ts";
import type { BatchResult } from "../batch/batch-result.ts";
import type { HeartbeatData, Heartbeats, StartHeartbeats } from "./heartbeats.ts";

/**
 * The sessions of this process: has heartbeats sent for them, and reports what heartbeats bring. The engine tells it of
 * each batch that starts or ends a session.
 */

export interface SessionsOptions {
  data: HeartbeatData;
  /** Sends a batch in its turn. */
  execute: (ops: readonly Op[]) => Promise<BatchResult>;
  /** The sessions among these that have notices. */
  withNotices: (sessions: number[]) => Promise<number[]>;
  /** A heartbeat was committed, here or on its thread. It also sweeps, so it may have more effects than notices. */
  onCommit: (result: BatchResult) => void;
  onHint: (hint: Hint) => void;
  onConflict: (conflict: Conflict) => void;
  onThreadFailure: (error: Error) => void;
}

export class Sessions {
  readonly #options: SessionsOptions;
  readonly #ids = new Set<number>();
  readonly #heartbeats: Heartbeats;
  #isClosed = false;

  constructor(options: SessionsOptions, start: StartHeartbeats) {
    this.#options = options;
    this.#heartbeats = start(
      options.data,
      (report) => {
        if ("result" in report) this.#heard(report.result);
        else if ("conflict" in report) options.onConflict(report);
        else this.#lost(report.lost);
      },
      options.onThreadFailure,
      (sessions) => this.#send(sessions),
    );
  }

  /** Before a batch is sent: a worker that leaves sends no more heartbeats, whether the batch succeeds or not. */
  before(ops: readonly Op[]): void {
    for (const op of ops) if (op.verb === "leave") this.#forget(op.session);
  }

  /** `sentAt`: when the batch was sent, in awake time. */
  after(ops: readonly Op[], outcomes: readonly Outcome[], sentAt: number): void {
    if (this.#isClosed) return;
    for (const [index, op] of ops.entries()) {
      const outcome = outcomes[index]!;
      if (!("ok" in outcome)) continue;
      if (op.verb === "join") {
        this.#join((outcome.ok as { session: number }).session, op.lease, sentAt);
      } else if (op.verb === "rejoin") {
        const { session, lease } = outcome.ok as { session: number; lease: number };
        this.#forget(op.session);
        this.#join(session, lease, sentAt);
      }
    }
  }

  #join(session: number, lease: number, sentAt: number): void {
    this.#ids.add(session);
    this.#heartbeats.join(session, lease, sentAt);
  }

  #forget(session: number): void {
    this.#ids.delete(session);
    this.#heartbeats.leave(session);
  }

  /** Returns whether it was committed. */
  async #send(sessions: number[]): Promise<boolean> {
    if (this.#isClosed) return true;
    try {
      this.#heard(await this.#options.execute([{ verb: "heartbeat", sessions }]));
      return true;
    } catch {
      // The calls of users report what is wrong with the store. A heartbeat is sent again.
      return this.#isClosed;
    }
  }

  #heard(result: BatchResult): void {
    if (this.#isClosed) return;
    const { notices } = (result.outcomes[0] as Extract<Outcome<"heartbeat">, { ok: unknown }>).ok;
    for (const notice of notices) if (notice.kind === "gone") this.#forget(notice.session);
    this.#options.onCommit(notices.length > 0 ? { ...result, hint: { ...result.hint, notices } } : result);
  }

  /** No heartbeat was committed for a whole lease: other workers may have the tasks of these sessions by now. */
  #lost(sessions: number[]): void {
    if (this.#isClosed) return;
    for (const session of sessions) this.#forget(session);
    this.#options.onHint({ notices: sessions.map((session) => ({ session, kind: "gone" })) });
  }

  /** Sends heartbeats for the sessions that have notices now. If the store is unreachable, the next heartbeat gets them. */
  async fetchNotices(): Promise<void> {
    if (this.#ids.size === 0 || this.#isClosed) return;
    const noticed = await this.#options.withNotices([...this.#ids]).catch(() => []);
    if (noticed.length > 0) await this.#send(noticed);
  }

  stop(): Promise<void> {
    this.#isClosed = true;
    return this.#heartbeats.stop();
  }
}
