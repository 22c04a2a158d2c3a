import { onTestFinished } from "vitest";
import { createBroker } from "../../src/broker/broker.ts";
import { openRemote } from "../../src/client/remote.ts";
import { SILENT } from "../../src/core/process/logger.ts";
import type { Port } from "../../src/core/port.ts";
import type { NativeOptions } from "../../src/doors/native/door.ts";
import { systemClock } from "../../src/engine/system-clock.ts";
import { openMemory } from "../../src/engines/memory/engine.ts";
import type { Server } from "../../src/server/server.ts";
import { Proxy } from "../proxy.ts";
import { startServer } from "../server/start.ts";

/** A server on a store in memory, and a proxy in front of it that can be cut. */
export class Served {
  readonly store: Port;
  readonly #options: Partial<NativeOptions>;
  #server: Server | undefined;
  #proxy: Proxy | undefined;
  #port = 0;

  private constructor(options: Partial<NativeOptions>) {
    this.#options = options;
    this.store = createBroker(openMemory({ clock: systemClock }), { clock: systemClock });
  }

  /** Removed at the end of the test. */
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

  /** Replaces the server by another one on the same store: what it kept in memory is lost. */
  async restart(): Promise<void> {
    await this.stop();
    await this.#listen();
  }

  async stop(): Promise<void> {
    await this.#server?.close();
  }

  async open(): Promise<Port> {
    const port = await openRemote({ url: this.url, clock: systemClock, logger: SILENT });
    onTestFinished(() => port.close());
    return port;
  }

  async #listen(): Promise<void> {
    this.#server = await startServer(this.store, { port: this.#port, native: this.#options });
    this.#port = Number(new URL(this.#server.url).port);
  }
}
