import { timingSafeEqual } from "node:crypto";
import { type ClientAnswers, type Room, ROOM_FOR } from "../../core/answer/answer-budget.ts";
import { DibsError, type ErrorData, invalid, isDibsError } from "../../core/errors/errors.ts";
import type { Logger } from "../../core/process/logger.ts";
import type {
  ClaimNotice,
  ClaimResult,
  ClaimCall,
  SettleRef,
  SettleCall,
} from "../../core/task/claim-call.ts";
import type { Port, WaitOptions } from "../../core/port.ts";
import { show } from "../../core/errors/show.ts";
import { isStoreFault, errorForClients } from "../../core/errors/store-fault.ts";
import type { WorkerInfo } from "../../core/task/task.ts";
import { isWireVerb, VERBS } from "../../protocol/verbs.ts";
import { HeldClaims } from "./held-claims.ts";

/** Most characters of one connection's calls that may wait for room for their answers. */
const MOST_WAITING_FOR_ROOM = 32 * 1024 * 1024;
/** Most calls of one connection that may wait for something at once. Other calls end soon, and are not bounded here. */
const MOST_WAITING = 10_000;

export interface Answers {
  ok(id: number, value: unknown): void;
  error(id: number, error: ErrorData): void;
  notice(session: number, notice: ClaimNotice): void;
  /** A call could not be answered at all. */
  failed(error: unknown): void;
}

/** The calls of one client, executed on the port. A door only translates: the port checks the arguments. */
export class Calls {
  readonly heldClaims = new HeldClaims();
  readonly #port: Port;
  readonly #answers: Answers;
  readonly #logger: Logger;
  readonly #ticketOf: (session: number) => string;
  /** How many calls wait for a task, or for the end of a task. */
  readonly #waiting = new Map<number, AbortController>();
  /** How many of these wait for a task. */
  readonly #claiming = new Set<number>();
  readonly #room: ClientAnswers;
  /** Calls that wait until earlier answers were read. */
  readonly #waitingForRoom = new Map<number, AbortController>();
  #waitingForRoomSize = 0;
  #inProgress = 0;
  #isDraining = false;
  #onSettled: () => void = () => {};

  constructor({ port, answers, logger, ticketOf, room }: CallsOptions) {
    this.#room = room;
    this.#ticketOf = ticketOf;
    this.#port = port;
    this.#answers = answers;
    this.#logger = logger;
  }

  /**
   * Unanswered calls without those that wait. Calls that wait for room need the client to read, so its messages must
   * still be read.
   */
  get inProgress(): number {
    return this.#inProgress - this.#waiting.size - this.#waitingForRoom.size;
  }

  /** Whether the client holds claims, or calls are about to be answered. */
  get isBusy(): boolean {
    return !this.heldClaims.isEmpty || this.inProgress > 0;
  }

  /** @param size approximate characters of the call on the wire */
  start(id: number, verb: unknown, args: unknown, size = 0): void {
    this.#inProgress++;
    const kind = isWireVerb(verb) ? VERBS[verb].answers : undefined;
    if (kind === undefined) return this.#execute(id, verb, args);
    const room = this.#room.reserveNow(ROOM_FOR[kind]);
    if (room) return this.#execute(id, verb, args, room);
    this.#waitForRoom(id, ROOM_FOR[kind], size).then(
      (given) => this.#execute(id, verb, args, given),
      (error: unknown) => this.#settled(id, verb, () => this.#refuse(id, verb, error)),
    );
  }

  /**
   * Waits until there is room. Later calls that need none continue meanwhile, so that an unread answer blocks no other
   * call.
   */
  async #waitForRoom(id: number, bytes: number, size: number): Promise<Room> {
    if (this.#waitingForRoom.has(id))
      throw invalid(`Call ${id} is already waiting; every call needs its own number.`);
    if (
      this.#waitingForRoomSize + size > MOST_WAITING_FOR_ROOM ||
      this.#waitingForRoom.size >= MOST_WAITING
    ) {
      throw new DibsError(
        "UNAVAILABLE",
        "Too many calls of this connection wait until earlier answers are read. Read those, or make fewer calls at once.",
      );
    }
    const stop = new AbortController();
    this.#waitingForRoom.set(id, stop);
    this.#waitingForRoomSize += size;
    try {
      return await this.#room.reserve(bytes, stop.signal);
    } finally {
      this.#waitingForRoom.delete(id);
      this.#waitingForRoomSize -= size;
    }
  }

  #execute(id: number, verb: unknown, args: unknown, room?: Room): void {
    this.#run(id, verb, args).then(
      (value) => this.#settled(id, verb, () => this.#answer(id, value), room),
      (error: unknown) => this.#settled(id, verb, () => this.#refuse(id, verb, error), room),
    );
  }

  #settled(id: number, verb: unknown, answer: () => void, room?: Room): void {
    this.#inProgress--;
    try {
      this.#answerOrRefuse(id, verb, answer);
      // From here on the answer counts as unread.
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

  /** An answer that is longer than a string can be is not sent. The tasks in it are released. */
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
    const held = this.heldClaims.held(fence);
    if (!held) return;
    this.heldClaims.settled(fence);
    this.#port.settle(held.claim, { kind: "release", started: false }).catch(() => {});
  }

  abort(id: number): void {
    const aborted = new DibsError("CLOSED", "The caller no longer waits for this.");
    this.#waiting.get(id)?.abort(aborted);
    this.#waitingForRoom.get(id)?.abort(aborted);
  }

  abortAll(): void {
    for (const id of [...this.#waiting.keys(), ...this.#waitingForRoom.keys()]) this.abort(id);
  }

  /**
   * Gives no more tasks to the client. Waiting claims stay unanswered, and the client sends them to the next server.
   */
  drain(): void {
    this.#isDraining = true;
    for (const id of this.#claiming) this.#waiting.get(id)?.abort(DRAINING);
  }

  /** Calls `fn` whenever a call was answered, such as a settlement. */
  onSettled(fn: () => void): void {
    this.#onSettled = fn;
  }

  /** Not async: that would cost a promise per task. */
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
        `This server does not know the verb ${show(verb)}. It may be an older version.`,
      );
    }
    if (!Array.isArray(args)) throw invalid(`The arguments of ${verb} must be a list; got ${show(args)}.`);
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
    const request = { ...given, signal: undefined };
    if (request.session !== undefined) request.session = this.#sessionOf(request.session);
    if (this.#isDraining) return this.#claimNothing(id, request.wait);
    this.#claiming.add(id);
    try {
      const { tasks, policies } = await this.#waitingFor(id, request.wait > 0, (signal) =>
        this.#port.claim({ ...request, signal }),
      );
      this.heldClaims.claimed(given.session, { tasks, policies });
      return { tasks, policies };
    } catch (error) {
      if (error === DRAINING) return this.#claimNothing(id, request.wait);
      throw error;
    } finally {
      this.#claiming.delete(id);
    }
  }

  /** While the server stops, a waiting claim is not answered: its worker would claim again at once. */
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

  #settle(held: SettleRef, call: SettleCall): Promise<unknown> {
    return this.#port.settle(held, call).then(
      (answer) => {
        this.heldClaims.settled(held.fence);
        return answer;
      },
      (error: unknown) => {
        if (isDibsError(error) && error.code === "CLAIM_LOST") this.heldClaims.settled(held.fence);
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
      throw invalid(`Call ${id} is already waiting; every call needs its own number.`);
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
    const session = await this.#port.join(worker, lease, (notice) => this.#onNotice(name, notice));
    name = session;
    this.heldClaims.joined(name, session);
    return { session, ticket: this.#ticketOf(session) };
  }

  async #reconcile(name: number, fences: number[]): Promise<void> {
    await this.#port.reconcile(this.#sessionOf(name), fences);
    this.heldClaims.reconciled(name, fences);
  }

  /** Rejoins a session that this client has here, or had through an earlier server, which its ticket proves. */
  async #rejoin(session: number, fences: number[], restored?: Restored): Promise<unknown> {
    const isProved = typeof session !== "number" || isSame(restored?.ticket, this.#ticketOf(session));
    const current = isProved ? session : this.#sessionOf(session);
    let name = restored?.name ?? -1;
    const answer = await this.#port.rejoin(current, fences, (notice) => this.#onNotice(name, notice));
    name = restored?.name ?? answer.session;
    this.heldClaims.left(session);
    this.heldClaims.joined(name, answer.session);
    return { ...answer, ticket: this.#ticketOf(answer.session) };
  }

  async #leave(name: number, options?: { lost?: boolean }): Promise<void> {
    // If the client does not have this session, it has ended or belongs to another client.
    const session = this.heldClaims.session(name) ?? (typeof name === "number" ? NO_SESSION : name);
    this.heldClaims.left(name);
    await this.#port.leave(session, { lost: options?.lost === true });
  }

  #sessionOf(name: number): number {
    const session = this.heldClaims.session(name);
    if (session !== undefined) return session;
    throw new DibsError(
      "CLAIM_LOST",
      `Session ${show(name)} has ended, or belongs to another client. Its claims are lost. Join again.`,
    );
  }

  #onNotice(name: number, notice: ClaimNotice): void {
    this.heldClaims.onNotice(name, notice);
    this.#answers.notice(name, notice);
  }

  #dataOf(error: unknown, verb: unknown): ErrorData {
    if (isDibsError(error)) {
      if (isStoreFault(error)) this.#logger.error(`The store failed: ${error.message}`);
      return errorForClients(error);
    }
    // The port checks the values. Errors before that come from shapes that the dibs client never sends.
    const reason = error instanceof Error ? error.message : show(error);
    this.#logger.warn(`A call of ${show(verb)} could not be executed: ${reason}`);
    return { code: "INVALID", message: `The arguments of ${show(verb)} have the wrong shape.` };
  }
}

export interface CallsOptions {
  port: Port;
  answers: Answers;
  logger: Logger;
  ticketOf: (session: number) => string;
  room: ClientAnswers;
}

/** What a client says about an earlier session: the number that it keeps using, and the proof that it is its own. */
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
/** No store assigns this number. */
const NO_SESSION = 0;
