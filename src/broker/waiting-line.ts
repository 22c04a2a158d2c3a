import type { Clock } from "../core/time/clock.ts";
import type { ClaimCall } from "../core/task/claim-call.ts";
import type { ClaimOutcome, ClaimRequest } from "../engine/claim-request.ts";
import type { Op } from "../engine/engine.ts";
import type { RetriedClaim } from "../engine/hint.ts";

/**
 * Claims that wait. A waiting claim costs nothing until a hint says that there may be a task for it. Then the
 * longest-waiting claim is sent to the engine, and only if it finds tasks, the next ones. So one task that is added for a
 * thousand waiting claims makes at most two of them be sent.
 *
 *   idle ──wake──▶ requesting ──tasks──▶ answered
 *     ▲                │
 *     └─── nothing ────┘           wait over, aborted, closed: answered with nothing
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
        isRequesting: false,
        isStale: false,
        isAnswered: false,
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
   * `maxSets`: only of this many sets, because hints will wake the others. `retriedClaim`: one that the engine has
   * already retried.
   */
  wakeAny({
    maxSets = Number.POSITIVE_INFINITY,
    retriedClaim,
  }: { maxSets?: number; retriedClaim?: RetriedClaim | undefined } = {}): void {
    const retried = new Set<string>();
    if (retriedClaim && this.#answerFor(retriedClaim)) retried.add(setOf(retriedClaim.request));
    for (const waiter of this.#line) {
      if (retried.size >= maxSets) return;
      const queues = setOf(waiter.request);
      if (retried.has(queues)) continue;
      retried.add(queues);
      this.#wake(waiter, 1);
    }
  }

  /** Passes the outcome of a retried claim to its caller. False if that claim failed or no longer waits. */
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
    if (waiter.isAnswered) return;
    waiter.isAnswered = true;
    waiter.leave();
    if (outcome) waiter.resolve(outcome);
  }

  #wakeSome(queue: string, count: number): void {
    let remaining = count;
    for (const waiter of this.#line) {
      if (remaining <= 0) return;
      if (!waiter.request.queues.includes(queue)) continue;
      remaining -= waiter.request.max;
      this.#wake(waiter, 1);
    }
  }

  /** `spread`: how many others it wakes if it gets as many tasks as it requested. */
  #wake(waiter: Waiter, spread: number): void {
    if (waiter.isRequesting) waiter.isStale = true;
    else this.#start(waiter, spread);
  }

  #start(waiter: Waiter, spread: number): void {
    const requesting = this.#request(waiter, spread).finally(() => this.#inProgress.delete(requesting));
    this.#inProgress.add(requesting);
  }

  async #request(waiter: Waiter, spread: number): Promise<void> {
    waiter.isRequesting = true;
    waiter.isStale = false;
    try {
      const outcome = await this.#run({ verb: "claim", ...waiter.request });
      waiter.isRequesting = false;
      if (waiter.isAnswered) this.#giveBack(waiter, outcome);
      else this.#answer(waiter, outcome, spread);
    } catch (error) {
      waiter.isRequesting = false;
      this.#fail(waiter, error);
    }
  }

  #answer(waiter: Waiter, outcome: ClaimOutcome, spread: number): void {
    const found = outcome.tasks.length > 0;
    const isWaiting = this.#line.has(waiter) && !this.#closed;
    if (found || !isWaiting) {
      if (!found && outcome.more) return this.#start(waiter, spread);
      this.#leave(waiter, outcome);
      // If tasks may be left, they are for other claims: it was woken during the call, it could not take all that it
      // found, or it got as many as it requested.
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
    if (waiter.isAnswered) return;
    this.#leave(waiter, undefined);
    waiter.reject(error);
  }

  /** There may be more tasks: wakes others, twice as many each time, as long as they find some. */
  #wakeNext(queues: string[], spread: number): void {
    let remaining = spread;
    let requesting: Waiter | undefined;
    for (const waiter of this.#line) {
      if (remaining <= 0) return;
      if (!waiter.request.queues.some((queue) => queues.includes(queue))) continue;
      if (waiter.isRequesting) {
        requesting ??= waiter;
        continue;
      }
      remaining--;
      this.#wake(waiter, spread * 2);
    }
    // The others' requests are in progress, and may have begun before the tasks became ready.
    if (remaining > 0 && requesting) requesting.isStale = true;
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

  /** The caller stopped waiting during the request. If the claim was woken meanwhile, the next one is retried. */
  #giveBack(waiter: Waiter, outcome: ClaimOutcome): void {
    if (outcome.tasks.length > 0) this.#release(outcome);
    if (waiter.isStale) this.#wakeNext(waiter.request.queues, 1);
  }
}

interface Waiter {
  request: ClaimRequest;
  /** A request to the engine is in progress. */
  isRequesting: boolean;
  /** Woken during a request, whose outcome may be stale. */
  isStale: boolean;
  /** Its caller was answered, or stopped waiting. */
  isAnswered: boolean;
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
    // With this number the engine may retry the claim unasked. Only for claims of workers: if the caller no longer waits
    // by then, the tasks are released, at the latest when the worker leaves.
    ...(call.wait > 0 && call.session !== undefined && { waitingId: number }),
  };
}
