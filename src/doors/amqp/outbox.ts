import type { Socket } from "node:net";
import { FrameWriter, HEARTBEAT } from "./wire/encode.ts";
import type { Args, MethodName } from "./wire/methods.ts";

/** Bytes that wait for a client to read them, above which its consumers get nothing more. */
const CONGESTED = 256 * 1024;
/** Bytes that wait although nothing is delivered: answers to a client that only asks, and does not read. */
const STUCK = 64 * 1024 * 1024;

interface Listener {
  onWritten(): void;
  /** The client has read enough for more messages. */
  onRoom(): void;
  /** The client reads nothing. */
  onStuck(): void;
}

/** What is sent to one client. Everything of one turn of the event loop is written at once. */
export class Outbox {
  readonly #socket: Socket;
  readonly #listener: Listener;
  readonly #writer = new FrameWriter();
  #isScheduled = false;
  #isCongested = false;

  constructor(socket: Socket, listener: Listener) {
    this.#socket = socket;
    this.#listener = listener;
    socket.on("drain", () => this.#relieve());
  }

  get isCongested(): boolean {
    return this.#isCongested;
  }

  method<Name extends MethodName>(channel: number, name: Name, args: Args<Name>): void {
    this.#writer.method(channel, name, args);
    this.#flushLater();
  }

  content(channel: number, properties: Uint8Array, body: Uint8Array, frameMax: number): void {
    this.#writer.content(channel, properties, body, frameMax);
    if (this.#writer.length + this.#socket.writableLength > CONGESTED) this.#isCongested = true;
    this.#flushLater();
  }

  heartbeat(): void {
    this.#writer.raw(HEARTBEAT);
    this.#flushLater();
  }

  #flushLater(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    // After all sockets that are readable now were read: what several clients caused for this one is one write. One
    // producer and two consumers: 5 to 9 % more tasks a second, and a sixth less CPU.
    setImmediate(() => this.flush());
  }

  flush(): void {
    this.#isScheduled = false;
    if (this.#writer.length === 0 || !this.#socket.writable) return;
    this.#listener.onWritten();
    const isTaken = this.#socket.write(this.#writer.take());
    if (isTaken) this.#relieve();
    else if (this.#socket.writableLength > STUCK) this.#listener.onStuck();
  }

  #relieve(): void {
    if (!this.#isCongested || this.#socket.writableLength > CONGESTED / 2) return;
    this.#isCongested = false;
    this.#listener.onRoom();
  }
}
