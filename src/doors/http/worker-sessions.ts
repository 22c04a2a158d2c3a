import { randomBytes } from "node:crypto";
import { DibsError, ClaimLostError } from "../../core/errors/errors.ts";
import type { ClaimNotice } from "../../core/task/claim-call.ts";
import type { Port } from "../../core/port.ts";
import type { ClaimedTask, ClaimRef, WorkerInfo } from "../../core/task/task.ts";

/**
 * Workers over HTTP. A worker joins once, and one heartbeat then keeps all its claims. The server joins for it: the
 * engine of the server sends the session's heartbeats to the store for as long as the worker sends its own to the
 * server. A worker that sends none for its whole lease is given up, and its claims count as failed attempts.
 */

/** Sessions of one server, so that a client that joins in a loop cannot fill its memory. */
const MOST_SESSIONS = 10_000;
/** A claim that this many lists of a worker do not name was in an answer that it never got. */
const MISSED_LISTS = 2;

export interface Joining {
  worker: WorkerInfo;
  lease: number;
  /** Whose token it is: no other caller may use the session. */
  caller: string;
  /** Aborted when the server closes. */
  closing: AbortSignal;
}

export class WorkerSession {
  /** Random, because it is the right to use the session. */
  readonly id = randomBytes(16).toString("base64url");
  readonly joining: Joining;
  readonly #port: Port;
  readonly #held = new Map<number, { id: string; missed: number }>();
  readonly #all: WorkerSessions;
  #notices: ClaimNotice[] = [];
  #number = 0;
  #claiming = 0;
  #stopTimer: () => void = () => {};

  constructor(port: Port, joining: Joining, all: WorkerSessions) {
    this.#port = port;
    this.joining = joining;
    this.#all = all;
  }

  async join(): Promise<void> {
    const { worker, lease } = this.joining;
    this.#number = await this.#port.join(worker, lease, (notice) => this.#onNotice(notice));
    this.#renew();
  }

  #onNotice(notice: ClaimNotice): void {
    if (notice.kind === "gone") return this.#end();
    if (notice.kind !== "cancel") this.settled(notice.fence);
    const { kind, id, fence } = notice;
    this.#notices.push({ kind, id, fence });
  }

  /** Claims from the worker's queues, or some of them. The worker counts as alive while its call waits. */
  async claim(
    port: Port,
    request: { queues: string[]; max: number; wait: number; signal: AbortSignal },
  ): Promise<ClaimedTask[]> {
    this.#claiming++;
    try {
      const { worker } = this.joining;
      const { tasks } = await port.claim({ ...request, worker: worker.id, session: this.#number });
      for (const { id, fence } of tasks) {
        this.#held.set(fence, { id, missed: 0 });
        this.#all.holders.set(fence, this);
      }
      return tasks;
    } finally {
      this.#claiming--;
      this.#renew();
    }
  }

  /** A heartbeat of the worker. `claims`: the claims that it knows of. Returns what happened to its claims. */
  async heartbeat(claims: readonly ClaimRef[] | undefined): Promise<ClaimNotice[]> {
    this.#renew();
    if (claims) await this.#releaseUnknown(claims);
    const notices = this.#notices;
    this.#notices = [];
    return notices;
  }

  /** One list without a claim is not enough: the answer with the claim may still be on its way. */
  async #releaseUnknown(claims: readonly ClaimRef[]): Promise<void> {
    const known = new Set(claims.map(({ fence }) => fence));
    const unknown: ClaimRef[] = [];
    for (const [fence, claim] of this.#held) {
      claim.missed = known.has(fence) ? 0 : claim.missed + 1;
      if (claim.missed >= MISSED_LISTS) unknown.push({ id: claim.id, fence });
    }
    for (const { fence } of unknown) this.settled(fence);
    // A claim that was settled meanwhile is refused, which does no harm.
    await Promise.allSettled(
      unknown.map((claim) =>
        this.#port.settle({ ...claim, queue: "", attempt: 1 }, { kind: "release", started: false }),
      ),
    );
  }

  settled(fence: number): void {
    this.#held.delete(fence);
    this.#all.holders.delete(fence);
  }

  /** The server closes. The session's lease in the store then ends by itself. */
  stop(): void {
    this.#stopTimer();
  }

  /** The worker leaves, and its claims are released. */
  async leave(): Promise<void> {
    this.#end();
    await this.#port.leave(this.#number);
  }

  #renew(): void {
    this.#stopTimer();
    this.#stopTimer = this.#port.clock.after(this.joining.lease, () => {
      if (this.#claiming > 0) return this.#renew();
      this.#end();
      // If the store cannot be reached, the session's lease ends there by itself.
      this.#port.leave(this.#number, { lost: true }).catch(() => {});
    });
  }

  #end(): void {
    this.#stopTimer();
    for (const fence of this.#held.keys()) this.#all.holders.delete(fence);
    this.#all.forget(this);
  }
}

/** The sessions of all workers over HTTP of this server. */
export class WorkerSessions {
  readonly #sessions = new Map<string, WorkerSession>();
  /** Which session has a claim, by its fence. */
  readonly holders = new Map<number, WorkerSession>();
  #isClosing: AbortSignal | undefined;

  async join(port: Port, joining: Joining): Promise<WorkerSession> {
    if (this.#sessions.size >= MOST_SESSIONS)
      throw new DibsError(
        "UNAVAILABLE",
        `This server has ${MOST_SESSIONS} sessions of workers. Try again later.`,
      );
    this.#stopWhen(joining.closing);
    const session = new WorkerSession(port, joining, this);
    await session.join();
    this.#sessions.set(session.id, session);
    return session;
  }

  #stopWhen(closing: AbortSignal): void {
    if (this.#isClosing === closing) return;
    this.#isClosing = closing;
    closing.addEventListener("abort", () => {
      for (const session of this.#sessions.values()) session.stop();
    });
  }

  forget({ id }: WorkerSession): void {
    this.#sessions.delete(id);
  }

  /** The same answer for a session that never existed, has ended, or belongs to another token. */
  of(id: string, caller: string): WorkerSession {
    const session = this.#sessions.get(id);
    if (session?.joining.caller === caller) return session;
    throw new ClaimLostError(
      `There is no session ${id}: it ended, or the server was restarted. Its claims are lost. Join again.`,
    );
  }

  /** Forgets a claim that has ended, in any session. */
  settled(fence: number): void {
    this.holders.get(fence)?.settled(fence);
  }
}
