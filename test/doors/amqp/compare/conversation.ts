// Runs a script against a server, and records the conversation as lines of text: what the script sends, and every
// answer that it takes. The lines of two servers are equal if their answers are equal, method by method.

import { setTimeout as sleep } from "node:timers/promises";
import { type Answer, CLOSED, type LoginOptions, RawConnection } from "../raw/connection.ts";
import type { Fields } from "../raw/values.ts";
import { Lines, mask, show, showBody, showFields } from "./lines.ts";

export type Script = (talk: Conversation) => Promise<void>;

/** Long enough for RabbitMQ to send what it sends without being asked, such as a message to another consumer. */
const QUIET_MS = 150;
/** Long enough to notice an answer that should not come, if all expected ones have come. */
const SURPRISE_MS = 60;
/** RabbitMQ answers a declare before messages that the queue has not read yet: its count may be too small. */
const READ_MS = 50;
/** Longer than the x-expires of the scripts: a declare starts that time again. */
const RETRY_MS = 300;
/** How long an expected state may take on a busy machine. */
const PATIENCE_MS = 15_000;
const NAMES = "abcdefgh";

export class Conversation {
  readonly url: string;
  readonly #lines: Lines;
  readonly #connections: RawConnection[] = [];

  /** With the expected lines, it compares: it waits for them. Without, it records: it waits for a time. */
  constructor(url: string, expected?: string[]) {
    this.url = url;
    this.#lines = new Lines(expected);
  }

  /** A logged-in connection; its name in the record is the next letter. */
  async connect(options: LoginOptions = {}): Promise<Peer> {
    return this.#add(await RawConnection.login(this.url, options));
  }

  /** A connection on which nothing is sent yet. */
  async dial(): Promise<Peer> {
    return this.#add(await RawConnection.open(this.url));
  }

  /** Channel 1 on a connection of its own. */
  async channel(options: LoginOptions = {}): Promise<Channel> {
    return (await this.connect(options)).channel(1);
  }

  /** Puts messages into a queue, and returns when they are in it: every one is confirmed. */
  async fill(queue: string, bodies: string[], properties: Fields = {}): Promise<void> {
    this.note(`${queue} gets ${bodies.join(", ")}`);
    const filler = await RawConnection.login(this.url);
    await filler.channel(1);
    await filler.call(1, "confirm.select");
    for (const body of bodies) filler.publish(1, { routingKey: queue }, properties, Buffer.from(body));
    for (let confirmed = 0; confirmed < bodies.length;) {
      const { method, fields } = await filler.take(1);
      if (method !== "basic.ack") throw new Error(`Filling ${queue} was answered by ${method}.`);
      confirmed = fields["multiple"] ? (fields["deliveryTag"] as number) : confirmed + 1;
    }
    await filler.close();
  }

  note(text: string): void {
    this.#lines.push(`# ${text}`);
  }

  /** Records what was not taken, and closes all connections. */
  async finish(): Promise<string[]> {
    for (const [at, connection] of this.#connections.entries()) {
      for (const channel of connection.channels)
        for (const answer of connection.left(channel))
          this.#lines.push(`${NAMES[at]}/${channel} left ${show(answer)}`);
      connection.cut();
    }
    return this.#lines.all;
  }

  #add(connection: RawConnection): Peer {
    this.#connections.push(connection);
    return new Peer(connection, NAMES[this.#connections.length - 1]!, this.#lines);
  }
}

export class Peer {
  readonly raw: RawConnection;
  readonly name: string;
  readonly #lines: Lines;

  constructor(raw: RawConnection, name: string, lines: Lines) {
    this.raw = raw;
    this.name = name;
    this.#lines = lines;
  }

  async channel(number: number): Promise<Channel> {
    await this.raw.channel(number);
    return this.on(number);
  }

  /** A channel number that this does not open. */
  on(number: number): Channel {
    return new Channel(this.raw, number, `${this.name}/${number}`, this.#lines);
  }

  /** Bytes that are not a proper method; `what` describes them in the record. */
  send(what: string, bytes: Buffer): void {
    this.#lines.push(`${this.name} > ${what}`);
    this.raw.send(bytes);
  }

  cut(): void {
    this.#lines.push(`${this.name} cut`);
    this.raw.cut();
  }

  /** What arrived that is no frame: a server that wants another version answers with a protocol header. */
  async closed(): Promise<void> {
    const answer = await this.raw.take(0);
    const bytes = this.raw.unframed;
    if (bytes.length > 0) this.#lines.push(`${this.name} < bytes ${bytes.toString("hex")}`);
    this.#lines.push(`${this.name} < ${show(answer)}`);
  }
}

export class Channel {
  readonly #raw: RawConnection;
  readonly #number: number;
  readonly #name: string;
  readonly #lines: Lines;
  #hasPublished = false;

  constructor(raw: RawConnection, number: number, name: string, lines: Lines) {
    this.#raw = raw;
    this.#number = number;
    this.#name = name;
    this.#lines = lines;
  }

  send(method: string, fields: Fields = {}): void {
    this.#lines.push(mask(`${this.#name} > ${method}${showFields(fields)}`));
    this.#raw.method(this.#number, method, fields);
  }

  async call(method: string, fields: Fields = {}): Promise<Answer> {
    if (fields["passive"] && !this.#lines.isRecording) return this.#declareUntilExpected(method, fields);
    if (method === "queue.declare" && this.#hasPublished) await sleep(READ_MS);
    this.send(method, fields);
    return this.take();
  }

  publish(fields: Fields, body: string | Buffer, properties: Fields = {}): void {
    const bytes = Buffer.from(body as string);
    this.#hasPublished = true;
    const said = `basic.publish${showFields(fields)}${showFields(properties)} ${showBody(bytes)}`;
    this.#lines.push(mask(`${this.#name} > ${said}`));
    this.#raw.publish(this.#number, fields, properties, bytes);
  }

  /** Publishes to a queue through the default exchange. */
  toQueue(queue: string, body: string, properties: Fields = {}): void {
    this.publish({ routingKey: queue }, body, properties);
  }

  async take(): Promise<Answer> {
    const answer = await this.#raw.take(this.#number);
    this.#lines.push(`${this.#name} < ${show(answer)}`);
    return answer;
  }

  async takeMany(count: number): Promise<Answer[]> {
    const answers: Answer[] = [];
    while (answers.length < count) answers.push(await this.take());
    return answers;
  }

  /** Answers whose order the server may choose: recorded in sorted order. */
  async takeInAnyOrder(count: number): Promise<Answer[]> {
    const answers: Answer[] = [];
    while (answers.length < count) answers.push(await this.#raw.take(this.#number));
    this.#lines.push(...answers.map((answer) => `${this.#name} < ${show(answer)}`).sort());
    return answers;
  }

  /** Confirms may come one by one or in bulk: recorded as the numbers that they cover. */
  async takeConfirms(count: number): Promise<void> {
    const kinds = new Map<number, string>();
    let all = 0;
    while (kinds.size < count) {
      const answer = await this.#raw.take(this.#number);
      const tag = answer.fields["deliveryTag"] as number;
      if (answer.method !== "basic.ack" && answer.method !== "basic.nack") {
        this.#lines.push(`${this.#name} < ${show(answer)}`);
        if (answer.method === CLOSED || answer.method.endsWith(".close")) return;
        continue;
      }
      for (let one = answer.fields["multiple"] ? all + 1 : tag; one <= tag; one++)
        if (!kinds.has(one)) kinds.set(one, answer.method);
      while (kinds.has(all + 1)) all++;
    }
    const sorted = [...kinds].sort(([a], [b]) => a - b);
    this.#lines.push(
      `${this.#name} < confirms ${sorted.map(([tag, kind]) => `${tag} ${kind.slice(6)}`).join(", ")}`,
    );
  }

  /** Records what comes without being asked, or that nothing does. */
  async quiet(ms = QUIET_MS): Promise<void> {
    for (let count = 0; ; count++) {
      const answer = await this.#raw.takeWithin(this.#number, this.#patience(ms));
      if (answer) this.#lines.push(`${this.#name} < ${show(answer)}`);
      else if (count === 0) this.#lines.push(`${this.#name} < nothing`);
      if (!answer || isEnd(answer)) return;
    }
  }

  /** Takes a message from a queue in which it may arrive a little later. */
  async getSoon(queue: string, ms: number): Promise<void> {
    const fields = { queue, noAck: true };
    this.#lines.push(`${this.#name} > basic.get${showFields(fields)}`);
    const isExpected = this.#lines.expected()?.includes("basic.get-ok") ?? false;
    const until = performance.now() + (isExpected ? PATIENCE_MS : ms);
    for (;;) {
      this.#raw.method(this.#number, "basic.get", fields);
      const answer = await this.#raw.take(this.#number);
      if (answer.method === "basic.get-empty" && performance.now() < until) await sleep(READ_MS);
      else return this.#lines.push(`${this.#name} < ${show(answer)}`);
    }
  }

  /** How long to wait for an answer that may not come. */
  #patience(ms: number): number {
    if (this.#lines.isRecording) return ms;
    const expected = this.#lines.expected();
    // A wait that is longer than usual is one for an expiry, which must have passed.
    if (!expected?.startsWith(`${this.#name} < `) || expected.endsWith("< nothing"))
      return ms > QUIET_MS ? ms : SURPRISE_MS;
    return PATIENCE_MS;
  }

  /** What a declare finds may need a moment: messages on their way, a queue that is about to expire. */
  async #declareUntilExpected(method: string, fields: Fields): Promise<Answer> {
    const expected = this.#lines.expected(1);
    for (const until = performance.now() + PATIENCE_MS; ; await sleep(RETRY_MS)) {
      this.#raw.method(this.#number, method, fields);
      const answer = await this.#raw.take(this.#number);
      const line = `${this.#name} < ${show(answer)}`;
      const isOver = isEnd(answer) || answer.method === "channel.close" || performance.now() > until;
      if (line !== expected && !isOver) continue;
      this.#lines.push(mask(`${this.#name} > ${method}${showFields(fields)}`), line);
      return answer;
    }
  }
}

function isEnd({ method }: Answer): boolean {
  return method === CLOSED || method === "connection.close";
}
