import type { Clock } from "../core/time/clock.ts";
import { DEFAULT_POLICY } from "../core/queue/policy.ts";
import type { ClaimNotice } from "../core/task/claim-call.ts";
import type { ClaimRef } from "../core/task/task.ts";

// The sessions of this client's workers. After the server has restarted, they join again with the claims they hold.

interface Session {
  /** The session's current number in the store. The worker keeps using the number that it got first. */
  current: number;
  /** Proves to a restarted server that the session belongs to this client. */
  ticket: string;
  lease: number;
  /** The claims that this client knows of. */
  fences: Map<number, string>;
  listener: (notice: ClaimNotice) => void;
  stopTimer: () => void;
}

export interface Rejoined {
  session: number;
  lost: number[];
  ticket: string;
}

/** `name`: the number that the worker keeps using. */
export type Rejoin = (
  current: number,
  fences: number[],
  restored: { name: number; ticket: string },
) => Promise<Rejoined>;

/** The workers of this client and their claims, so that they can continue after the server was restarted. */
export class Sessions {
  readonly #clock: Clock;
  readonly #sessions = new Map<number, Session>();
  /** Which session holds a fence. */
  readonly #holders = new Map<number, Session>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  joined(number: number, ticket: string, lease: number, listener: (notice: ClaimNotice) => void): void {
    this.#sessions.set(number, {
      current: number,
      ticket,
      lease,
      fences: new Map(),
      listener,
      stopTimer: () => {},
    });
  }

  left(number: number): void {
    const session = this.#sessions.get(number);
    if (!session) return;
    session.stopTimer();
    this.#sessions.delete(number);
    for (const fence of session.fences.keys()) this.#holders.delete(fence);
  }

  /** The worker rejoined by itself, and uses the new number from now on. */
  renamed(
    old: number,
    { session: number, ticket }: Rejoined,
    fences: number[],
    listener: (notice: ClaimNotice) => void,
  ): void {
    const { lease = DEFAULT_POLICY.lease, fences: known } = this.#sessions.get(old) ?? {};
    this.left(old);
    this.joined(number, ticket, lease, listener);
    const tasks = fences.map((fence) => ({ id: known?.get(fence) ?? "", fence }));
    this.claimed(number, { tasks });
  }

  claimed(number: number | undefined, { tasks }: { tasks: ClaimRef[] }): void {
    const session = number === undefined ? undefined : this.#sessions.get(number);
    if (!session) return;
    for (const { id, fence } of tasks) {
      session.fences.set(fence, id);
      this.#holders.set(fence, session);
    }
  }

  settled(fence: number): void {
    this.#holders.get(fence)?.fences.delete(fence);
    this.#holders.delete(fence);
  }

  onNotice(number: number, notice: ClaimNotice): void {
    const session = this.#sessions.get(number);
    if (!session) return;
    if (notice.kind === "gone") this.left(number);
    else if (notice.kind !== "cancel") this.settled(notice.fence);
    session.listener(notice);
  }

  /** No heartbeats are sent now. After a lease without a connection, the claims are certainly lost. */
  down(): void {
    for (const [number, session] of this.#sessions) {
      session.stopTimer();
      session.stopTimer = this.#clock.after(session.lease, () => this.onNotice(number, { kind: "gone" }));
    }
  }

  up(): void {
    for (const session of this.#sessions.values()) session.stopTimer();
  }

  /** In a new session of the connection: each worker continues with its claims, or learns that they are lost. */
  async restore(rejoin: Rejoin): Promise<void> {
    this.up();
    await Promise.all([...this.#sessions].map((entry) => this.#restoreOne(...entry, rejoin)));
  }

  async #restoreOne(number: number, session: Session, rejoin: Rejoin): Promise<void> {
    try {
      const { ticket } = session;
      const rejoined = await rejoin(session.current, [...session.fences.keys()], { name: number, ticket });
      const { lost } = rejoined;
      session.current = rejoined.session;
      session.ticket = rejoined.ticket;
      for (const fence of lost) {
        const id = session.fences.get(fence);
        if (id !== undefined) this.onNotice(number, { kind: "lost", id, fence });
      }
    } catch (error) {
      if ((error as { code?: string }).code === "CLAIM_LOST") this.onNotice(number, { kind: "gone" });
      // If the connection was lost again, the next one retries.
    }
  }
}
