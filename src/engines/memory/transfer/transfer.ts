import {
  type Counts,
  countRecord,
  noCounts,
  type StoreHeader,
  type StoreRecord,
} from "../../../core/record/record.ts";
import { StoreTransfer } from "../../../engine/store-transfer.ts";
import { NO_TRANSFER, type TransferState } from "../../../engine/transfer.ts";
import { holders, laneOf } from "../lanes.ts";
import { fillLane } from "../line.ts";
import type { Model } from "../model.ts";
import { exportModel } from "./export.ts";
import { importRecord } from "./import.ts";

/** The reference model's side of export, import and move. */
export class MemoryTransfer extends StoreTransfer {
  readonly label: string;
  readonly #model: Model;

  constructor(model: Model) {
    super();
    this.#model = model;
    this.label = model.label;
  }

  protected async commit<T>(work: () => Promise<T> | T): Promise<T> {
    return work();
  }

  protected beginRead(): void {}

  protected endRead(): void {}

  protected failure(error: unknown): unknown {
    return error;
  }

  protected records(id: string | null, paused: readonly string[]): StoreRecord[] {
    // A copy: later changes to the model are not part of the export.
    return structuredClone([...exportModel(this.#model, id, paused)]);
  }

  protected stored(): string {
    return JSON.stringify(this.#model.transfer);
  }

  protected store(state: string | null): void {
    this.#model.transfer = state === null ? NO_TRANSFER : (JSON.parse(state) as TransferState);
  }

  protected isEmpty(): boolean {
    const { queues, documents, subscriptions } = this.#model;
    return queues.size + documents.size + subscriptions.length === 0;
  }

  protected adopt(header: StoreHeader): void {
    const model = this.#model;
    model.store = header.store;
    model.seq = Math.max(model.seq, header.seq);
    model.fence = Math.max(model.fence, header.fence);
    model.time = { ...model.time, now: Math.max(model.now, header.now) };
  }

  protected import(records: readonly StoreRecord[]): void {
    for (const record of structuredClone(records)) importRecord(this.#model, record);
  }

  protected countRows(): Counts {
    const counts = noCounts();
    for (const record of exportModel(this.#model, null, [])) countRecord(counts, record);
    return counts;
  }

  protected finishGroups(): void {
    inOrderOfArrival(this.#model);
    fillHeadless(this.#model);
  }

  protected countClaims(): number {
    return [...this.#model.tasks.values()].filter((task) => task.claim).length;
  }

  protected pauseAll(): string[] {
    const queues = [...this.#model.queues.values()].filter(({ paused }) => !paused);
    for (const queue of queues) queue.paused = true;
    return queues.map(({ name }) => name);
  }

  protected resume(names: readonly string[]): void {
    for (const name of names) {
      const queue = this.#model.queues.get(name);
      if (queue) queue.paused = false;
    }
  }

  async close(): Promise<void> {}
}

/** In the order of their numbers: an export may have another order. */
function inOrderOfArrival(model: Model): void {
  const tasks = [...model.tasks].sort(([, a], [, b]) => a.seq - b.seq);
  model.tasks.clear();
  for (const [id, task] of tasks) model.tasks.set(id, task);
  for (const run of model.runs.values()) run.parts.sort((a, b) => a.seq - b.seq);
}

/** Groups whose head has ended and whose next task was not promoted yet. */
function fillHeadless(model: Model): void {
  const waiting = [...model.tasks.values()].filter(({ state }) => state === "waiting");
  for (const { queue, groupKey } of waiting) {
    const key = groupKey!;
    if (holders(model, queue, key).length === 0 && laneOf(model, queue, key).wakeAt === null)
      fillLane(model, queue, key);
  }
}
