import { connect, type Socket } from "node:net";
import { onTestFinished } from "vitest";
import { readMethod } from "../../../src/doors/amqp/wire/decode.ts";
import { FrameWriter } from "../../../src/doors/amqp/wire/encode.ts";
import { FrameReader } from "../../../src/doors/amqp/wire/frames.ts";
import type { Args, Method, MethodName } from "../../../src/doors/amqp/wire/methods.ts";

/** A method with its fields, the payload of a body frame, or the end of the connection. */
type Received = Method | { name: "body"; body: Buffer } | { name: "closed" };

/** A client that speaks AMQP frame by frame, for what no library lets a test send. */
export class RawClient {
  readonly socket: Socket;
  readonly #reader = new FrameReader(131_072);
  readonly #writer = new FrameWriter();
  readonly #received: Received[] = [];
  #wake: () => void = () => {};

  constructor(port: number) {
    this.socket = connect(port, "127.0.0.1");
    this.socket.on("error", () => {});
    this.socket.on("close", () => this.#push({ name: "closed" }));
    this.socket.on("data", (chunk: Buffer) => {
      this.#reader.add(chunk);
      for (let frame = this.#reader.next(); frame; frame = this.#reader.next()) {
        if (frame.type === 1) this.#push(readMethod(frame.payload).method);
        if (frame.type === 3) this.#push({ name: "body", body: frame.payload });
      }
    });
    onTestFinished(() => void this.socket.destroy());
  }

  #push(item: Received): void {
    this.#received.push(item);
    this.#wake();
  }

  send<Name extends MethodName>(channel: number, name: Name, args: Args<Name>): void {
    this.#writer.method(channel, name, args);
    this.socket.write(this.#writer.take());
  }

  publish(
    channel: number,
    routingKey: string,
    body: string,
    properties: Uint8Array = Buffer.from([0, 0]),
    exchange = "",
  ): void {
    this.#writer.method(channel, "basic.publish", {
      ...{ exchange, routingKey, mandatory: false, immediate: false },
    });
    this.#writer.content(channel, properties, Buffer.from(body), 131_072);
    this.socket.write(this.#writer.take());
  }

  /** The fields of the next method, which must be this one. */
  async expect<Name extends MethodName>(name: Name): Promise<Args<Name>> {
    const next = await this.next();
    if (next.name !== name) throw new Error(`expected ${name}, got ${JSON.stringify(next)}`);
    return (next as unknown as { args: Args<Name> }).args;
  }

  async next(): Promise<Received> {
    while (this.#received.length === 0) await new Promise<void>((resolve) => (this.#wake = resolve));
    return this.#received.shift()!;
  }

  async body(): Promise<string> {
    const next = await this.next();
    if (next.name !== "body") throw new Error(`expected a body, got ${JSON.stringify(next)}`);
    return next.body.toString();
  }

  greet(): void {
    this.socket.write(Buffer.from([0x41, 0x4d, 0x51, 0x50, 0, 0, 9, 1]));
  }

  async logIn(user = "guest", password = "guest"): Promise<void> {
    this.greet();
    await this.expect("connection.start");
    this.send(0, "connection.start-ok", {
      clientProperties: Buffer.concat([
        Buffer.from([12]),
        Buffer.from("capabilities"),
        Buffer.from("F"),
        Buffer.from([0, 0, 0, 31, 28]),
        Buffer.from("authentication_failure_close"),
        Buffer.from("t"),
        Buffer.from([1]),
      ]),
      mechanism: "PLAIN",
      response: Buffer.from(`\0${user}\0${password}`),
      locale: "en_US",
    });
  }

  async open(user?: string, password?: string): Promise<void> {
    await this.logIn(user, password);
    await this.expect("connection.tune");
    this.send(0, "connection.tune-ok", { channelMax: 2_047, frameMax: 131_072, heartbeat: 0 });
    this.send(0, "connection.open", { vhost: "/" });
    await this.expect("connection.open-ok");
    this.send(1, "channel.open", {});
    await this.expect("channel.open-ok");
  }

  async declare(queue: string, table: Buffer = Buffer.alloc(0)): Promise<Args<"queue.declare-ok">> {
    this.send(1, "queue.declare", {
      ...{ queue, passive: false, durable: true, exclusive: false, autoDelete: false, noWait: false },
      arguments: table,
    });
    return this.expect("queue.declare-ok");
  }

  consume(queue: string, consumerTag: string): void {
    this.send(1, "basic.consume", {
      ...{ queue, consumerTag, noLocal: false, noAck: false, exclusive: false, noWait: false },
      arguments: Buffer.alloc(0),
    });
  }
}
