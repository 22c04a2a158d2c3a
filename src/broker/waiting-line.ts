import type { Clock } from "../core/clock.ts";
import type { ClaimCall } from "../core/port.ts";
import type { ClaimOutcome, ClaimRequest, Op, RetriedClaim } from "../engine/engine.ts";

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
  readonly #underWay = new Set<Promise<void>>();
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

  claim(wish: ClaimCall): Promise<ClaimOutcome> {
    const request = requestOf(wish, ++this.#lastNumber);
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        request,
        asking: false,
        again: false,
        left: false,
        resolve,
        reject,
        leave: () => {},
      };
      if (wish.wait > 0) this.#lineUp(waiter, wish);
      this.#start(waiter, 0);
    });
  }

  /** Tasks became ready: one waiter for each, the longest-waiting first. */
  wake(ready: Record<string, number>): void {
    for (const [queue, count] of Object.entries(ready)) this.#wakeSome(queue, count);
  }

  /**
   * Nobody knows what became ready: one waiter of each set of queues looks, and wakes others if it finds any. Of some sets
   * only, where those of the others will be told. `stood`: one for which the engine has looked.
   */
  wakeAny({
    most = Number.POSITIVE_INFINITY,
    stood,
  }: { most?: number; stood?: RetriedClaim | undefined } = {}): void {
    const looked = new Set<string>();
    if (stood && this.#answerFor(stood)) looked.add(setOf(stood.request));
    for (const waiter of this.#line) {
      if (looked.size >= most) return;
      const queues = setOf(waiter.request);
      if (looked.has(queues)) continue;
      looked.add(queues);
      this.#wake(waiter, 1);
    }
  }

  /** False where nobody waits for it any more, and others are to look. */
  #answerFor(stood: RetriedClaim): boolean {
    const waiter = this.#line.values().find(({ request }) => request.waitingId === stood.request.waitingId);
    if ("error" in stood) {
      if (waiter) this.#fail(waiter, stood.error);
      return false;
    }
    if (waiter) this.#answer(waiter, stood.outcome, 1);
    else if (stood.outcome.tasks.length > 0) this.#release(stood.outcome);
    return waiter !== undefined;
  }

  /** Resolves when no claim is under way any more, and what late ones brought has been given back. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const waiter of this.#line) this.#leave(waiter, NOTHING);
    await Promise.all(this.#underWay);
  }

  #lineUp(waiter: Waiter, wish: ClaimCall): void {
    // Whoever waited longer for the same queues asks first; nothing is taken from under their hands.
    for (const other of this.#line) {
      if (!other.request.queues.some((queue) => wish.queues.includes(queue))) continue;
      this.#wake(other, 0);
      break;
    }
    this.#line.add(waiter);
    const stopTimer = this.#clock.after(wish.wait, () => this.#leave(waiter, NOTHING));
    const abort = () => {
      this.#leave(waiter, undefined);
      waiter.reject(wish.signal!.reason);
    };
    wish.signal?.addEventListener("abort", abort, { once: true });
    waiter.leave = () => {
      stopTimer();
      wish.signal?.removeEventListener("abort", abort);
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

  /** `spread`: how many others it wakes when it comes back with its hands full. */
  #wake(waiter: Waiter, spread: number): void {
    if (waiter.asking) waiter.again = true;
    else this.#start(waiter, spread);
  }

  #start(waiter: Waiter, spread: number): void {
    const asking = this.#ask(waiter, spread).finally(() => this.#underWay.delete(asking));
    this.#underWay.add(asking);
  }

  async #ask(waiter: Waiter, spread: number): Promise<void> {
    waiter.asking = true;
    waiter.again = false;
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
      // Woken for all that it asked for, and it got less: the rest is for others.
      if (waiter.again || outcome.more) this.#wakeNext(waiter.request.queues, Math.max(spread, 1));
      else if (outcome.tasks.length === waiter.request.max) this.#wakeNext(waiter.request.queues, spread);
      if (isWaiting && outcome.passed) this.#wakeAfter(waiter);
    } else if (waiter.again || outcome.more) {
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

  /** There may be more: wake others, twice as many each time, as long as they find something. */
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
    // All others are asking already, perhaps since before there was anything to find.
    if (left > 0 && asking) asking.again = true;
  }

  /** What is kept for others than this one is for the next in line to look at. */
  #wakeAfter(passedBy: Waiter): void {
    let after = !this.#line.has(passedBy);
    for (const waiter of this.#line) {
      const overlaps = waiter.request.queues.some((queue) => passedBy.request.queues.includes(queue));
      if (after && overlaps && waiter.request.worker !== passedBy.request.worker)
        return this.#wake(waiter, 1);
      after ||= waiter === passedBy;
    }
  }

  /** Its caller stopped waiting while the engine was being asked. What woke it meanwhile is for the next one. */
  #giveBack(waiter: Waiter, outcome: ClaimOutcome): void {
    if (outcome.tasks.length > 0) this.#release(outcome);
    if (waiter.again) this.#wakeNext(waiter.request.queues, 1);
  }
}

interface Waiter {
  request: ClaimRequest;
  asking: boolean;
  /** Woken while asking: what it is told may be out of date. */
  again: boolean;
  left: boolean;
  resolve(outcome: ClaimOutcome): void;
  reject(error: unknown): void;
  leave(): void;
}

const NOTHING: ClaimOutcome = { tasks: [], policies: {}, passed: false, more: false };

function setOf({ queues }: ClaimRequest): string {
  return queues.join("\n");
}

function requestOf(wish: ClaimCall, number: number): ClaimRequest {
  const { queues, max, worker } = wish;
  return {
    queues,
    max,
    worker,
    ...(wish.share !== undefined && { share: wish.share }),
    ...(wish.session !== undefined && { session: wish.session }),
    ...(wish.lease !== undefined && { lease: wish.lease }),
    // What is claimed for somebody who has stopped waiting is given back: a worker's is taken away when it leaves.
    ...(wish.wait > 0 && wish.session !== undefined && { waitingId: number }),
  };
}
