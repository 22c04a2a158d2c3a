import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { createBroker } from "../../src/broker/broker.ts";
import { openRemote } from "../../src/client/remote.ts";
import { SILENT } from "../../src/core/logger.ts";
import type { Port } from "../../src/core/port.ts";
import { NativeDoor, type NativeOptions } from "../../src/doors/native/door.ts";
import { systemClock } from "../../src/engine/system-clock.ts";
import { openMemory } from "../../src/engines/memory/engine.ts";
import { Proxy } from "../proxy.ts";

/** A server on a store in memory, and a proxy before it that can be cut. */
export class Served {
  readonly store: Port;
  readonly #options: Partial<NativeOptions>;
  #door: NativeDoor | undefined;
  #http: Server | undefined;
  #proxy: Proxy | undefined;
  #port = 0;

  private constructor(options: Partial<NativeOptions>) {
    this.#options = options;
    this.store = createBroker(openMemory({ clock: systemClock }), { clock: systemClock });
  }

  /** Gone when the test is over. */
  static async start(options: Partial<NativeOptions> = {}): Promise<Served> {
    const served = new Served(options);
    await served.#listen();
    served.#proxy = await Proxy.start(served.#port);
    onTestFinished(async () => {
      await served.#proxy!.close();
      await served.stop();
      await served.store.close();
    });
    return served;
  }

  get proxy(): Proxy {
    return this.#proxy!;
  }

  get url(): string {
    return `http://127.0.0.1:${this.proxy.port}`;
  }

  /** Another one takes its place on the same store: nothing of what it kept in memory is left. */
  async restart(): Promise<void> {
    await this.stop();
    await this.#listen();
  }

  async stop(): Promise<void> {
    this.#door?.close();
    this.#http?.closeAllConnections();
    await new Promise<void>((resolve) => this.#http?.close(() => resolve()));
  }

  async open(): Promise<Port> {
    const port = await openRemote({ url: this.url, clock: systemClock, logger: SILENT });
    onTestFinished(() => port.close());
    return port;
  }

  async #listen(): Promise<void> {
    const door = new NativeDoor({ clock: systemClock, logger: SILENT, ...this.#options });
    const http = createServer();
    http.on("upgrade", (request, socket, head) =>
      door.accept(request, socket, head, { port: this.store, owner: "anybody" }),
    );
    await new Promise<void>((resolve) => http.listen(this.#port, "127.0.0.1", resolve));
    this.#port = (http.address() as AddressInfo).port;
    this.#door = door;
    this.#http = http;
  }
}
