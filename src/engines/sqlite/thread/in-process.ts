import { EventEmitter } from "node:events";
import { MessageChannel, type MessagePort } from "node:worker_threads";
import type { Request, ThreadData } from "./messages.ts";
import { serve } from "./thread.ts";

/**
 * Runs the store on the caller's own thread, with the messages of a thread. engine.ts uses it for a process that makes
 * a few calls and ends: to start a thread, which loads the modules again, takes about as long as all the rest of such a
 * process. SQLite blocks the caller meanwhile.
 */
export class InProcess extends EventEmitter<{ message: [unknown]; exit: []; error: [Error] }> {
  readonly #port: MessagePort;

  constructor(data: ThreadData) {
    super();
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    port1.on("message", (message) => this.emit("message", message));
    port1.on("close", () => this.emit("exit"));
    serve(port2, data);
  }

  postMessage(request: Request): void {
    this.#port.postMessage(request);
  }

  ref(): void {
    this.#port.ref();
  }

  unref(): void {
    this.#port.unref();
  }
}
