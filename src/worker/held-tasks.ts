import { claimLost, type DibsError, isDibsError } from "../core/errors/errors.ts";
import { LIMITS } from "../core/input/limits.ts";
import type { QueuePolicy } from "../core/queue/policy.ts";
import type { Port } from "../core/port.ts";
import type { ClaimedTask } from "../core/task/task.ts";
import type { Ahead } from "./ahead.ts";
import { type Held, setFate } from "./held.ts";
import type { Observer } from "./observer.ts";

/**
 * All tasks that one worker holds, each from its claim until the store has answered its settlement. worker.ts creates
 * it, claimer.ts adds what it claimed, and runner.ts settles what its handlers ended.
 *
 *   add ──▶ ahead ──start──▶ in its handler ──settling──▶ forgotten
 *             └── give back, lost or cancelled ──────────────▲
 */

/** While so many settlements are unanswered, no tasks are claimed: a slow store slows its workers down. */
const MOST_UNSETTLED = 4 * LIMITS.claimBatch;

/** What the worker does about changes here. */
export interface HeldTasksEvents {
  /** Tasks may be claimed again, or a reconcile is needed. */
  onRoom(): void;
  /** No task is held, and no settlement is unanswered. */
  onNoneLeft(): void;
}

export class HeldTasks {
  /** The tasks that have not started. */
  readonly ahead: Ahead;
  readonly #port: Port;
  readonly #observer: Observer;
  readonly #limit: number;
  readonly #events: HeldTasksEvents;
  /** By fence, which is unique. */
  readonly #held = new Map<number, Held>();
  /** Tasks claimed so far, without those that never started. */
  #taken = 0;
  /** Settlements that are not answered. */
  #settling = 0;
  /** How many answers to claims were lost: the store may have claims of this worker that it does not know of. */
  #lostAnswers = 0;

  constructor(port: Port, ahead: Ahead, observer: Observer, limit: number | null, events: HeldTasksEvents) {
    this.#port = port;
    this.ahead = ahead;
    this.#observer = observer;
    this.#limit = limit ?? Number.POSITIVE_INFINITY;
    this.#events = events;
  }

  all(): Iterable<Held> {
    return this.#held.values();
  }

  get(fence: number): Held | undefined {
    return this.#held.get(fence);
  }

  /** Tasks that have started. */
  get active(): number {
    return this.#held.size - this.ahead.length;
  }

  get isEmpty(): boolean {
    return this.#held.size === 0 && this.#settling === 0;
  }

  /** Tasks that the worker may still claim before it reaches its `limit`. */
  get left(): number {
    return this.#limit - this.#taken;
  }

  get hasTooManyUnsettled(): boolean {
    return this.#settling >= MOST_UNSETTLED;
  }

  add(
    tasks: readonly ClaimedTask[],
    policies: Record<string, QueuePolicy>,
    session: number | undefined,
    claimedAt: number,
  ): Held[] {
    this.#taken += tasks.length;
    return tasks.map((claimed): Held => {
      const held: Held = {
        claimed,
        policy: policies[claimed.queue]!,
        session,
        claimedAt,
        startedAt: claimedAt,
        deadline: Number.POSITIVE_INFINITY,
        task: null,
        fate: "working",
        stopWaiting: null,
      };
      this.#held.set(claimed.fence, held);
      return held;
    });
  }

  /** Another worker may have the task. */
  lose(held: Held, reason: DibsError = claimLost(held.claimed.id, held.claimed.fence)): void {
    if (this.ahead.remove(held)) this.#forgetUnstarted(held);
    if (held.task) this.#observer.lost(held.task, reason);
    setFate(held, "lost", reason);
  }

  /** Releases tasks that are no longer ahead and were not started, as if never claimed. */
  giveBack(tasks: readonly Held[]): void {
    for (const held of tasks) {
      this.#forgetUnstarted(held);
      this.settling(held, this.#release(held));
    }
  }

  /** Forgets the task when `settlement`, or the handling of its failure, is done. */
  settling(held: Held, settlement: Promise<void>, otherwise?: (reason: unknown) => Promise<void>): void {
    this.#settling++;
    const over = (): void => {
      this.#held.delete(held.claimed.fence);
      if (this.#settling-- === MOST_UNSETTLED) this.#events.onRoom();
      if (this.isEmpty) this.#events.onNoneLeft();
    };
    void settlement.then(over, otherwise && ((reason: unknown) => otherwise(reason).then(over)));
  }

  /** Whether the store may have claims for this worker that it does not know of. */
  get needsReconcile(): boolean {
    return this.#lostAnswers > 0;
  }

  answerWasLost(): void {
    this.#lostAnswers++;
  }

  /** Without this, tasks of a lost answer would stay claimed by this worker, and no handler would get them. */
  async reconcile(session: number): Promise<void> {
    // Subtract only what was lost before this call: an answer that is lost during it needs another reconcile.
    const covered = this.#lostAnswers;
    await this.#port.reconcile(session, [...this.#held.keys()]);
    this.#lostAnswers -= covered;
  }

  #forgetUnstarted(held: Held): void {
    this.#held.delete(held.claimed.fence);
    this.#taken--;
  }

  async #release({ claimed }: Held): Promise<void> {
    try {
      await this.#port.settle(claimed, { kind: "release", started: false });
    } catch (error) {
      if (isDibsError(error) && error.code === "CLAIM_LOST") return;
      this.answerWasLost();
      this.#events.onRoom();
    }
  }
}
