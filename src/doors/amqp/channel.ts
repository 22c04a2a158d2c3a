import { AmqpError } from "./wire/errors.ts";
import type { Args, Method, MethodName } from "./wire/methods.ts";
import type { Connection } from "./connection.ts";
import { BASIC_HANDLERS } from "./handle-basic.ts";
import { EXCHANGE_HANDLERS } from "./handle-exchange.ts";
import { QUEUE_HANDLERS } from "./handle-queue.ts";
import { TX_HANDLERS } from "./handle-tx.ts";
import { Deliveries } from "./deliveries.ts";
import { Publisher } from "./publisher.ts";
import type { Message } from "./message.ts";

// One AMQP channel: calls the handler of each method in order, and has the channel's consumers and publisher.

export type Handler<Name extends MethodName> = (
  channel: Channel,
  args: Args<Name>,
  message?: Message,
) => void | Promise<void>;
export type Handlers = { [Name in MethodName]?: Handler<Name> };

const HANDLERS: Handlers = {
  ...EXCHANGE_HANDLERS,
  ...QUEUE_HANDLERS,
  ...BASIC_HANDLERS,
  ...TX_HANDLERS,
  "channel.open": () => {
    throw new AmqpError("CHANNEL_ERROR", "second 'channel.open' seen");
  },
  "channel.flow": (channel, { active }) => {
    // Like RabbitMQ: clients may ask to resume deliveries, but not to stop them.
    if (!active) throw new AmqpError("NOT_IMPLEMENTED", "active=false");
    channel.send("channel.flow-ok", { active: true });
  },
  "channel.close": async (channel) => {
    await channel.end();
    channel.send("channel.close-ok", {});
    channel.connection.forget(channel);
  },
  "channel.close-ok": () => {},
  "access.request": (channel) => channel.send("access.request-ok", { ticket: 1 }),
};

/** Calls of one channel that wait for an earlier one, above which nothing more is read from the connection. */
const MOST_WAITING = 1_000;

interface Call {
  method: Method;
  message: Message | undefined;
}

/**
 * One channel: takes its methods in order, one after the other. A method that waits for the store delays the next ones.
 * Publishes and acks do not wait for each other.
 *
 *   open ──channel.close──▶ gone
 *     └──error──▶ closing: everything but close-ok is ignored ──close-ok──▶ gone
 */
export class Channel {
  readonly connection: Connection;
  readonly number: number;
  readonly publisher: Publisher;
  readonly deliveries: Deliveries;
  /** How publishes are answered. */
  mode: "plain" | "confirm" | "tx" = "plain";
  /** The queue that an empty name means: the last one declared. */
  lastQueue = "";
  #waiting: Call[] = [];
  #isBusy = false;
  #state: "open" | "closing" | "gone" = "open";

  constructor(connection: Connection, number: number) {
    this.connection = connection;
    this.number = number;
    this.publisher = new Publisher(this);
    this.deliveries = new Deliveries(this);
  }

  get isOpen(): boolean {
    return this.#state === "open";
  }

  get vhost(): string {
    return this.connection.vhost;
  }

  send<Name extends MethodName>(name: Name, args: Args<Name>): void {
    this.connection.send(this.number, name, args);
  }

  /** The answer to a method, unless its sender does not want one. */
  answer<Name extends MethodName>(noWait: boolean, name: Name, args: Args<Name>): void {
    if (!noWait) this.send(name, args);
  }

  receive(method: Method, message?: Message): void {
    if (this.#state === "closing") {
      if (method.name === "channel.close-ok") this.connection.forget(this);
      else if (method.name === "channel.close") this.send("channel.close-ok", {});
      return;
    }
    if (this.#isBusy) {
      this.#waiting.push({ method, message });
      if (this.#waiting.length === MOST_WAITING) this.connection.pause();
      return;
    }
    this.#execute(method, message);
  }

  /** All methods of this moment have been read: what was published is sent to the store. */
  flush(): void {
    if (!this.#isBusy && this.publisher.isPending) this.#during(this.publisher.flush(), "basic.publish");
  }

  #execute(method: Method, message: Message | undefined): void {
    if (method.name === "basic.publish")
      return this.#guarded(() => this.publisher.publish(method.args, message!), "basic.publish");
    // What was published before this method takes effect before it.
    if (this.publisher.isPending && method.name !== "basic.ack") {
      this.#waiting.unshift({ method, message });
      return this.#during(this.publisher.flush(), "basic.publish");
    }
    const handler = HANDLERS[method.name] as Handler<MethodName> | undefined;
    if (!handler) return this.fail(new AmqpError("COMMAND_INVALID", "unimplemented method"), method.name);
    this.#guarded(() => handler(this, method.args, message), method.name);
  }

  #guarded(run: () => void | Promise<void>, name?: MethodName): void {
    try {
      const running = run();
      if (running) this.#during(running, name);
    } catch (error) {
      this.fail(error, name);
    }
  }

  #during(running: Promise<void>, name?: MethodName): void {
    this.#isBusy = true;
    running
      .catch((error: unknown) => this.fail(error, name))
      .finally(() => {
        this.#isBusy = false;
        this.#continue();
      });
  }

  #continue(): void {
    while (!this.#isBusy && this.#state === "open") {
      const next = this.#waiting.shift();
      if (!next) {
        this.flush();
        break;
      }
      this.#execute(next.method, next.message);
    }
    if (this.#state !== "open") this.#waiting = [];
    if (this.#waiting.length < MOST_WAITING / 2) this.connection.resume();
  }

  /** Ends the channel, or the connection, as the error says. */
  fail(error: unknown, cause?: MethodName): void {
    if (this.#state !== "open") return;
    const known = this.connection.errorOf(error);
    if (known.endsConnection) return this.connection.fail(known, cause);
    this.#state = "closing";
    this.#waiting = [];
    this.connection.sendClose(this.number, known, cause);
    void this.#finish();
  }

  /** Returns what its consumers hold. */
  async end(): Promise<void> {
    if (this.#state === "open") this.#state = "gone";
    await this.#finish();
  }

  async #finish(): Promise<void> {
    this.publisher.end();
    await this.deliveries.end();
  }
}
