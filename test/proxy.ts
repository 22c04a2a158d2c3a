import { createServer, type Server, type Socket } from "node:net";

/** A proxy between a process and its server that can be cut, to simulate what happens between distant machines. */
export class Proxy {
  readonly #server: Server;
  readonly #pairs = new Set<[Socket, Socket]>();
  /** Where new connections are forwarded to. */
  target: number;
  #port = 0;
  #cut = false;
  #isMute = false;
  /** Sees what `client` sends to the server. Returning true cuts every connection right after it was passed on. */
  cutAfter: ((sent: Buffer, client: Socket) => boolean) | undefined;

  private constructor(target: number) {
    this.target = target;
    this.#server = createServer((near) => this.#connect(near, this.target));
  }

  static async start(target: number, host = "127.0.0.1"): Promise<Proxy> {
    const proxy = new Proxy(target);
    await new Promise<void>((resolve) => proxy.#server.listen(0, host, resolve));
    proxy.#port = (proxy.#server.address() as { port: number }).port;
    return proxy;
  }

  get port(): number {
    return this.#port;
  }

  /** Ends every connection, and refuses new ones until it is mended. */
  cut(): void {
    this.#cut = true;
    for (const pair of this.#pairs) for (const socket of pair) socket.destroy();
  }

  /** Swallows all bytes in both directions without closing: connections seem alive. */
  mute(): void {
    this.#isMute = true;
  }

  /** Swallowed bytes do not come back: earlier connections stay dead, and new ones work. */
  mend(): void {
    this.#cut = false;
    this.#isMute = false;
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #connect(near: Socket, target: number): void {
    if (this.#cut) {
      near.destroy();
      return;
    }
    const far: Socket = new (near.constructor as new () => Socket)();
    const pair: [Socket, Socket] = [near, far];
    this.#pairs.add(pair);
    far.connect(target, "127.0.0.1");
    let isLast = false;
    for (const [from, to] of [pair, pair.toReversed()] as [Socket, Socket][]) {
      from.on("error", () => {});
      from.on("close", () => {
        if (!isLast) to.destroy();
        this.#pairs.delete(pair);
      });
    }
    let isDead = this.#isMute;
    const swallows = (): boolean => (isDead ||= this.#isMute);
    far.on("data", (data) => {
      if (!swallows()) near.write(data);
    });
    near.on("data", (data) => {
      if (swallows()) return;
      isLast = this.cutAfter?.(data, near) ?? false;
      if (!isLast) {
        far.write(data);
        return;
      }
      // The server gets everything. The answer does not come back.
      this.#cut = true;
      near.destroy();
      far.end(data);
    });
  }
}
