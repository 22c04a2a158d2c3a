import { EventEmitter } from "node:events";
import { END, type OpenStore } from "../../src/engines/sqlite/thread/messages.ts";
import { serve } from "../../src/engines/sqlite/thread/thread.ts";

/** Stands in for a Worker with the file of a store's thread: its stores run here, and block the caller. */
export class InProcessWorker extends EventEmitter<{ exit: []; error: [Error] }> {
  postMessage(request: OpenStore | typeof END): void {
    if (request === END) setImmediate(() => this.emit("exit"));
    else serve(request.port, request.data);
  }

  ref(): void {}
  unref(): void {}
}
