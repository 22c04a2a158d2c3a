import { EventEmitter } from "node:events";
import { MessageChannel, type MessagePort, Worker } from "node:worker_threads";
import { ownFile } from "../../../core/process/own-files.ts";
import { VERSION } from "../../../core/process/package-version.ts";
import { END, type OpenStore, type Report, type Request, STORE_THREAD, type ThreadData } from "./messages.ts";

/**
 * The threads that run stores. engine.ts opens every store on one. A program that opens a file again, mostly because a
 * hot reload has loaded its modules again, gets a second store on the same thread, with a connection and options of its
 * own. So each handle is as independent as one in another process, and closing one does not affect the other.
 */
export class StoreThreads {
  /** By role and real path. */
  readonly #threads = new Map<string, StoreThread>();

  /** `onShared`: the file is open already. Called once in the life of a thread. */
  open(data: ThreadData, onShared?: () => void): StoreOnThread {
    const key = `${data.role} ${data.path}`;
    let thread = data.path === ":memory:" ? undefined : this.#threads.get(key);
    if (!thread) {
      const started = new StoreThread(data.role, () => {
        if (this.#threads.get(key) === started) this.#threads.delete(key);
      });
      this.#threads.set(key, (thread = started));
    } else if (onShared && !thread.isShared) {
      thread.isShared = true;
      onShared();
    }
    return thread.open(data);
  }
}

const GLOBAL = Symbol.for(`dibs ${VERSION}: threads of stores`);

/** Those of this process. A bundler or a hot reload may load this module several times: all copies have the same ones. */
export function threadsOfProcess(): StoreThreads {
  return ((globalThis as Record<symbol, unknown>)[GLOBAL] ??= new StoreThreads()) as StoreThreads;
}

class StoreThread {
  isShared = false;
  readonly #worker: Worker;
  readonly #stores = new Set<StoreOnThread>();
  readonly #onEnd: () => void;

  constructor(role: ThreadData["role"], onEnd: () => void) {
    this.#onEnd = onEnd;
    this.#worker = new Worker(ownFile("./thread.ts", import.meta.url), {
      workerData: STORE_THREAD,
      // Flags of the program, such as --input-type, are not for this thread.
      execArgv: [],
      name: `dibs ${role}`,
    });
    // The ports of the stores keep the process alive, while calls are in progress.
    this.#worker.unref();
    this.#worker.on("error", (error) => {
      for (const store of this.#stores) store.emit("error", error);
    });
    this.#worker.once("exit", () => {
      this.#onEnd();
      for (const store of this.#stores) store.emit("exit");
      this.#stores.clear();
    });
  }

  open(data: ThreadData): StoreOnThread {
    const { port1, port2 } = new MessageChannel();
    const store = new StoreOnThread(port1);
    this.#stores.add(store);
    port1.once("close", () => this.#closed(store));
    this.#worker.postMessage({ data, port: port2 } satisfies OpenStore, [port2]);
    return store;
  }

  /** The thread ends with its last store, and that one is closed when the thread has ended. */
  #closed(store: StoreOnThread): void {
    // The thread is ending by itself. Its error, if any, comes before its exit.
    if (!store.isEnding) return;
    if (this.#stores.size > 1) {
      this.#stores.delete(store);
      store.emit("exit");
      return;
    }
    this.#onEnd();
    this.#worker.ref();
    this.#worker.postMessage(END);
  }
}

/** One store on a thread, for Remote. */
export class StoreOnThread extends EventEmitter<{ message: [Report]; exit: []; error: [Error] }> {
  /** Closed by its caller, or could not be opened. */
  isEnding = false;
  readonly #port: MessagePort;

  constructor(port: MessagePort) {
    super();
    this.#port = port;
    port.on("message", (report: Report) => {
      this.isEnding ||= "failure" in report;
      this.emit("message", report);
    });
  }

  postMessage(request: Request): void {
    this.isEnding ||= "close" in request;
    this.#port.postMessage(request);
  }

  ref(): void {
    this.#port.ref();
  }

  unref(): void {
    this.#port.unref();
  }
}
