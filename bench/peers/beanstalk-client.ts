import { once } from "node:events";
import { connect, type Socket } from "node:net";

interface Job {
  id: string;
  body: string;
}

interface Pending {
  /** The word with which a successful answer to this command begins. */
  expected: string;
  resolve(reply: { words: string[]; body: string }): void;
  reject(error: Error): void;
}

const TIME_TO_RUN_S = 60;
const END = "\r\n";

/**
 * As much of the beanstalkd protocol as the benchmarks need. Commands may follow each other without waiting; the
 * answers come in their order. What is sent in one turn of the event loop leaves in one write.
 */
export class BeanstalkClient {
  readonly #socket: Socket;
  readonly #pending: Pending[] = [];
  #received: Buffer = Buffer.alloc(0);
  #outgoing: string[] = [];
  isClosed = false;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on("data", (bytes) => this.#receive(bytes));
    socket.on("close", () => this.#fail(new Error("The connection is closed.")));
    socket.on("error", (error) => this.#fail(error));
  }

  static async connect(port: number): Promise<BeanstalkClient> {
    const socket = connect(port, "127.0.0.1");
    await once(socket, "connect");
    return new BeanstalkClient(socket);
  }

  async use(tube: string): Promise<void> {
    await this.#send("USING", `use ${tube}`);
  }

  async watch(tube: string): Promise<void> {
    await this.#send("WATCHING", `watch ${tube}`);
  }

  async put(body: string, priority: number): Promise<string> {
    const { words } = await this.#send(
      "INSERTED",
      `put ${priority} 0 ${TIME_TO_RUN_S} ${Buffer.byteLength(body)}${END}${body}`,
    );
    return words[1]!;
  }

  async reserve(): Promise<Job> {
    const { words, body } = await this.#send("RESERVED", "reserve");
    return { id: words[1]!, body };
  }

  async delete(id: string): Promise<void> {
    await this.#send("DELETED", `delete ${id}`);
  }

  close(): void {
    this.isClosed = true;
    this.#socket.destroy();
  }

  #send(expected: string, command: string): Promise<{ words: string[]; body: string }> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ expected, resolve, reject });
      if (this.#outgoing.length === 0) setImmediate(() => this.#flush());
      this.#outgoing.push(command, END);
    });
  }

  #flush(): void {
    this.#socket.write(this.#outgoing.join(""));
    this.#outgoing = [];
  }

  #receive(bytes: Buffer): void {
    const data = this.#received.length === 0 ? bytes : Buffer.concat([this.#received, bytes]);
    let offset = 0;
    for (;;) {
      const lineEnd = data.indexOf(END, offset);
      if (lineEnd === -1) break;
      const words = data.toString("latin1", offset, lineEnd).split(" ");
      let next = lineEnd + END.length;
      let body = "";
      if (words[0] === "RESERVED") {
        const bodyEnd = next + Number(words[2]);
        if (data.length < bodyEnd + END.length) break;
        body = data.toString("utf8", next, bodyEnd);
        next = bodyEnd + END.length;
      }
      offset = next;
      this.#answer(words, body);
    }
    this.#received = data.subarray(offset);
  }

  #answer(words: string[], body: string): void {
    const command = this.#pending.shift()!;
    if (words[0] === command.expected) command.resolve({ words, body });
    else command.reject(new Error(`beanstalkd answered ${words.join(" ")}, not ${command.expected}.`));
  }

  #fail(error: Error): void {
    for (const command of this.#pending.splice(0)) command.reject(error);
  }
}
