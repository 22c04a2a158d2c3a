import type { Reading } from "../../../core/time/clock.ts";
import { startTimer } from "../../../core/time/clock.ts";
import type { Op, Outcome } from "../../../engine/engine.ts";
import type { ThreadData } from "./messages.ts";
import { Remote, type StartStore } from "./remote.ts";

/** The thread takes 18 MB. */
const UNUSED_MS = 60_000;

/** Executes slow reads on a thread of its own, which starts with the first of them and ends when it is not used. */
export class Reader {
  readonly #data: ThreadData;
  readonly #start: StartStore;
  #remote: Promise<Remote> | undefined;
  #running = 0;
  #stopTimer: () => void = () => {};

  constructor(data: ThreadData, start: StartStore) {
    this.#data = { ...data, role: "reader" };
    this.#start = start;
  }

  async run(ops: readonly Op[], reading: Reading | null): Promise<Outcome[]> {
    this.#stopTimer();
    this.#running++;
    try {
      return await (await this.#open()).run(ops, reading);
    } finally {
      if (--this.#running === 0) this.#stopTimer = startTimer(UNUSED_MS, () => void this.#end());
    }
  }

  /** Also ends the thread if a read is in progress, which is answered first. */
  async close(): Promise<void> {
    this.#stopTimer();
    await this.#end();
  }

  /** Opened again if it ended. */
  async #open(): Promise<Remote> {
    const last = this.#remote;
    const remote = await last?.catch(() => undefined);
    if (remote && !remote.ended) return remote;
    if (this.#remote === last) this.#remote = Remote.open(this.#data, () => {}, this.#start);
    return this.#remote!;
  }

  async #end(): Promise<void> {
    const remote = await this.#remote?.catch(() => undefined);
    await remote?.close();
  }
}
