import { randomBytes } from "node:crypto";
import type { WebSocket } from "ws";
import type { ClientAnswers } from "../../core/answer/answer-budget.ts";
import type { Clock } from "../../core/time/clock.ts";
import { DibsError, isDibsError } from "../../core/errors/errors.ts";
import type { Logger } from "../../core/process/logger.ts";
import type { Port } from "../../core/port.ts";
import { errorForClients } from "../../core/errors/store-fault.ts";
import { decode, encode } from "../../protocol/codec.ts";
import { CLOSE, type ServerItem } from "../../protocol/messages.ts";
import { isFrame, Stream } from "../../protocol/stream.ts";
import { Calls } from "./calls.ts";
import { closeFailed } from "./close-failed.ts";
import { Listeners } from "./listeners.ts";

// One client of the native protocol: it outlives its connection, so that a client can resume after a cut.

export interface SessionOptions {
  port: Port;
  clock: Clock;
  logger: Logger;
  /** The owner of the token: no other may resume the session. */
  owner: string;
  ticketOf: (session: number) => string;
  resumeMs: number;
  /** Most characters that a client may leave unread. */
  maxBacklog: number;
  room: ClientAnswers;
  onEnd: (session: Session) => void;
}

/** Calls in progress on one connection, above which nothing more is read from it until some are answered. */
const MOST_CALLS = 10_000;
/** Intervals without a message from the client, after which its connection counts as dead. */
const MISSED_BEATS = 3;
/**
 * A client that has read nothing of its answers for this many intervals is cut off, because they take room from other
 * clients.
 */
const UNREAD_BEATS = 6;

const texts = new WeakMap<object, string>();

/** Answers that many calls share, such as that of a success, are frozen objects: encoded once. */
function textOf(value: unknown): string {
  if (typeof value !== "object" || value === null || !Object.isFrozen(value)) return encode(value);
  let text = texts.get(value);
  if (text === undefined) texts.set(value, (text = encode(value)));
  return text;
}

/**
 * One client, over any number of connections.
 *
 *   attached ──connection lost──▶ detached ──resumed in time──▶ attached
 *      │                             └──not resumed──▶ ended: its workers' claims count as failed
 *      └──bye──▶ detached, and not resumed
 */
export class Session {
  readonly id = randomBytes(16).toString("base64url");
  readonly owner: string;
  readonly calls: Calls;
  readonly #options: SessionOptions;
  readonly #stream: Stream;
  readonly #listeners: Listeners;
  #socket: WebSocket | undefined;
  #isPaused = false;
  #hasHeard = true;
  #missed = 0;
  #unreadBeats = 0;
  /** What was unread at the last interval. */
  #unreadBefore: { frame: number; buffered: number } | undefined;
  #saidBye = false;
  #isEnded = false;
  #stopTimer: () => void = () => {};

  constructor(options: SessionOptions) {
    const { port, clock, logger, owner, ticketOf, room } = options;
    this.owner = owner;
    this.#options = options;
    this.#stream = new Stream(clock);
    this.calls = new Calls({
      ...{ port, logger, ticketOf, room },
      answers: {
        ok: (id, value) =>
          this.#sendText(value === undefined ? `["ok",${id}]` : `["ok",${id},${textOf(value)}]`),
        error: (id, error) => this.#send(["error", id, error]),
        notice: (session, notice) => this.#send(["notice", session, notice]),
        failed: (error) => this.#fail(error),
      },
    });
    this.#listeners = new Listeners(port, (id, events) => this.#sendText(`["events",${id},${events}]`));
  }

  get received(): number {
    return this.#stream.received;
  }

  /** @param through the last frame that the client received */
  attach(socket: WebSocket, through: number): void {
    this.#stopTimer();
    const before = this.#socket;
    this.#socket = socket;
    before?.close(CLOSE.replaced, "resumed by another connection");
    this.#hasHeard = true;
    this.#missed = 0;
    this.#isPaused = false;
    socket.on("message", (data) => {
      try {
        this.#read(socket, (data as Buffer).toString());
      } catch (error) {
        this.#fail(error);
      }
    });
    socket.on("close", () => this.#lost(socket));
    this.#stream.attach((text) => socket.send(text), through);
  }

  /** Counts intervals, not time: after this process was frozen, much time has passed in which it could not listen. */
  beat(): void {
    if (!this.#socket) return;
    this.#missed = this.#hasHeard || this.#isPaused ? 0 : this.#missed + 1;
    this.#hasHeard = false;
    if (this.#readsNothing()) return this.#cut(`read nothing for ${UNREAD_BEATS} beats`);
    if (this.#missed < MISSED_BEATS) return;
    const socket = this.#socket;
    this.#lost(socket);
    socket.terminate();
  }

  /**
   * Whether there was something to read for so many intervals, and neither an acknowledgement arrived nor anything was
   * written.
   */
  #readsNothing(): boolean {
    const frame = this.#stream.oldest;
    const before = this.#unreadBefore;
    if (frame === undefined || this.#isPaused) {
      this.#unreadBefore = undefined;
      this.#unreadBeats = 0;
      return false;
    }
    const now = { frame, buffered: this.#socket!.bufferedAmount };
    const isStuck = before?.frame === frame && now.buffered >= before.buffered;
    this.#unreadBefore = now;
    this.#unreadBeats = isStuck ? this.#unreadBeats + 1 : 0;
    return this.#unreadBeats >= UNREAD_BEATS;
  }

  /** The server stops. Claims stay valid: the next server continues with them. */
  close(): void {
    this.#isEnded = true;
    this.#stopTimer();
    this.calls.abortAll();
    this.#listeners.closeAll();
    this.#stream.detach();
    this.#options.room.unread = 0;
    this.#socket?.close(CLOSE.goingAway, "the server stops");
    this.#socket = undefined;
  }

  /**
   * Releases the client's claims without counting a failure: the server stops before its client finished. The client
   * gets notices, and can stop working.
   */
  async release(): Promise<void> {
    const { port } = this.#options;
    const released = this.calls.heldClaims.all.map(async ({ claim, session }) => {
      await port.settle(claim, { kind: "release", started: true }).catch(() => {});
      if (session !== undefined)
        this.#send(["notice", session, { kind: "lost", id: claim.id, fence: claim.fence }]);
    });
    await Promise.all(released);
    // Frames that were sent just before are written before the connection is closed.
    await new Promise((resolve) => setImmediate(resolve));
  }

  #read(socket: WebSocket, text: string): void {
    if (this.#socket !== socket) return;
    this.#hasHeard = true;
    let frame: unknown;
    try {
      frame = decode(text);
    } catch {
      frame = undefined;
    }
    if (!isFrame(frame) || !this.#stream.isNext(frame)) {
      socket.close(CLOSE.protocol, "no frame of this protocol");
      return;
    }
    const items = this.#stream.receive(frame);
    this.#options.room.unread = this.#stream.unread;
    for (const item of items) this.#process(item, text.length / items.length);
    if (this.calls.inProgress > MOST_CALLS) this.#pause(socket);
  }

  #process(item: unknown, size: number): void {
    if (!Array.isArray(item)) return;
    // By index: destructuring would cost more than everything that follows, until the compiler has optimised it.
    const call = item as unknown[];
    const kind = call[0];
    const id = call[1];
    if (kind === "bye") return this.#bye();
    if (typeof id !== "number" || !Number.isSafeInteger(id)) return;
    switch (kind) {
      case "call":
        return this.calls.start(id, call[2], call[3], size);
      case "abort":
        return this.calls.abort(id);
      case "listen":
        return this.#listen(id);
      case "next":
        return this.#next(id);
      case "unlisten":
        return this.#listeners.close(id);
      default:
        return this.#send([
          "error",
          id,
          { code: "UNSUPPORTED", message: "This server does not know this kind of item." },
        ]);
    }
  }

  #listen(id: number): void {
    if (this.#listeners.areMany)
      this.#failListener(id, new DibsError("UNAVAILABLE", "Too many listeners on one connection."));
    else this.#listeners.open(id);
  }

  #next(id: number): void {
    this.#listeners.next(id).catch((error: unknown) => this.#failListener(id, error));
  }

  #failListener(id: number, error: unknown): void {
    const known = isDibsError(error) ? error : new DibsError("UNAVAILABLE", "The events ended.");
    this.#send(["error", id, errorForClients(known)]);
  }

  #send(item: ServerItem): void {
    this.#sendText(encode(item));
  }

  #sendText(item: string): void {
    if (this.#isEnded) return;
    this.#stream.send(item);
    this.#options.room.unread = this.#stream.unread;
    if (this.#isPaused && this.calls.inProgress < MOST_CALLS / 2) this.#resume();
    if (this.#stream.backlog > this.#options.maxBacklog)
      this.#cut(`left more than ${this.#options.maxBacklog} characters unread`);
  }

  #pause(socket: WebSocket): void {
    this.#isPaused = true;
    socket.pause();
  }

  #resume(): void {
    this.#isPaused = false;
    this.#socket?.resume();
  }

  /** The client reads nothing, and its unread answers must not accumulate here. */
  #cut(why: string): void {
    this.#options.logger.warn(`A client ${why} and was cut off.`);
    this.end();
  }

  /**
   * Ends the session instead of letting the client resume it: the rest of a failed frame would never be processed. The
   * client opens another session.
   */
  #fail(error: unknown): void {
    const socket = this.#socket;
    this.#socket = undefined;
    closeFailed(socket, error, this.#options.logger);
    this.end();
  }

  /** The client closed gracefully. Its manual claims continue until their leases end. */
  #bye(): void {
    this.#saidBye = true;
    this.calls.heldClaims.forgetManual();
    this.calls.abortAll();
    this.#listeners.closeAll();
  }

  #lost(socket: WebSocket): void {
    if (this.#socket !== socket) return;
    this.#socket = undefined;
    this.#stream.detach();
    if (this.#saidBye && this.calls.heldClaims.hasNoSessions) return this.end();
    if (!this.#isEnded) this.#stopTimer = this.#options.clock.after(this.#options.resumeMs, () => this.end());
  }

  /** The client did not resume in time, or may no longer connect: its claims return now, not when their leases end. */
  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#socket?.terminate();
    this.#socket = undefined;
    this.#stopTimer();
    this.calls.abortAll();
    this.#listeners.closeAll();
    this.#stream.detach();
    this.#options.room.unread = 0;
    const { port } = this.#options;
    const { heldClaims } = this.calls;
    for (const session of heldClaims.sessions) port.leave(session, { lost: true }).catch(() => {});
    // Shorten the lease to 1 ms: the port has no other way to make a manual claim count as lost.
    for (const claim of heldClaims.manual) port.extend(claim, 1).catch(() => {});
    this.#options.onEnd(this);
  }
}
