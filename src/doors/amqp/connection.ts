import type { Socket } from "node:net";
import type { Port } from "../../core/port.ts";
import { Assembler } from "./assembler.ts";
import { Channel } from "./channel.ts";
import type { Admitted, AmqpDoor, Kind } from "./door.ts";
import { Heartbeat } from "./heartbeat.ts";
import { Intake } from "./intake.ts";
import { capabilitiesOf, MECHANISMS, readCredentials } from "./login.ts";
import type { Message } from "./message.ts";
import { Outbox } from "./outbox.ts";
import { serverProperties } from "./server-properties.ts";
import { translateError } from "./translate-error.ts";
import { FRAME } from "./wire/encode.ts";
import { about, AmqpError, octets, shortText } from "./wire/errors.ts";
import { type Frame, FrameReader } from "./wire/frames.ts";
import { type Args, METHODS, type Method, type MethodName } from "./wire/methods.ts";
import { writeTable } from "./wire/table.ts";

// One AMQP connection: handshake, heartbeats, and the frames of its channels. The door creates it for each socket.

const GREETING = Buffer.from([0x41, 0x4d, 0x51, 0x50, 0, 0, 9, 1]);
export const FRAME_MAX = 131_072;
const CHANNEL_MAX = 2_047;
const HEARTBEAT_S = 60;
/** Most bytes of a frame before the client has logged in. */
const FRAME_BEFORE_LOGIN = 4_096;
/** From the connection to the end of the handshake. */
export const HANDSHAKE_MS = 10_000;
/** A connection that was closed with a reason is destroyed if the client has not answered by then. */
const FAREWELL_MS = 5_000;

/**
 * One client.
 *
 *   greeting ──header──▶ starting ──start-ok──▶ tuning ──tune-ok──▶ opening ──open──▶ running
 *      any ──error──▶ closing: everything but close-ok is ignored ──▶ closed
 */
export class Connection {
  readonly door: AmqpDoor;
  readonly id: string;
  vhost = "/";
  user = "";
  /** The client understands that its consumers can be cancelled. */
  canBeCancelled = false;
  #canBeBlocked = false;
  readonly #socket: Socket;
  readonly #reader = new FrameReader(FRAME_BEFORE_LOGIN);
  readonly #channels = new Map<number, Channel>();
  readonly #assembler: Assembler;
  readonly #outbox: Outbox;
  readonly #heartbeat = new Heartbeat();
  readonly #intake: Intake;
  #admitted: Admitted | undefined;
  #state: "greeting" | "starting" | "tuning" | "opening" | "running" | "closing" | "closed" = "greeting";
  #head: Buffer = Buffer.alloc(0);
  #frameMax = FRAME_MAX;
  #channelMax = CHANNEL_MAX;
  #wantsRefusal = false;
  #timer: NodeJS.Timeout;

  constructor(door: AmqpDoor, socket: Socket, id: string) {
    this.door = door;
    this.id = id;
    this.#socket = socket;
    this.#intake = new Intake(socket, this.#heartbeat);
    this.#assembler = new Assembler(door.options.maxBody);
    this.#outbox = new Outbox(socket, {
      onWritten: () => this.#heartbeat.sent(),
      onRoom: () => {
        for (const { deliveries } of this.#channels.values()) deliveries.pumpAll();
      },
      onStuck: () => {
        door.logger.warn("An AMQP client left more than 64 MiB unread and was cut off.");
        this.destroy();
      },
    });
    this.#timer = setTimeout(() => this.destroy(), door.options.handshakeMs ?? HANDSHAKE_MS);
    this.#timer.unref();
    socket.setNoDelay(true);
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.on("error", () => this.destroy());
    socket.on("close", () => this.#lost());
  }

  /** The restricted port of the client's token. */
  get port(): Port {
    return this.#admitted!.port;
  }

  get owner(): string | undefined {
    return this.#admitted?.owner;
  }

  get isCongested(): boolean {
    return this.#outbox.isCongested;
  }

  get isIdle(): boolean {
    for (const channel of this.#channels.values()) if (!channel.deliveries.isEmpty) return false;
    return true;
  }

  /**
   * Handlers check this before they look for what a method names: to a token without a scope there, it makes no
   * difference whether it exists.
   */
  needAny(kinds: readonly Kind[], queue: string, what: string): void {
    if (kinds.some((kind) => this.#admitted!.allows(kind, queue))) return;
    const words = `access to ${what} in vhost '${this.vhost}' refused for user '${this.user}'`;
    throw new AmqpError("ACCESS_REFUSED", words);
  }

  // ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────

  #receive(chunk: Buffer): void {
    this.#heartbeat.heard();
    try {
      if (this.#state === "greeting") this.#greet(chunk);
      else this.#reader.add(chunk);
      if (this.#state === "greeting") return;
      for (let frame = this.#reader.next(); frame; frame = this.#reader.next()) {
        if (this.#state === "closed") return;
        this.#read(frame);
      }
      for (const channel of this.#channels.values()) channel.flush();
    } catch (error) {
      this.fail(error);
    }
  }

  #greet(chunk: Buffer): void {
    this.#head = Buffer.concat([this.#head, chunk.subarray(0, 8 + FRAME_BEFORE_LOGIN)]);
    const got = this.#head.subarray(0, 8);
    if (!GREETING.subarray(0, got.length).equals(got)) {
      // What RabbitMQ answers to another protocol: the version that it speaks.
      this.#socket.end(GREETING);
      this.#state = "closed";
      return;
    }
    if (got.length < 8) return;
    this.#state = "starting";
    this.#reader.add(this.#head.subarray(8));
    this.send(0, "connection.start", {
      ...{ versionMajor: 0, versionMinor: 9, serverProperties: writeTable(serverProperties()) },
      mechanisms: Buffer.from(MECHANISMS),
      locales: Buffer.from("en_US"),
    });
  }

  #read(frame: Frame): void {
    const { type, channel, payload } = frame;
    if (type === FRAME.heartbeat) {
      if (payload.length > 0) throw unknownFrame(frame);
      if (channel !== 0) throw new AmqpError("UNEXPECTED_FRAME", `type 8, all octets = <<>>`);
      return;
    }
    if (type < FRAME.method || type > FRAME.body) throw unknownFrame(frame);
    // A closing channel may still be sent content, which is ignored.
    if (this.#state === "closing" && type !== FRAME.method) return;
    const complete = this.#assembler.take(frame);
    if (!complete) return;
    const { method, message } = complete;
    if (channel === 0) this.#control(method);
    else if (this.#state === "running") this.#pass(channel, method, message);
    else if (this.#state !== "closing") throw unexpected(this.#state);
  }

  #pass(number: number, method: Method, message: Message | undefined): void {
    const channel = this.#channels.get(number);
    if (channel) {
      if (method.name.startsWith("connection."))
        throw new AmqpError("COMMAND_INVALID", "unimplemented method");
      return channel.receive(method, message);
    }
    if (method.name === "channel.open") {
      const count = this.#channels.size;
      if (count >= this.#channelMax)
        throw new AmqpError(
          "NOT_ALLOWED",
          `number of channels opened (${count}) has reached the negotiated channel_max (${this.#channelMax})`,
        );
      const opened = new Channel(this, number);
      this.#channels.set(number, opened);
      return opened.send("channel.open-ok", {});
    }
    if (method.name === "channel.close-ok") return;
    throw about(new AmqpError("CHANNEL_ERROR", "expected 'channel.open'"), METHODS[method.name].id);
  }

  #control(method: Method): void {
    if (this.#state === "closing") {
      if (method.name === "connection.close") this.send(0, "connection.close-ok", {});
      if (method.name === "connection.close" || method.name === "connection.close-ok") this.#finish();
      return;
    }
    switch (method.name) {
      case "connection.start-ok":
        if (this.#state !== "starting") break;
        return void this.#login(method.args);
      case "connection.tune-ok":
        if (this.#state !== "tuning") break;
        return this.#tune(method.args);
      case "connection.open":
        if (this.#state !== "opening") break;
        return this.#open(method.args.vhost);
      case "connection.update-secret":
        if (this.#state !== "running") break;
        return this.#updateSecret(method.args.secret.toString());
      case "connection.close":
        void this.#closedByClient();
        return;
      default:
    }
    // Before the login, nothing is said to a client that does not keep to the protocol.
    if (this.#state !== "running") return this.destroy();
    throw about(unexpected(this.#state), METHODS[method.name].id);
  }

  // ── The handshake ───────────────────────────────────────────────────────────────────────────────────────

  async #login({ clientProperties, mechanism, response }: Args<"connection.start-ok">): Promise<void> {
    this.#state = "tuning";
    try {
      const can = capabilitiesOf(clientProperties);
      this.canBeCancelled = can("consumer_cancel_notify");
      this.#canBeBlocked = can("connection.blocked");
      this.#wantsRefusal = can("authentication_failure_close");
      const address = this.#socket.remoteAddress ?? "";
      const credentials = readCredentials(mechanism, response);
      if (!credentials) return this.destroy();
      const admitted = this.door.admit(credentials, address);
      if (!admitted) return await this.#refuseLogin(mechanism, address);
      this.door.delays.succeeded(address);
      this.#admitted = admitted;
      this.door.loggedIn(this.#socket);
      this.user = credentials.user;
      this.send(0, "connection.tune", {
        ...{ channelMax: CHANNEL_MAX, frameMax: FRAME_MAX, heartbeat: HEARTBEAT_S },
      });
    } catch (error) {
      this.fail(error);
    }
  }

  async #refuseLogin(mechanism: string, address: string): Promise<void> {
    this.#socket.pause();
    await new Promise<void>((resolve) => setTimeout(resolve, this.door.delays.failed(address)).unref());
    this.#socket.resume();
    if (!this.#wantsRefusal) return this.destroy();
    this.fail(
      new AmqpError(
        "ACCESS_REFUSED",
        `Login was refused using authentication mechanism ${mechanism}. For details see the broker logfile.`,
        "connection",
      ),
    );
  }

  #tune({ channelMax, frameMax, heartbeat }: Args<"connection.tune-ok">): void {
    // RabbitMQ closes without a word if a client asks for more than it was offered.
    if (!this.#admitted || frameMax > FRAME_MAX || channelMax > CHANNEL_MAX) return this.destroy();
    if ((frameMax !== 0 && frameMax < FRAME_BEFORE_LOGIN) || frameMax === 0 || channelMax === 0)
      return this.destroy();
    this.#frameMax = frameMax;
    this.#channelMax = channelMax;
    this.#reader.frameMax = frameMax;
    this.#state = "opening";
    if (heartbeat > 0)
      this.#heartbeat.start(heartbeat * 1_000, {
        send: () => this.#outbox.heartbeat(),
        end: () => this.destroy(),
      });
  }

  #open(vhost: string): void {
    if (vhost === "" || !this.door.hasVhost(vhost))
      throw about(new AmqpError("NOT_ALLOWED", `vhost ${vhost} not found`), METHODS["connection.open"].id);
    this.vhost = vhost;
    this.#state = "running";
    clearTimeout(this.#timer);
    this.send(0, "connection.open-ok", {});
  }

  #updateSecret(secret: string): void {
    const admitted = this.door.admit({ user: this.user, password: secret }, this.#socket.remoteAddress ?? "");
    if (!admitted)
      return this.fail(new AmqpError("NOT_ALLOWED", `New secret was refused by one of the backends`));
    this.#admitted = admitted;
    this.send(0, "connection.update-secret-ok", {});
  }

  // ── Writing ─────────────────────────────────────────────────────────────────────────────────────────────

  send<Name extends MethodName>(channel: number, name: Name, args: Args<Name>): void {
    this.#outbox.method(channel, name, args);
  }

  sendContent<Name extends "basic.deliver" | "basic.get-ok" | "basic.return">(
    channel: number,
    name: Name,
    args: Args<Name>,
    { properties, body }: Message,
  ): void {
    this.#outbox.method(channel, name, args);
    this.#outbox.content(channel, properties, body, this.#frameMax);
  }

  pause(): void {
    this.#intake.pause();
  }

  resume(): void {
    this.#intake.resume();
  }

  /** It has published while the store takes no more: nothing is read from it until the store does. */
  block(reason: string): void {
    if (this.#state !== "running" || !this.#intake.block()) return;
    if (this.#canBeBlocked) this.send(0, "connection.blocked", { reason });
  }

  unblock(): void {
    if (!this.#intake.unblock()) return;
    if (this.#canBeBlocked && this.#state === "running") this.send(0, "connection.unblocked", {});
  }

  // ── The end ─────────────────────────────────────────────────────────────────────────────────────────────

  errorOf(error: unknown): AmqpError {
    return translateError(error, this.door.logger);
  }

  sendClose(channel: number, { code, message, about }: AmqpError, cause: MethodName | undefined): void {
    const [classId, methodId] = cause ? METHODS[cause].id : (about ?? [0, 0]);
    const args = { code, text: shortText(message), classId, methodId };
    this.send(channel, channel === 0 ? "connection.close" : "channel.close", args);
  }

  /** Closes the connection with a reason. */
  fail(error: unknown, cause?: MethodName): void {
    if (this.#state === "closing" || this.#state === "closed") return;
    const known = this.errorOf(error);
    this.#state = "closing";
    this.sendClose(0, known, cause);
    void this.#endChannels();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.destroy(), FAREWELL_MS);
    this.#timer.unref();
  }

  async #closedByClient(): Promise<void> {
    this.#state = "closing";
    // Before the answer: what the client held is in its queues when it learns that the connection is closed.
    await this.#endChannels();
    this.send(0, "connection.close-ok", {});
    this.#finish();
  }

  #finish(): void {
    this.#outbox.flush();
    this.#state = "closed";
    this.#socket.end();
    this.#timer = setTimeout(() => this.#socket.destroy(), FAREWELL_MS);
    this.#timer.unref();
  }

  forget(channel: Channel): void {
    if (this.#channels.get(channel.number) === channel) this.#channels.delete(channel.number);
  }

  async #endChannels(): Promise<void> {
    const channels = [...this.#channels.values()];
    this.#channels.clear();
    await Promise.all(channels.map((channel) => channel.end()));
    await this.door.connectionEnded(this);
  }

  destroy(): void {
    this.#state = "closed";
    this.#socket.destroy();
  }

  #lost(): void {
    this.#state = "closed";
    clearTimeout(this.#timer);
    this.#heartbeat.stop();
    void this.#endChannels().finally(() => this.door.forget(this));
  }
}

function unknownFrame({ type, payload }: Frame): AmqpError {
  return new AmqpError("FRAME_ERROR", `type ${type}, all octets = ${octets(payload)}: unknown_frame`);
}

function unexpected(state: string): AmqpError {
  return new AmqpError("CHANNEL_ERROR", `unexpected method in connection state ${state}`);
}
