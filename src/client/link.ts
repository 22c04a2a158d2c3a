import type { WebSocket } from "ws";
import type { Clock } from "../core/time/clock.ts";
import { type DibsError, isDibsError } from "../core/errors/errors.ts";
import type { Logger } from "../core/process/logger.ts";
import { decode } from "../protocol/codec.ts";
import type { Welcome } from "../protocol/messages.ts";
import { isFrame, Stream } from "../protocol/stream.ts";
import { type Address, dial, type Dialled } from "./dial.ts";

// The connection of a client: reconnects, resumes the session, and sends unacknowledged items again. `calls.ts` uses
// it.

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 2_000;
/** Intervals without a message from the server, after which the connection counts as dead. */
const MISSED_INTERVALS = 3;

export interface LinkOptions {
  address: Address;
  clock: Clock;
  logger: Logger;
  random: () => number;
}

export interface LinkListener {
  /** Called for each item, in the order in which they were sent, without duplicates. */
  onItem(item: unknown): void;
  /** A new session: the outcome of the calls in progress is unknown. */
  onFresh(): void;
  /** The session was resumed: nothing was lost. */
  onResumed(): void;
  onDown(): void;
  /** The server refuses this client permanently. */
  onRefused(error: DibsError): void;
}

/**
 * A connection that is opened again whenever it is lost.
 *
 *   dialling ──welcome──▶ up ──lost, or silent for three intervals──▶ dialling, after a growing pause …
 *       └──refused──▶ over ◀──close()── any
 */
export class Link {
  readonly #options: LinkOptions;
  readonly #listener: LinkListener;
  #stream: Stream;
  #socket: WebSocket | undefined;
  #welcome: Welcome["welcome"] | undefined;
  #isOver = false;
  #failures = 0;
  #hasHeard = false;
  #missed = 0;
  #stopTimer: () => void = () => {};

  constructor(options: LinkOptions, listener: LinkListener) {
    this.#options = options;
    this.#listener = listener;
    this.#stream = new Stream(options.clock);
  }

  get isUp(): boolean {
    return this.#socket !== undefined;
  }

  /** The longest frame that the server accepts. */
  get maxFrame(): number {
    return this.#welcome?.maxFrame ?? Number.POSITIVE_INFINITY;
  }

  /** The first connection. Fails if the server cannot be reached, because the address may be wrong. */
  async open(): Promise<void> {
    await dial(this.#options.address, undefined, (dialled) => this.#use(dialled));
  }

  send(item: string): void {
    this.#stream.send(item);
  }

  /** Sends what is waiting, and ends the connection. */
  close(): void {
    this.#isOver = true;
    this.#stopTimer();
    const socket = this.#socket;
    this.#socket = undefined;
    this.#stream.detach();
    if (!socket) return;
    socket.removeAllListeners();
    socket.on("error", () => {});
    // Do not wait for a server that does not answer the close.
    const stopTimer = this.#options.clock.after(1_000, () => socket.terminate());
    socket.on("close", stopTimer);
    socket.close();
  }

  /** Resolves when everything sent so far has been written. */
  async flushed(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
  }

  #use({ socket, welcome }: Dialled): void {
    const isResumed = welcome.resumed !== undefined;
    this.#socket = socket;
    this.#welcome = welcome;
    this.#failures = 0;
    socket.on("message", (data) => this.#read(socket, (data as Buffer).toString()));
    socket.on("error", () => {});
    socket.on("close", () => this.#lost(socket));
    if (!isResumed) this.#stream = new Stream(this.#options.clock);
    this.#stream.limit(welcome.maxFrame);
    this.#stream.attach((text) => socket.send(text), welcome.resumed?.received ?? 0);
    this.#missed = 0;
    this.#hasHeard = true;
    this.#beat(socket, welcome.beatMs);
    if (isResumed) this.#listener.onResumed();
    else this.#listener.onFresh();
  }

  #read(socket: WebSocket, text: string): void {
    this.#hasHeard = true;
    let frame: unknown;
    try {
      frame = decode(text);
    } catch {
      return socket.terminate();
    }
    if (!isFrame(frame) || !this.#stream.isNext(frame)) return socket.terminate();
    for (const item of this.#stream.receive(frame)) this.#listener.onItem(item);
  }

  /** Counts intervals, not time: after this machine has slept, much time has passed in which it could not listen. */
  #beat(socket: WebSocket, every: number): void {
    this.#stopTimer = this.#options.clock.after(every, () => {
      if (this.#socket !== socket) return;
      this.#missed = this.#hasHeard ? 0 : this.#missed + 1;
      if (this.#missed >= MISSED_INTERVALS) return this.#giveUp(socket);
      this.#hasHeard = false;
      this.#stream.ping();
      this.#beat(socket, every);
    });
  }

  #giveUp(socket: WebSocket): void {
    this.#options.logger.warn(`The dibs server at ${this.#options.address.where} is silent; reconnecting.`);
    this.#lost(socket);
    socket.terminate();
  }

  #lost(socket: WebSocket): void {
    if (this.#socket !== socket) return;
    this.#socket = undefined;
    this.#stopTimer();
    this.#stream.detach();
    this.#listener.onDown();
    this.#dialLater();
  }

  /** With jitter, so that the clients of a restarted server do not all reconnect at the same moment. */
  #dialLater(): void {
    if (this.#isOver) return;
    const longest = Math.min(FIRST_PAUSE_MS * 2 ** this.#failures++, LONGEST_PAUSE_MS);
    const ms = longest * (0.5 + this.#options.random() / 2);
    this.#stopTimer = this.#options.clock.after(ms, () => void this.#redial());
  }

  async #redial(): Promise<void> {
    try {
      const resume = this.#welcome && { session: this.#welcome.session, received: this.#stream.received };
      await dial(this.#options.address, resume, (dialled) => {
        if (this.#isOver) dialled.socket.terminate();
        else this.#use(dialled);
      });
    } catch (error) {
      if (this.#isOver) return;
      if (isDibsError(error) && !error.retryable) {
        this.#isOver = true;
        this.#listener.onRefused(error);
      } else {
        this.#dialLater();
      }
    }
  }
}
