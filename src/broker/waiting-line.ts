import type { Clock } from "../core/clock.ts";
import type { ClaimCall } from "../core/claim-call.ts";
import type { ClaimOutcome, ClaimRequest } from "../engine/claim-request.ts";
import type { Op } from "../engine/engine.ts";
import type { RetriedClaim } from "../engine/hint.ts";

/**
 * Claims that wait. A waiting claim costs nothing until something tells that there may be a task for it; then
 * the longest-waiting one asks the engine, and only if it found something, the next ones. So one task added
 * for a thousand waiting claims brings at most two of them to the engine.
 *
 *   idle ──wake──▶ asking ──tasks──▶ answered
 *     ▲               │
 *     └── nothing ────┘            wait over, aborted, closed: answered with nothing
 */
export class WaitingLine {
  readonly #run: (op: Op<"claim">) => Promise<ClaimOutcome>;
  readonly #release: (outcome: ClaimOutcome) => void;
  readonly #clock: Clock;
  /** The longest-waiting first. */
  readonly #line = new Set<Waiter>();
  readonly #inProgress = new Set<Promise<void>>();
  #lastNumber = 0;
  #closed = false;

  constructor(
    run: (op: Op<"claim">) => Promise<ClaimOutcome>,
    release: (outcome: ClaimOutcome) => void,
    clock: Clock,
  ) {
    this.#run = run;
    this.#release = release;
    this.#clock = clock;
  }

  get isEmpty(): boolean {
    return this.#line.size === 0;
  }

  claim(call: ClaimCall): Promise<ClaimOutcome> {
    const request = requestOf(call, ++this.#lastNumber);
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        request,
        asking: false,
        isStale: false,
        left: false,
        resolve,
        reject,
        leave: () => {},
      };
      if (call.wait > 0) this.#enqueue(waiter, call);
      this.#start(waiter, 0);
    });
  }

  /** Tasks became ready: wakes one waiting claim for each, the longest-waiting first. */
  wake(ready: Record<string, number>): void {
    for (const [queue, count] of Object.entries(ready)) this.#wakeSome(queue, count);
  }

  /**
   * It is unknown what became ready: retries one claim of each set of queues, which wakes others if it finds tasks.
   * `most`: only for this many sets, because hints will wake the others. `retriedClaim`: one that the engine has
   * already retried.
   */
  wakeAny({
    most = Number.POSITIVE_INFINITY,
    retriedClaim,
  }: { most?: number; retriedClaim?: RetriedClaim | undefined } = {}): void {
    const looked = new Set<string>();
    if (retriedClaim && this.#answerFor(retriedClaim)) looked.add(setOf(retriedClaim.request));
    for (const waiter of this.#line) {
      if (looked.size >= most) return;
      const queues = setOf(waiter.request);
      if (looked.has(queues)) continue;
      looked.add(queues);
      this.#wake(waiter, 1);
    }
  }

  /** False if that claim no longer waits, and others should be retried. */
  #answerFor(retried: RetriedClaim): boolean {
    const waiter = this.#line.values().find(({ request }) => request.waitingId === retried.request.waitingId);
    if ("error" in retried) {
      if (waiter) this.#fail(waiter, retried.error);
      return false;
    }
    if (waiter) this.#answer(waiter, retried.outcome, 1);
    else if (retried.outcome.tasks.length > 0) this.#release(retried.outcome);
    return waiter !== undefined;
  }

  /** Resolves when no claim is in progress, and tasks of late answers have been released. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const waiter of this.#line) this.#leave(waiter, NOTHING);
    await Promise.all(this.#inProgress);
  }

  #enqueue(waiter: Waiter, call: ClaimCall): void {
    // Claims that have waited longer for the same queues are retried first, so that this one takes nothing from them.
    for (const other of this.#line) {
      if (!other.request.queues.some((queue) => call.queues.includes(queue))) continue;
      this.#wake(other, 0);
      break;
    }
    this.#line.add(waiter);
    const stopTimer = this.#clock.after(call.wait, () => this.#leave(waiter, NOTHING));
    const abort = () => {
      this.#leave(waiter, undefined);
      waiter.reject(call.signal!.reason);
    };
    call.signal?.addEventListener("abort", abort, { once: true });
    waiter.leave = () => {
      stopTimer();
      call.signal?.removeEventListener("abort", abort);
      this.#line.delete(waiter);
    };
  }

  #leave(waiter: Waiter, outcome: ClaimOutcome | undefined): void {
    if (waiter.left) return;
    waiter.left = true;
    waiter.leave();
    if (outcome) waiter.resolve(outcome);
  }

  #wakeSome(queue: string, count: number): void {
    let left = count;
    for (const waiter of this.#line) {
      if (left <= 0) return;
      if (!waiter.request.queues.includes(queue)) continue;
      left -= waiter.request.max;
      this.#wake(waiter, 1);
    }
  }

  /** `spread`: how many others it wakes if it gets as many tasks as it asked for. */
  #wake(waiter: Waiter, spread: number): void {
    if (waiter.asking) waiter.isStale = true;
    else this.#start(waiter, spread);
  }

  #start(waiter: Waiter, spread: number): void {
    const asking = this.#ask(waiter, spread).finally(() => this.#inProgress.delete(asking));
    this.#inProgress.add(asking);
  }

  async #ask(waiter: Waiter, spread: number): Promise<void> {
    waiter.asking = true;
    waiter.isStale = false;
    try {
      const outcome = await this.#run({ verb: "claim", ...waiter.request });
      waiter.asking = false;
      if (waiter.left) this.#giveBack(waiter, outcome);
      else this.#answer(waiter, outcome, spread);
    } catch (error) {
      waiter.asking = false;
      this.#fail(waiter, error);
    }
  }

  #answer(waiter: Waiter, outcome: ClaimOutcome, spread: number): void {
    const found = outcome.tasks.length > 0;
    const isWaiting = this.#line.has(waiter) && !this.#closed;
    if (found || !isWaiting) {
      if (!found && outcome.more) return this.#start(waiter, spread);
      this.#leave(waiter, outcome);
      // It was woken for as many tasks as it asked for and got fewer: the rest is for others.
      if (waiter.isStale || outcome.more) this.#wakeNext(waiter.request.queues, Math.max(spread, 1));
      else if (outcome.tasks.length === waiter.request.max) this.#wakeNext(waiter.request.queues, spread);
      if (isWaiting && outcome.passed) this.#wakeAfter(waiter);
    } else if (waiter.isStale || outcome.more) {
      this.#wake(waiter, spread);
    } else if (outcome.passed) {
      this.#wakeAfter(waiter);
    }
  }

  #fail(waiter: Waiter, error: unknown): void {
    if (waiter.left) return;
    this.#leave(waiter, undefined);
    waiter.reject(error);
  }

  /** There may be more tasks: wakes others, twice as many each time, as long as they find some. */
  #wakeNext(queues: string[], spread: number): void {
    let left = spread;
    let asking: Waiter | undefined;
    for (const waiter of this.#line) {
      if (left <= 0) return;
      if (!waiter.request.queues.some((queue) => queues.includes(queue))) continue;
      if (waiter.asking) {
        asking ??= waiter;
        continue;
      }
      left--;
      this.#wake(waiter, spread * 2);
    }
    // All others are already asking, possibly since before the tasks became ready.
    if (left > 0 && asking) asking.isStale = true;
  }

  /** Tasks that only other workers may claim: the next claim of another worker is retried. */
  #wakeAfter(passedBy: Waiter): void {
    let after = !this.#line.has(passedBy);
    for (const waiter of this.#line) {
      const overlaps = waiter.request.queues.some((queue) => passedBy.request.queues.includes(queue));
      if (after && overlaps && waiter.request.worker !== passedBy.request.worker)
        return this.#wake(waiter, 1);
      after ||= waiter === passedBy;
    }
  }

  /** Its caller stopped waiting during the call. If it was woken meanwhile, the next claim is retried. */
  #giveBack(waiter: Waiter, outcome: ClaimOutcome): void {
    if (outcome.tasks.length > 0) this.#release(outcome);
    if (waiter.isStale) this.#wakeNext(waiter.request.queues, 1);
  }
}

interface Waiter {
  request: ClaimRequest;
  asking: boolean;
  /** Woken during the call: its answer may be stale. */
  isStale: boolean;
  left: boolean;
  resolve(outcome: ClaimOutcome): void;
  reject(error: unknown): void;
  leave(): void;
}

const NOTHING: ClaimOutcome = { tasks: [], policies: {}, passed: false, more: false };

function setOf({ queues }: ClaimRequest): string {
  return queues.join("\n");
}

function requestOf(call: ClaimCall, number: number): ClaimRequest {
  const { queues, max, worker } = call;
  return {
    queues,
    max,
    worker,
    ...(call.share !== undefined && { share: call.share }),
    ...(call.session !== undefined && { session: call.session }),
    ...(call.lease !== undefined && { lease: call.lease }),
    // Only for workers: if such a claim is no longer wanted, its tasks are released when the worker leaves.
    ...(call.wait > 0 && call.session !== undefined && { waitingId: number }),
  };
}
