import { timingSafeEqual } from "node:crypto";
import { type ClientAnswers, type Room, ROOM_FOR } from "../../core/answer-budget.ts";
import { DibsError, type ErrorData, invalid, isDibsError } from "../../core/errors.ts";
import type { Logger } from "../../core/logger.ts";
import type {
  ClaimNotice,
  ClaimResult,
  ClaimCall,
  Port,
  SettleRef,
  WaitOptions,
  SettleCall,
} from "../../core/port.ts";
import { show } from "../../core/show.ts";
import { isStoreFault, errorForClients } from "../../core/store-fault.ts";
import type { WorkerInfo } from "../../core/task.ts";
import { isWireVerb, VERBS } from "../../protocol/verbs.ts";
import { Holdings } from "./holdings.ts";

/** Characters of calls of one connection that may wait for room for their answers. */
const MOST_IN_LINE = 32 * 1024 * 1024;
/** Calls of one connection that may wait for something at the same time; others are not bounded here, for they end soon. */
const MOST_WAITING = 10_000;

export interface Answers {
  ok(id: number, value: unknown): void;
  error(id: number, error: ErrorData): void;
  notice(session: number, notice: ClaimNotice): void;
  /** A call could not be answered at all. */
  failed(error: unknown): void;
}

/** The calls of one client, carried out on the port. A door only translates: what is right to ask is the port's to say. */
export class Calls {
  readonly holdings = new Holdings();
  readonly #port: Port;
  readonly #answers: Answers;
  readonly #logger: Logger;
  readonly #ticketOf: (session: number) => string;
  /** Those that wait for a task, or for a task's end. */
  readonly #waiting = new Map<number, AbortController>();
  /** Those of them that wait for a task. */
  readonly #claiming = new Set<number>();
  readonly #room: ClientAnswers;
  /** Those that wait until earlier answers were read. */
  readonly #inLine = new Map<number, AbortController>();
  #inLineSize = 0;
  #underWay = 0;
  #isDraining = false;
  #onSettled: () => void = () => {};

  constructor({ port, answers, logger, ticketOf, room }: CallsOptions) {
    this.#room = room;
    this.#ticketOf = ticketOf;
    this.#port = port;
    this.#answers = answers;
    this.#logger = logger;
  }

  /** Calls that are not answered yet, but for those that wait. Those in line wait for the client, who must be heard then. */
  get underWay(): number {
    return this.#underWay - this.#waiting.size - this.#inLine.size;
  }

  /** Something is held, or about to be answered. */
  get isBusy(): boolean {
    return !this.holdings.isEmpty || this.underWay > 0;
  }

  /** @param size characters that the call has taken on the wire, about */
  start(id: number, verb: unknown, args: unknown, size = 0): void {
    this.#underWay++;
    const kind = isWireVerb(verb) ? VERBS[verb].answers : undefined;
    if (kind === undefined) return this.#carryOut(id, verb, args);
    const room = this.#room.reserveNow(ROOM_FOR[kind]);
    if (room) return this.#carryOut(id, verb, args, room);
    this.#standInLine(id, ROOM_FOR[kind], size).then(
      (given) => this.#carryOut(id, verb, args, given),
      (error: unknown) => this.#settled(id, verb, () => this.#refuse(id, verb, error)),
    );
  }

  /** Until there is room. Later calls that need none go on meanwhile: nobody waits for an answer that is not read. */
  async #standInLine(id: number, bytes: number, size: number): Promise<Room> {
    if (this.#inLine.has(id))
      throw invalid(`Call ${id} is waiting already; every call has a number of its own.`);
    if (this.#inLineSize + size > MOST_IN_LINE || this.#inLine.size >= MOST_WAITING) {
      throw new DibsError(
        "UNAVAILABLE",
        "Too many calls of this connection wait until earlier answers are read. Read those, or ask for less at once.",
      );
    }
    const stop = new AbortController();
    this.#inLine.set(id, stop);
    this.#inLineSize += size;
    try {
      return await this.#room.reserve(bytes, stop.signal);
    } finally {
      this.#inLine.delete(id);
      this.#inLineSize -= size;
    }
  }

  #carryOut(id: number, verb: unknown, args: unknown, room?: Room): void {
    this.#run(id, verb, args).then(
      (value) => this.#settled(id, verb, () => this.#answer(id, value), room),
      (error: unknown) => this.#settled(id, verb, () => this.#refuse(id, verb, error), room),
    );
  }

  #settled(id: number, verb: unknown, answer: () => void, room?: Room): void {
    this.#underWay--;
    try {
      this.#answerOrRefuse(id, verb, answer);
      // By now it counts as unread.
      room?.giveBack();
      this.#onSettled();
    } catch (error) {
      room?.giveBack();
      this.#answers.failed(error);
    }
  }

  #answerOrRefuse(id: number, verb: unknown, answer: () => void): void {
    try {
      answer();
    } catch (error) {
      this.#refuse(id, verb, error);
    }
  }

  #refuse(id: number, verb: unknown, error: unknown): void {
    this.#answers.error(id, this.#dataOf(error, verb));
  }

  /** What is longer than a text can be is not sent; nobody learns of what it would have handed out. */
  #answer(id: number, value: unknown): void {
    try {
      this.#answers.ok(id, value);
    } catch (error) {
      this.#logger.warn(`An answer could not be written: ${(error as Error).message}`);
      const { tasks } = (value ?? {}) as Partial<ClaimResult>;
      for (const { fence } of tasks ?? []) this.#giveBack(fence);
      throw new DibsError(
        "PAYLOAD_TOO_LARGE",
        "The answer is longer than a message can be. Ask for less at once.",
      );
    }
  }

  #giveBack(fence: number): void {
    const held = this.holdings.held(fence);
    if (!held) return;
    this.holdings.settled(fence);
    this.#port.settle(held.claim, { kind: "release", started: false }).catch(() => {});
  }

  abort(id: number): void {
    const nobody = new DibsError("CLOSED", "Nobody waits for this any more.");
    this.#waiting.get(id)?.abort(nobody);
    this.#inLine.get(id)?.abort(nobody);
  }

  abortAll(): void {
    for (const id of [...this.#waiting.keys(), ...this.#inLine.keys()]) this.abort(id);
  }

  /** Hands out nothing more. Claims that wait go on waiting, and their client asks the next server. */
  drain(): void {
    this.#isDraining = true;
    for (const id of this.#claiming) this.#waiting.get(id)?.abort(DRAINING);
  }

  /** Calls `fn` whenever something was answered, such as a settlement. */
  onSettled(fn: () => void): void {
    this.#onSettled = fn;
  }

  /** Not async: it would be one more promise for each task. */
  #run(id: number, verb: unknown, args: unknown): Promise<unknown> {
    try {
      return this.#pass(id, verb, args);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #pass(id: number, verb: unknown, args: unknown): Promise<unknown> {
    if (!isWireVerb(verb)) {
      throw new DibsError(
        "UNSUPPORTED",
        `This server knows no verb ${show(verb)}. Is it of an older version?`,
      );
    }
    if (!Array.isArray(args)) throw invalid(`The arguments of ${verb} are a list; got ${show(args)}.`);
    const { args: most } = VERBS[verb];
    const given = (args.length > most ? args.slice(0, most) : args) as never[];
    switch (verb) {
      case "claim":
        return this.#claim(id, ...(given as unknown as [ClaimCall]));
      case "settle":
        return this.#settle(...(given as unknown as [SettleRef, SettleCall]));
      case "end":
        return this.#end(id, ...(given as unknown as [string, WaitOptions?]));
      case "join":
        return this.#join(...(given as unknown as [WorkerInfo, number]));
      case "reconcile":
        return this.#reconcile(...(given as unknown as [number, number[]]));
      case "rejoin":
        return this.#rejoin(...(given as unknown as [number, number[], Restored?]));
      case "retire":
        return this.#port.retire(this.#sessionOf(given[0] as unknown as number));
      case "leave":
        return this.#leave(...(given as unknown as [number, { lost?: boolean }?]));
      default:
        return (this.#port[verb] as (...args: never[]) => Promise<unknown>)(...given);
    }
  }

  async #claim(id: number, given: ClaimCall): Promise<unknown> {
    const wish = { ...given, signal: undefined };
    if (wish.session !== undefined) wish.session = this.#sessionOf(wish.session);
    if (this.#isDraining) return this.#claimNothing(id, wish.wait);
    this.#claiming.add(id);
    try {
      const { tasks, policies } = await this.#waitingFor(id, wish.wait > 0, (signal) =>
        this.#port.claim({ ...wish, signal }),
      );
      this.holdings.claimed(given.session, { tasks, policies });
      return { tasks, policies };
    } catch (error) {
      if (error === DRAINING) return this.#claimNothing(id, wish.wait);
      throw error;
    } finally {
      this.#claiming.delete(id);
    }
  }

  /** While the server stops: answered at once, a worker would ask again at once. */
  async #claimNothing(id: number, wait: number): Promise<ClaimResult> {
    if (!(wait > 0)) {
      throw new DibsError(
        "UNAVAILABLE",
        "This server is being stopped and hands out no more tasks. Try again soon.",
      );
    }
    return this.#waitingFor(
      id,
      true,
      (signal) =>
        new Promise((resolve, reject) => {
          const stopTimer = this.#port.clock.after(wait, () => resolve({ tasks: [], policies: {} }));
          signal!.addEventListener("abort", () => {
            stopTimer();
            reject(signal!.reason);
          });
        }),
    );
  }

  #settle(held: SettleRef, word: SettleCall): Promise<unknown> {
    return this.#port.settle(held, word).then(
      (answer) => {
        this.holdings.settled(held.fence);
        return answer;
      },
      (error: unknown) => {
        if (isDibsError(error) && error.code === "CLAIM_LOST") this.holdings.settled(held.fence);
        throw error;
      },
    );
  }

  async #end(id: number, task: string, { timeout, of }: WaitOptions = {}): Promise<unknown> {
    return this.#waitingFor(id, true, (signal) =>
      this.#port.end(task, { signal, of, ...(timeout !== undefined && { timeout }) }),
    );
  }

  async #waitingFor<T>(
    id: number,
    waits: boolean,
    run: (signal: AbortSignal | undefined) => Promise<T>,
  ): Promise<T> {
    if (!waits) return run(undefined);
    if (this.#waiting.has(id))
      throw invalid(`Call ${id} is waiting already; every call has a number of its own.`);
    if (this.#waiting.size >= MOST_WAITING) {
      throw new DibsError(
        "UNAVAILABLE",
        `More than ${MOST_WAITING} calls wait on this connection. Ask for more tasks at once, or open another one.`,
      );
    }
    const stop = new AbortController();
    this.#waiting.set(id, stop);
    try {
      return await run(stop.signal);
    } finally {
      this.#waiting.delete(id);
    }
  }

  // ── Workers ─────────────────────────────────────────────────────────────────────────────────────────────

  async #join(worker: WorkerInfo, lease: number): Promise<{ session: number; ticket: string }> {
    let name = -1;
    const session = await this.#port.join(worker, lease, (notice) => this.#hear(name, notice));
    name = session;
    this.holdings.joined(name, session);
    return { session, ticket: this.#ticketOf(session) };
  }

  async #reconcile(name: number, fences: number[]): Promise<void> {
    await this.#port.reconcile(this.#sessionOf(name), fences);
    this.holdings.reconciled(name, fences);
  }

  /** A session that this client has here, or had through a server before this one, which its ticket proves. */
  async #rejoin(session: number, fences: number[], restored?: Restored): Promise<unknown> {
    const isProved = typeof session !== "number" || isSame(restored?.ticket, this.#ticketOf(session));
    const current = isProved ? session : this.#sessionOf(session);
    let name = restored?.name ?? -1;
    const answer = await this.#port.rejoin(current, fences, (notice) => this.#hear(name, notice));
    name = restored?.name ?? answer.session;
    this.holdings.left(session);
    this.holdings.joined(name, answer.session);
    return { ...answer, ticket: this.#ticketOf(answer.session) };
  }

  async #leave(name: number, options?: { lost?: boolean }): Promise<void> {
    // One that it does not have has ended, or is somebody else's.
    const session = this.holdings.session(name) ?? (typeof name === "number" ? NOBODYS : name);
    this.holdings.left(name);
    await this.#port.leave(session, { lost: options?.lost === true });
  }

  #sessionOf(name: number): number {
    const session = this.holdings.session(name);
    if (session !== undefined) return session;
    throw new DibsError(
      "CLAIM_LOST",
      `Session ${show(name)} has ended, or is not this client's: what it held went to others. Join again.`,
    );
  }

  #hear(name: number, notice: ClaimNotice): void {
    this.holdings.hear(name, notice);
    this.#answers.notice(name, notice);
  }

  #dataOf(error: unknown, verb: unknown): ErrorData {
    if (isDibsError(error)) {
      if (isStoreFault(error)) this.#logger.error(`The store failed: ${error.message}`);
      return errorForClients(error);
    }
    // Checks stand behind the port; what breaks before them was of no shape that a client of ours sends.
    const reason = error instanceof Error ? error.message : show(error);
    this.#logger.warn(`A call of ${show(verb)} could not be carried out: ${reason}`);
    return { code: "INVALID", message: `The arguments of ${show(verb)} are not of the shape it takes.` };
  }
}

export interface CallsOptions {
  port: Port;
  answers: Answers;
  logger: Logger;
  ticketOf: (session: number) => string;
  room: ClientAnswers;
}

/** What a client says of a session that it had before: how it goes on calling it, and that it is its own. */
interface Restored {
  name: number;
  ticket: string;
}

function isSame(given: unknown, expected: string): boolean {
  if (typeof given !== "string") return false;
  const [a, b] = [Buffer.from(given), Buffer.from(expected)];
  return a.length === b.length && timingSafeEqual(a, b);
}

const DRAINING = new DibsError("UNAVAILABLE", "draining");
/** No store gives out this number. */
const NOBODYS = 0;
