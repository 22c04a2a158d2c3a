import type { Clock } from "../core/time/clock.ts";
import { DibsError, type ErrorData, errorFrom } from "../core/errors/errors.ts";
import { KeepAlive } from "../core/process/keep-alive.ts";
import { encode } from "../protocol/codec.ts";
import { VERBS, type WireVerb } from "../protocol/verbs.ts";
import type { Link } from "./link.ts";

/** A call waits this long for a connection. Then it fails. */
const PATIENCE_MS = 10_000;

export interface CallOptions {
  /** Called when the answer arrives, before later items are processed. */
  onAnswer?: (value: never) => void;
  /** Ends the wait: the caller is answered at once, and the server is notified. */
  signal?: AbortSignal | undefined;
  /** Called for an answer that arrives when its caller no longer waits. */
  onLate?: (value: never) => void;
  /** Called when the call fails. */
  onFailure?: (error: unknown) => void;
  /** Called when a resent call is refused: the server may have executed the first sending. */
  onRefusedResend?: (error: DibsError) => Promise<unknown>;
  /** The call is accepted even while closing, because it belongs to an earlier call. */
  isAllowedWhileClosing?: boolean;
}

interface Call {
  id: number;
  verb: WireVerb;
  text: string;
  options: CallOptions;
  /** If the connection is lost before the answer, the call may be sent again. */
  isSafeToResend: boolean;
  isSent: boolean;
  isResent: boolean;
  /** The call opens a session: it is sent before all other calls, and never in another session. */
  isOpening: boolean;
  /** The caller has been answered, but the server has not answered yet. */
  isAbandoned: boolean;
  /** The caller waits for the answer, which keeps the process alive. */
  hasWaitingCaller: boolean;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
  stopWaiting: (() => void) | undefined;
}

const NO_OPTIONS: CallOptions = {};

/**
 * The calls in progress. A call is sent when it is made, and stored until it is answered. When a connection is lost, it
 * is resent or fails.
 */
export class Calls {
  readonly #link: Link;
  readonly #clock: Clock;
  readonly #where: string;
  readonly #keepAlive = new KeepAlive();
  /** The number of waiting callers. */
  #waitingCallers = 0;
  /** Ends what keeps the process alive for them. */
  #letProcessEnd: () => void = () => {};
  /** In the order of the calls. */
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

  /** Refuses all calls from now on. */
  refuse(error: DibsError): void {
    this.#failure ??= error;
  }

  /** Makes a call. This function and those that it calls are not async: each would cost a promise per task. */
  run<T>(verb: WireVerb, args: unknown[], options: CallOptions = NO_OPTIONS): Promise<T> {
    if (this.#failure && !options.isAllowedWhileClosing) return Promise.reject(this.#failure);
    if (options.signal?.aborted) return Promise.reject(options.signal.reason);
    return new Promise<unknown>((resolve, reject) => {
      this.#start(verb, args, options, false, resolve, reject);
    }) as Promise<T>;
  }

  /** Makes a call that opens a new session: it is sent before the calls that wait for the session. */
  runOpening<T>(verb: WireVerb, args: unknown[]): Promise<T> {
    return new Promise<unknown>((resolve, reject) => {
      this.#start(verb, args, NO_OPTIONS, true, resolve, reject);
    }) as Promise<T>;
  }

  #start(
    verb: WireVerb,
    args: unknown[],
    options: CallOptions,
    isOpening: boolean,
    resolve: (value: unknown) => void,
    reject: (error: unknown) => void,
  ): void {
    const { again, args: maxArgs } = VERBS[verb];
    const id = this.nextId();
    const text = encode(["call", id, verb, args.length > maxArgs ? args.slice(0, maxArgs) : args]);
    this.#checkSize(verb, text);
    const call: Call = {
      id,
      verb,
      text,
      options,
      isSafeToResend: typeof again === "function" ? again(args) : again !== "never",
      isSent: false,
      isResent: false,
      isOpening,
      isAbandoned: false,
      hasWaitingCaller: !isOpening,
      resolve,
      reject,
      stopWaiting: undefined,
    };
    this.#pending.set(id, call);
    if (!isOpening && this.#waitingCallers++ === 0) this.#letProcessEnd = this.#keepAlive.hold();
    if (options.signal) this.#follow(options.signal, call);
    if (this.#isReady || isOpening) this.#send(call);
    else this.#waitForConnection(call);
  }

  #resolve(call: Call, value: unknown): void {
    this.#noteAnswered(call);
    call.resolve(value);
  }

  #reject(call: Call, error: unknown): void {
    this.#noteAnswered(call);
    call.options.onFailure?.(error);
    call.reject(error);
  }

  /** The caller is about to be answered, and no longer keeps the process alive. */
  #noteAnswered(call: Call): void {
    if (!call.hasWaitingCaller) return;
    call.hasWaitingCaller = false;
    if (--this.#waitingCallers === 0) this.#letProcessEnd();
  }

  #checkSize(verb: WireVerb, text: string): void {
    const { maxFrame } = this.#link;
    // A frame adds fewer than 100 bytes, and a character has at most 3: most texts need not be measured.
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

  /** The caller no longer waits. The server is notified, and answers in any case. */
  abandon(id: number): void {
    const call = this.#pending.get(id);
    if (!call || call.isAbandoned) return;
    call.isAbandoned = true;
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
    if (call.isAbandoned) call.options.onLate?.(value as never);
    else this.#resolve(call, value);
    this.#checkIdle();
  }

  failed(id: number, data: ErrorData): void {
    const call = this.#pending.get(id);
    if (!call) return;
    this.#forget(call);
    this.#checkIdle();
    if (call.isAbandoned) return;
    const error = errorFrom(data);
    const { onRefusedResend } = call.options;
    if (!call.isResent || !onRefusedResend) return this.#reject(call, error);
    onRefusedResend(error).then(
      (value) => this.#resolve(call, value),
      (refusal: unknown) => this.#reject(call, refusal),
    );
  }

  #forget(call: Call): void {
    call.stopWaiting?.();
    this.#pending.delete(call.id);
  }

  /** Resolves when no call is in progress. */
  async idle(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#onIdle = resolve;
      this.#checkIdle();
    });
  }

  /** Resolves `idle` if no answer is outstanding. Without a connection, answers to abandoned calls do not count. */
  #checkIdle(): void {
    if (!this.#onIdle) return;
    const isIdle = [...this.#pending.values()].every((call) => call.isAbandoned && !this.#isReady);
    if (isIdle) this.#onIdle();
  }

  // ── Connections ─────────────────────────────────────────────────────────────────────────────────────────

  /** The connection is lost. Waiting calls fail if that lasts too long. */
  down(): void {
    this.#isReady = false;
    for (const call of this.#pending.values()) if (!call.isOpening) this.#waitForConnection(call);
    this.#checkIdle();
  }

  /** The session was resumed: calls that were sent are in progress as before. */
  resumed(): void {
    for (const call of this.#pending.values()) {
      call.stopWaiting?.();
      if (call.isSent && call.isAbandoned) this.#link.send(encode(["abort", call.id]));
    }
    this.ready();
  }

  /** A new session begins: the calls that opened the previous one will not be answered. */
  failOpening(): void {
    for (const call of this.#pending.values()) if (call.isOpening) this.#fail(call);
  }

  /**
   * A new session: calls that were sent are resent if that is safe. The others fail, because their outcome is unknown.
   */
  resend(): void {
    for (const call of this.#pending.values()) {
      call.stopWaiting?.();
      if (!call.isSent) continue;
      if (call.isAbandoned) this.#forget(call);
      else if (call.isSafeToResend) this.#resend(call);
      else this.#fail(call);
    }
    this.ready();
  }

  #resend(call: Call): void {
    call.isResent = true;
    this.#link.send(call.text);
  }

  /** Sends the calls that waited for a connection, in their order. */
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
    if (VERBS[call.verb].patient || call.isAbandoned) return;
    call.stopWaiting = this.#clock.after(PATIENCE_MS, () => this.#fail(call));
  }

  #fail(call: Call): void {
    // The session may still be resumed. Then the answer may bring claimed tasks, which onLate must release.
    if (call.isSent && call.options.onLate) call.isAbandoned = true;
    else this.#forget(call);
    this.#checkIdle();
    const isUnknown = call.isSent && !VERBS[call.verb].reads;
    this.#reject(call, isUnknown ? this.#unknown(call.verb) : this.#unavailable());
  }

  #unavailable(): DibsError {
    return new DibsError(
      "UNAVAILABLE",
      `The dibs server at ${this.#where} cannot be reached. Nothing was changed. dibs keeps trying to reconnect; try again later.`,
    );
  }

  #unknown(verb: string): DibsError {
    return new DibsError(
      "OUTCOME_UNKNOWN",
      `The connection to the dibs server at ${this.#where} was lost before the answer to ${verb} arrived. The call may or ` +
        `may not have been executed. Check before you try again; an add with an idempotencyKey can be repeated as it is.`,
    );
  }
}
