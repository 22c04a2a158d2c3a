import type { ClaimNotice, ClaimResult, SettleRef } from "../../core/task/claim-call.ts";

export interface Held {
  claim: SettleRef;
  /** The worker's session; undefined for a manual claim. */
  session: number | undefined;
}

/** What a client holds through this server: the sessions of its workers, and its claims. */
export class HeldClaims {
  /** By the number that the client uses. The store may have given the session another number since. */
  readonly #sessions = new Map<number, number>();
  readonly #claims = new Map<number, Held>();

  get sessions(): Iterable<number> {
    return this.#sessions.values();
  }

  get hasNoSessions(): boolean {
    return this.#sessions.size === 0;
  }

  get all(): readonly Held[] {
    return [...this.#claims.values()];
  }

  held(fence: number): Held | undefined {
    return this.#claims.get(fence);
  }

  get manual(): SettleRef[] {
    return [...this.#claims.values()].filter((held) => held.session === undefined).map(({ claim }) => claim);
  }

  get isEmpty(): boolean {
    return this.#claims.size === 0;
  }

  /** The store's number of a session of this client; undefined if it has no such session. */
  session(name: number): number | undefined {
    return this.#sessions.get(name);
  }

  joined(name: number, session: number): void {
    this.#sessions.set(name, session);
  }

  left(name: number): void {
    this.#sessions.delete(name);
    for (const [fence, held] of this.#claims) if (held.session === name) this.#claims.delete(fence);
  }

  claimed(session: number | undefined, { tasks }: ClaimResult): void {
    for (const { id, fence, queue, attempt } of tasks)
      this.#claims.set(fence, { claim: { id, fence, queue, attempt }, session });
  }

  /** Forgets the claims of a session that are not in `fences`, because its worker does not know of them. */
  reconciled(name: number, fences: number[]): void {
    const known = new Set(fences);
    for (const [fence, held] of this.#claims)
      if (held.session === name && !known.has(fence)) this.#claims.delete(fence);
  }

  settled(fence: number): void {
    this.#claims.delete(fence);
  }

  onNotice(name: number, notice: ClaimNotice): void {
    if (notice.kind === "gone") this.left(name);
    else if (notice.kind !== "cancel") this.settled(notice.fence);
  }

  /** Manual claims continue without the client, until their lease ends. */
  forgetManual(): void {
    for (const [fence, held] of this.#claims) if (held.session === undefined) this.#claims.delete(fence);
  }
}
