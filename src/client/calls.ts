import type { Clock } from "../core/clock.ts";
import { DibsError, type ErrorData, errorFrom } from "../core/errors.ts";
import { KeepAlive } from "../core/keep-alive.ts";
import { encode } from "../protocol/codec.ts";
import { VERBS, type WireVerb } from "../protocol/verbs.ts";
import type { Link } from "./link.ts";

/** A call waits this long for a connection; then its caller is told. */
const PATIENCE_MS = 10_000;

export interface CallOptions {
  /** In the moment the answer comes, before anything that came behind it is looked at. */
  onAnswer?: (value: never) => void;
  /** Ends the wait: the caller is told at once, the server too. */
  signal?: AbortSignal | undefined;
  /** An answer that comes when nobody waits any more. */
  onLate?: (value: never) => void;
  /** In the moment its caller is told of a failure. */
  onFailure?: (error: unknown) => void;
  /** The server may have carried out an earlier sending of this call, and then refuses it so. */
  onRefusedAgain?: (error: DibsError) => Promise<unknown>;
  /** Also while closing: it belongs to a call that was made before. */
  isLast?: boolean;
}

interface Call {
  id: number;
  verb: WireVerb;
  text: string;
  options: CallOptions;
  isSafe: boolean;
  isSent: boolean;
  isSentAgain: boolean;
  /** Sent before all others in a new session, and never in another one. */
  isFirst: boolean;
  /** Its caller has been told; only the server's answer is still to come. */
  isLeft: boolean;
  /** Its caller waits, and keeps the process alive. */
  isHolding: boolean;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
  stopWaiting: (() => void) | undefined;
}

const NO_OPTIONS: CallOptions = {};

/** Calls under way: sent as they are made, kept until they are answered, and seen to when a connection is lost. */
export class Calls {
  readonly #link: Link;
  readonly #clock: Clock;
  readonly #where: string;
  readonly #keepAlive = new KeepAlive();
  /** Callers that wait, and what they hold together. */
  #holding = 0;
  #letProcessEnd: () => void = () => {};
  /** In the order they were made. */
  readonly #pending = new Map<number, Call>();
  #lastId = 0;
  #isReady = false;
  #failure: DibsError | undefined;
  #onIdle: (() => void) | undefined;

  constructor(link: Link, clock: Clock, where: string) {
    this.#link = link;
    this.#clock = clock;
    this.#where = where;
  }

  nextId(): number {
    return ++this.#lastId;
  }

  /** Refuses what is called from now on. */
  refuse(error: DibsError): void {
    this.#failure ??= error;
  }

  /** Not async, nor what it calls: every promise on the way is one more for each task. */
  run<T>(verb: WireVerb, args: unknown[], options: CallOptions = NO_OPTIONS): Promise<T> {
    if (this.#failure && !options.isLast) return Promise.reject(this.#failure);
    if (options.signal?.aborted) return Promise.reject(options.signal.reason);
    return new Promise<unknown>((resolve, reject) => {
      this.#start(verb, args, options, false, resolve, reject);
    }) as Promise<T>;
  }

  /** In a new session, before the calls that wait for it. */
  runFirst<T>(verb: WireVerb, args: unknown[]): Promise<T> {
    return new Promise<unknown>((resolve, reject) => {
      this.#start(verb, args, NO_OPTIONS, true, resolve, reject);
    }) as Promise<T>;
  }

  #start(
    verb: WireVerb,
    args: unknown[],
    options: CallOptions,
    isFirst: boolean,
    resolve: (value: unknown) => void,
    reject: (error: unknown) => void,
  ): void {
    const { again, args: most } = VERBS[verb];
    const id = this.nextId();
    const text = encode(["call", id, verb, args.length > most ? args.slice(0, most) : args]);
    this.#checkSize(verb, text);
    const call: Call = {
      id,
      verb,
      text,
      options,
      isSafe: typeof again === "function" ? again(args) : again !== "never",
      isSent: false,
      isSentAgain: false,
      isFirst,
      isLeft: false,
      isHolding: !isFirst,
      resolve,
      reject,
      stopWaiting: undefined,
    };
    this.#pending.set(id, call);
    if (!isFirst && this.#holding++ === 0) this.#letProcessEnd = this.#keepAlive.hold();
    if (options.signal) this.#follow(options.signal, call);
    if (this.#isReady || isFirst) this.#send(call);
    else this.#waitForConnection(call);
  }

  #resolve(call: Call, value: unknown): void {
    this.#letGo(call);
    call.resolve(value);
  }

  #reject(call: Call, error: unknown): void {
    this.#letGo(call);
    call.options.onFailure?.(error);
    call.reject(error);
  }

  /** Its caller waits no more. */
  #letGo(call: Call): void {
    if (!call.isHolding) return;
    call.isHolding = false;
    if (--this.#holding === 0) this.#letProcessEnd();
  }

  #checkSize(verb: WireVerb, text: string): void {
    const { maxFrame } = this.#link;
    // A frame adds less than a hundred characters; a character takes at most three bytes.
    if (text.length * 3 + 100 <= maxFrame) return;
    const bytes = Buffer.byteLength(text) + 100;
    if (bytes <= maxFrame) return;
    throw new DibsError(
      "PAYLOAD_TOO_LARGE",
      `This ${verb} makes a message of ${bytes} bytes; the server takes at most ${maxFrame} (maxFrame). Send it in smaller parts.`,
    );
  }

  #follow(signal: AbortSignal, call: Call): void {
    const abort = (): void => {
      this.#reject(call, signal.reason);
      this.abandon(call.id);
    };
    signal.addEventListener("abort", abort, { once: true });
    const { resolve, reject } = call;
    call.resolve = (value) => {
      signal.removeEventListener("abort", abort);
      resolve(value);
    };
    call.reject = (error) => {
      signal.removeEventListener("abort", abort);
      reject(error);
    };
  }

  #send(call: Call): void {
    call.stopWaiting?.();
    call.isSent = true;
    this.#link.send(call.text);
  }

  /** Its caller no longer waits. The server is told, and answers all the same. */
  abandon(id: number): void {
    const call = this.#pending.get(id);
    if (!call || call.isLeft) return;
    call.isLeft = true;
    if (!call.isSent) {
      this.#forget(call);
      this.#checkIdle();
    } else if (this.#isReady) this.#link.send(encode(["abort", id]));
  }

  // ── Answers ─────────────────────────────────────────────────────────────────────────────────────────────

  answered(id: number, value: unknown): void {
    const call = this.#pending.get(id);
    if (!call) return;
    this.#forget(call);
    call.options.onAnswer?.(value as never);
    if (call.isLeft) call.options.onLate?.(value as never);
    else this.#resolve(call, value);
    this.#checkIdle();
  }

  failed(id: number, data: ErrorData): void {
    const call = this.#pending.get(id);
    if (!call) return;
    this.#forget(call);
    this.#checkIdle();
    if (call.isLeft) return;
    const error = errorFrom(data);
    const { onRefusedAgain } = call.options;
    if (!call.isSentAgain || !onRefusedAgain) return this.#reject(call, error);
    onRefusedAgain(error).then(
      (value) => this.#resolve(call, value),
      (refusal: unknown) => this.#reject(call, refusal),
    );
  }

  #forget(call: Call): void {
    call.stopWaiting?.();
    this.#pending.delete(call.id);
  }

  /** Resolves when nothing is under way. */
  async idle(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve;
      this.#checkIdle();
    });
  }

  /** An answer that nobody waits for is waited for only while there is somebody to give it. */
  #checkIdle(): void {
    if (!this.#onIdle) return;
    const isIdle = [...this.#pending.values()].every((call) => call.isLeft && !this.#isReady);
    if (isIdle) this.#onIdle();
  }

  // ── Connections ─────────────────────────────────────────────────────────────────────────────────────────

  /** The connection is lost. Whoever waits is told when that lasts too long. */
  down(): void {
    this.#isReady = false;
    for (const call of this.#pending.values()) if (!call.isFirst) this.#waitForConnection(call);
    this.#checkIdle();
  }

  /** The session goes on: what was sent is under way as before. */
  resumed(): void {
    for (const call of this.#pending.values()) {
      call.stopWaiting?.();
      if (call.isSent && call.isLeft) this.#link.send(encode(["abort", call.id]));
    }
    this.ready();
  }

  /** Another session began: what was to be first in the one before is not answered any more. */
  failFirst(): void {
    for (const call of this.#pending.values()) if (call.isFirst) this.#fail(call);
  }

  /** A new session: what was sent, and may be sent again, is; of the rest nobody knows what became. */
  again(): void {
    for (const call of this.#pending.values()) {
      call.stopWaiting?.();
      if (!call.isSent) continue;
      if (call.isLeft) this.#forget(call);
      else if (call.isSafe) this.#sendAgain(call);
      else this.#fail(call);
    }
    this.ready();
  }

  #sendAgain(call: Call): void {
    call.isSentAgain = true;
    this.#link.send(call.text);
  }

  /** What waited for a connection goes, in the order it was called. */
  ready(): void {
    this.#isReady = true;
    for (const call of this.#pending.values()) if (!call.isSent) this.#send(call);
  }

  failAll(error: DibsError): void {
    for (const call of this.#pending.values()) {
      this.#forget(call);
      this.#reject(call, error);
    }
    this.#checkIdle();
  }

  #waitForConnection(call: Call): void {
    call.stopWaiting?.();
    if (VERBS[call.verb].patient || call.isLeft) return;
    call.stopWaiting = this.#clock.after(PATIENCE_MS, () => this.#fail(call));
  }

  #fail(call: Call): void {
    // The session may yet be resumed, and what was claimed by then must be given back.
    if (call.isSent && call.options.onLate) call.isLeft = true;
    else this.#forget(call);
    this.#checkIdle();
    const isUnknown = call.isSent && !VERBS[call.verb].reads;
    this.#reject(call, isUnknown ? this.#unknown(call.verb) : this.#unavailable());
  }

  #unavailable(): DibsError {
    return new DibsError(
      "UNAVAILABLE",
      `The dibs server at ${this.#where} cannot be reached. Nothing was changed. dibs goes on trying; try again later.`,
    );
  }

  #unknown(verb: string): DibsError {
    return new DibsError(
      "OUTCOME_UNKNOWN",
      `The connection to the dibs server at ${this.#where} was lost during ${verb}, and so was the answer: it may have been ` +
        `carried out or not. Look before you try again; an add with an idempotencyKey may be repeated as it is.`,
    );
  }
}
