// A raw AMQP 0-9-1 connection for tests: sends what a test says, right or wrong, and keeps every answer until the test
// takes it. It answers nothing by itself except close.

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import {
  BODY,
  type Frame,
  FrameCutter,
  HEADER,
  HEARTBEAT,
  METHOD,
  PROTOCOL_HEADER,
  readContentHeader,
  writeContent,
  writeFrame,
  writeMethod,
} from "./frames.ts";
import { methodWithIds, WITH_CONTENT } from "./methods.ts";
import { type Fields, Reader, type Table } from "./values.ts";

export interface Answer {
  method: string;
  fields: Fields;
  /** Of methods with content. */
  properties?: Fields;
  body?: Buffer;
}

export interface LoginOptions {
  user?: string;
  password?: string;
  virtualHost?: string;
  channelMax?: number;
  frameMax?: number;
  heartbeat?: number;
  clientProperties?: Table;
}

/** What clients of today announce. */
export const CAPABILITIES: Table = {
  capabilities: {
    publisher_confirms: "t:true",
    exchange_exchange_bindings: "t:true",
    "basic.nack": "t:true",
    consumer_cancel_notify: "t:true",
    "connection.blocked": "t:true",
    authentication_failure_close: "t:true",
  },
};

const DEFAULT_FRAME_MAX = 131_072;
/** Longer than a busy machine needs for an answer: only a missing answer gets here. */
const ANSWER_MS = 20_000;
/** How the end of a connection appears among the answers. */
export const CLOSED = "(connection closed)";

export class RawConnection {
  readonly socket: Socket;
  readonly #cutter = new FrameCutter();
  readonly #inboxes = new Map<number, Answer[]>();
  readonly #partial = new Map<number, Answer & { missing: number }>();
  readonly #waiting = new Set<() => void>();
  #end: Answer | undefined;
  frameMax = DEFAULT_FRAME_MAX;
  heartbeats = 0;

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (bytes: Buffer) => this.#receive(bytes));
    socket.on("error", () => {});
    socket.once("close", () => {
      this.#end ??= { method: CLOSED, fields: {} };
      this.#wake();
    });
  }

  /** A connection on which nothing is sent yet. */
  static async open(url: string): Promise<RawConnection> {
    const { protocol, hostname, port } = new URL(url);
    const target = { host: hostname, port: Number(port), noDelay: true };
    const isTls = protocol === "amqps:";
    const socket = isTls ? connectTls({ ...target, rejectUnauthorized: false }) : connect(target);
    await once(socket, isTls ? "secureConnect" : "connect");
    return new RawConnection(socket);
  }

  /** The whole handshake. */
  static async login(url: string, options: LoginOptions = {}): Promise<RawConnection> {
    const connection = await RawConnection.open(url);
    const answer = await connection.handshake(options);
    if (answer.method !== "connection.open-ok") throw new Error(`Login failed: ${JSON.stringify(answer)}`);
    return connection;
  }

  /** Returns the answer to connection.open, or what came instead. */
  async handshake({
    user = "guest",
    password = "guest",
    virtualHost = "/",
    channelMax = 2_047,
    frameMax = DEFAULT_FRAME_MAX,
    heartbeat = 0,
    clientProperties = CAPABILITIES,
  }: LoginOptions = {}): Promise<Answer> {
    this.send(PROTOCOL_HEADER);
    const start = await this.take(0);
    if (start.method !== "connection.start") return start;
    const response = `\0${user}\0${password}`;
    this.method(0, "connection.start-ok", {
      ...{ clientProperties, mechanism: "PLAIN", response, locale: "en_US" },
    });
    const tune = await this.take(0);
    if (tune.method !== "connection.tune") return tune;
    this.frameMax = frameMax;
    this.method(0, "connection.tune-ok", { channelMax, frameMax, heartbeat });
    this.method(0, "connection.open", { virtualHost });
    return this.take(0);
  }

  async channel(number: number): Promise<void> {
    this.method(number, "channel.open");
    const answer = await this.take(number);
    if (answer.method !== "channel.open-ok") throw new Error(`No channel: ${JSON.stringify(answer)}`);
  }

  send(bytes: Buffer): void {
    this.socket.write(bytes);
  }

  method(channel: number, name: string, fields: Fields = {}): void {
    this.send(writeMethod(channel, name, fields));
  }

  publish(channel: number, fields: Fields, properties: Fields, body: Buffer): void {
    this.send(
      Buffer.concat([
        writeMethod(channel, "basic.publish", fields),
        writeContent(channel, properties, body, this.frameMax),
      ]),
    );
  }

  heartbeat(): void {
    this.send(writeFrame(HEARTBEAT, 0, Buffer.alloc(0)));
  }

  /** Sends a method, and returns the next answer on its channel. */
  async call(channel: number, name: string, fields: Fields = {}): Promise<Answer> {
    this.method(channel, name, fields);
    return this.take(channel);
  }

  /** The next answer on a channel, or the end of the connection. */
  async take(channel: number): Promise<Answer> {
    const answer = await this.takeWithin(channel, ANSWER_MS);
    if (!answer) throw new Error(`No answer came on channel ${channel} within ${ANSWER_MS} ms.`);
    return answer;
  }

  /** The same, or undefined if none comes in this time. */
  async takeWithin(channel: number, ms: number): Promise<Answer | undefined> {
    const late = AbortSignal.timeout(ms);
    for (;;) {
      const answer = this.#inboxes.get(channel)?.shift() ?? this.#end;
      if (answer || late.aborted) return answer;
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          this.#waiting.delete(wake);
          late.removeEventListener("abort", wake);
          resolve();
        };
        this.#waiting.add(wake);
        late.addEventListener("abort", wake);
      });
    }
  }

  /** What has arrived on a channel and was not taken. */
  left(channel: number): Answer[] {
    return this.#inboxes.get(channel)?.splice(0) ?? [];
  }

  get channels(): number[] {
    return [...this.#inboxes.keys()];
  }

  get unframed(): Buffer {
    return this.#cutter.rest;
  }

  get isClosed(): boolean {
    return this.#end !== undefined;
  }

  /** Without a word: as a killed process does. */
  cut(): void {
    this.socket.destroy();
  }

  async close(): Promise<void> {
    if (!this.#end) await this.call(0, "connection.close", { replyCode: 200, replyText: "bye" });
    this.socket.destroy();
  }

  #receive(bytes: Buffer): void {
    try {
      for (const frame of this.#cutter.push(bytes)) this.#take(frame);
    } catch (error) {
      // The test finds it among the answers.
      this.#end = { method: `(not AMQP: ${(error as Error).message})`, fields: {} };
      this.socket.destroy();
    }
  }

  #take({ type, channel, payload }: Frame): void {
    if (type === HEARTBEAT) this.heartbeats++;
    else if (type === METHOD) this.#takeMethod(channel, payload);
    else if (type === HEADER) {
      const { properties, size } = readContentHeader(payload);
      const partial = this.#partial.get(channel)!;
      Object.assign(partial, { properties, missing: size, body: Buffer.alloc(0) });
      this.#finish(channel);
    } else if (type === BODY) {
      const partial = this.#partial.get(channel)!;
      partial.body = Buffer.concat([partial.body!, payload]);
      partial.missing -= payload.length;
      this.#finish(channel);
    } else throw new Error(`The server sent a frame of the unknown type ${type}.`);
  }

  #takeMethod(channel: number, payload: Buffer): void {
    const { name, fields } = methodWithIds(payload.readUInt16BE(0), payload.readUInt16BE(2));
    const reader = new Reader(payload.subarray(4));
    const answer: Answer = { method: name, fields: reader.fields(fields) };
    if (!reader.isAtEnd) throw new Error(`The server sent ${name} with bytes after its last field.`);
    if (WITH_CONTENT.has(name)) this.#partial.set(channel, { ...answer, missing: 0 });
    else this.#deliver(channel, answer);
  }

  #finish(channel: number): void {
    const { missing, ...answer } = this.#partial.get(channel)!;
    if (missing > 0) return;
    this.#partial.delete(channel);
    this.#deliver(channel, answer);
  }

  #deliver(channel: number, answer: Answer): void {
    if (answer.method === "connection.close") {
      this.#end = answer;
      this.method(0, "connection.close-ok");
    } else {
      if (answer.method === "channel.close") this.method(channel, "channel.close-ok");
      const inbox = this.#inboxes.get(channel) ?? [];
      this.#inboxes.set(channel, inbox);
      inbox.push(answer);
    }
    this.#wake();
  }

  #wake(): void {
    for (const wake of [...this.#waiting]) wake();
  }
}
