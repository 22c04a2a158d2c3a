import { LIMITS } from "../input/limits.ts";

/**
 * Limits the memory of answers in progress, from the start of a call until the client has read its answer: per client
 * and in total. The server's doors reserve room here before they make a call. A call that exceeds a limit waits, and
 * starts when other answers have been read; the longest-waiting call starts first. A client that waits for its own
 * limit does not delay other clients.
 */
const ANSWER_BOUNDS = {
  perClient: 8 * 1024 * 1024,
  inTotal: 32 * 1024 * 1024,
};

/**
 * Bytes to reserve before a call starts, by what it answers: a page, or one row. `later`: the call may wait for long
 * and reserves nothing meanwhile. It starts unless its client leaves too much unread.
 */
export const ROOM_FOR = { page: LIMITS.answerBytes, row: 256 * 1024, later: 0 };
export type AnswerKind = keyof typeof ROOM_FOR;

interface Waiting {
  client: ClientAnswers;
  bytes: number;
  start: () => void;
}

export class AnswerBudget {
  readonly #perClient: number;
  readonly #inTotal: number;
  readonly #line = new Set<Waiting>();
  #used = 0;

  constructor({ perClient, inTotal } = ANSWER_BOUNDS) {
    this.#perClient = perClient;
    this.#inTotal = inTotal;
  }

  /** Bytes of all answers in progress. */
  get used(): number {
    return this.#used;
  }

  client(): ClientAnswers {
    return new ClientAnswers(this);
  }

  /** @internal Whether the call may start at once. No call overtakes an earlier one of the same client. */
  admits(client: ClientAnswers, bytes: number): boolean {
    return client.waiting === 0 && this.#hasRoom(client, bytes) && this.#isWithinTotal(client, bytes);
  }

  /** @internal */
  lineUp(waiting: Waiting): void {
    this.#line.add(waiting);
    waiting.client.waiting++;
  }

  /** @internal */
  leave(waiting: Waiting): void {
    if (this.#line.delete(waiting)) waiting.client.waiting--;
  }

  /** @internal */
  changed(bytes: number): void {
    this.#used += bytes;
    if (bytes < 0) this.#startNext();
  }

  /** A client without another answer in progress may have one of any size. */
  #hasRoom(client: ClientAnswers, bytes: number): boolean {
    return client.used === 0 || client.used + bytes <= this.#perClient;
  }

  #isWithinTotal(client: ClientAnswers, bytes: number): boolean {
    return this.#used === client.used || this.#used + bytes <= this.#inTotal;
  }

  #startNext(): void {
    for (const waiting of this.#line) {
      const { client, bytes, start } = waiting;
      if (!this.#hasRoom(client, bytes)) continue;
      // Return instead of continue: smaller calls behind this one must not starve it.
      if (!this.#isWithinTotal(client, bytes)) return;
      this.leave(waiting);
      start();
    }
  }
}

/** The answers of one client. */
export class ClientAnswers {
  readonly #budget: AnswerBudget;
  #reserved = 0;
  #unread = 0;
  #rooms = 0;
  /** @internal Calls of this client that wait for room. */
  waiting = 0;

  constructor(budget: AnswerBudget) {
    this.#budget = budget;
  }

  get used(): number {
    return this.#reserved + this.#unread;
  }

  get isIdle(): boolean {
    return this.#rooms === 0 && this.#unread === 0 && this.waiting === 0;
  }

  /** Bytes written for this client that it has not read. */
  set unread(bytes: number) {
    const change = bytes - this.#unread;
    this.#unread = bytes;
    if (change !== 0) this.#budget.changed(change);
  }

  /** Reserves room for an answer of about `bytes` bytes, until giveBack(). Undefined if there is no room now. */
  reserveNow(bytes: number): Room | undefined {
    return this.#budget.admits(this, bytes) ? this.#take(bytes) : undefined;
  }

  /** Waits until other answers have been read and there is room for this one. Rejects when the signal aborts first. */
  async reserve(bytes: number, signal?: AbortSignal): Promise<Room> {
    const room = this.reserveNow(bytes);
    if (room) return room;
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#budget.leave(waiting);
        reject(signal!.reason);
      };
      const start = (): void => {
        signal?.removeEventListener("abort", leave);
        resolve(this.#take(bytes));
      };
      const waiting: Waiting = { client: this, bytes, start };
      signal?.throwIfAborted();
      signal?.addEventListener("abort", leave, { once: true });
      this.#budget.lineUp(waiting);
    });
  }

  #take(bytes: number): Room {
    let [held, isOver] = [0, false];
    const resize = (now: number): void => {
      if (isOver) return;
      const change = now - held;
      held = now;
      this.#reserved += change;
      if (change !== 0) this.#budget.changed(change);
    };
    const giveBack = (): void => {
      if (isOver) return;
      this.#rooms--;
      resize(0);
      isOver = true;
    };
    this.#rooms++;
    resize(bytes);
    return { resize, giveBack };
  }
}

export interface Room {
  /** The answer turned out to have `bytes` bytes. No effect after giveBack(): the caller is gone. */
  resize(bytes: number): void;
  giveBack(): void;
}
