import type { Clock } from "../../core/time/clock.ts";
import { DibsError } from "../../core/errors/errors.ts";
import { STORE_LIMIT } from "../../core/task/task-id.ts";
import type { Engine, Op, Outcome, Outcomes } from "../../engine/engine.ts";
import type { Hint } from "../../engine/hint.ts";
import type { TransferStore } from "../../engine/transfer.ts";
import { MemoryStore } from "./store.ts";

/** The reference model with a clock and heartbeats: for tests, and for work that may be forgotten. */
export function openMemory({ clock }: { clock: Clock }): MemoryEngine {
  return new MemoryEngine(clock);
}

export class MemoryEngine implements Engine {
  readonly depth = 2;
  readonly #clock: Clock;
  readonly #store: MemoryStore;
  readonly #beats = new Map<number, () => void>();
  #listener: (hint: Hint) => void = () => {};
  #closed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#store = new MemoryStore(Math.floor(Math.random() * STORE_LIMIT), clock.read());
  }

  onHint(listener: (hint: Hint) => void): void {
    this.#listener = listener;
  }

  async execute<const Ops extends readonly Op[]>(ops: Ops): Promise<Outcomes<Ops>> {
    if (this.#closed) throw new DibsError("CLOSED", "The store was closed.");
    // A copy: the caller may change its objects later.
    const { outcomes, hint } = this.#store.execute(structuredClone(ops), this.#clock.read());
    ops.forEach((op, index) => this.#followSession(op, outcomes[index]!));
    this.#listener(hint);
    if (this.#store.hasNotices) this.#listener(this.#beat([...this.#beats.keys()]));
    return outcomes;
  }

  /** Its store, for exports and imports: no other process can open it. */
  get transfer(): TransferStore {
    return this.#store.transfer;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const stop of this.#beats.values()) stop();
  }

  #followSession(op: Op, outcome: Outcome): void {
    if (op.verb === "join" && "ok" in outcome) {
      this.#keepBeating((outcome as { ok: { session: number } }).ok.session, op.lease / 3);
    }
    if (op.verb === "rejoin" && "ok" in outcome) {
      const { session, lease } = (outcome as { ok: { session: number; lease: number } }).ok;
      this.#forget(op.session);
      this.#keepBeating(session, lease / 3);
    }
    if (op.verb === "leave") this.#forget(op.session);
  }

  #keepBeating(session: number, every: number): void {
    const stop = this.#clock.after(every, () => {
      if (this.#closed) return;
      this.#keepBeating(session, every);
      this.#listener(this.#beat([session]));
    });
    this.#beats.set(session, stop);
  }

  /** A heartbeat ends overdue claims, so it returns hints and not only notices. */
  #beat(sessions: number[]): Hint {
    const { outcomes, hint } = this.#store.execute([{ verb: "heartbeat", sessions }], this.#clock.read());
    const notices = "ok" in outcomes[0] ? outcomes[0].ok.notices : [];
    for (const notice of notices) if (notice.kind === "gone") this.#forget(notice.session);
    return { ...hint, notices };
  }

  #forget(session: number): void {
    this.#beats.get(session)?.();
    this.#beats.delete(session);
  }
}
