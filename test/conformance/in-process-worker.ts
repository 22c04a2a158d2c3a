import { EventEmitter } from "node:events";
import type { ThreadData } from "../../src/engines/sqlite/thread/messages.ts";
import { serve } from "../../src/engines/sqlite/thread/thread.ts";

/** Replaces a store's thread: the same messages, copied in the same way, without the start time of a thread. */
export class InProcessWorker extends EventEmitter {
  readonly #port: InstanceType<typeof MessagePort>;

  constructor(_file: URL, { workerData }: { workerData: ThreadData }) {
    super();
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    port1.on("message", (message) => this.emit("message", message));
    port1.on("close", () => this.emit("exit", 0));
    serve(port2, structuredClone(workerData));
  }

  postMessage(message: unknown): void {
    this.#port.postMessage(message);
  }

  ref(): void {
    this.#port.ref();
  }

  unref(): void {
    this.#port.unref();
  }
}
