import { InProcess } from "../../src/engines/sqlite/thread/in-process.ts";
import type { ThreadData } from "../../src/engines/sqlite/thread/messages.ts";

/** Replaces a store's thread: the same messages, copied in the same way, without the start time of a thread. */
export class InProcessWorker extends InProcess {
  constructor(_file: URL, { workerData }: { workerData: ThreadData }) {
    super(structuredClone(workerData));
  }
}
