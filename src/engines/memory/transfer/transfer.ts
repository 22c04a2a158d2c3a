import {
  type Counts,
  countRecord,
  noCounts,
  type StoreHeader,
  type StoreRecord,
} from "../../../core/record.ts";
import {
  checkHold,
  checkImport,
  type Hold,
  NO_TRANSFER,
  PAGE,
  type TransferState,
  type TransferStore,
  wroteUpTo,
} from "../../../engine/transfer.ts";
import { holders, laneOf } from "../lanes.ts";
import { fillLane } from "../line.ts";
import type { Model } from "../model.ts";
import { exportModel } from "./export.ts";
import { importRecord } from "./import.ts";

/** The reference model's side of export, import and move. */
export class MemoryTransfer implements TransferStore {
  readonly label: string;
  readonly #model: Model;

  constructor(model: Model) {
    this.#model = model;
    this.label = model.label;
  }

  async *read(): AsyncGenerator<StoreRecord[]> {
    const { transfer } = this.#model;
    const [id, paused] = transfer.kind === "held" ? [transfer.id, transfer.paused] : [null, []];
    const counts = noCounts();
    // A copy: later changes to the model are not part of the export.
    const records = structuredClone([...exportModel(this.#model, id, paused)]);
    for (const record of records) countRecord(counts, record);
    for (let from = 0; from < records.length; from += PAGE.records)
      yield records.slice(from, from + PAGE.records);
    yield [{ type: "end", counts }];
  }

  async state(): Promise<TransferState> {
    return this.#model.transfer;
  }

  async beginImport(header: StoreHeader): Promise<number> {
    const model = this.#model;
    const isEmpty = model.queues.size + model.documents.size + model.subscriptions.length === 0;
    const done = checkImport(model.transfer, header, { label: this.label, isEmpty });
    if (done > 0) return done;
    model.transfer = { kind: "importing", id: header.export, done: 0 };
    model.store = header.store;
    model.seq = Math.max(model.seq, header.seq);
    model.fence = Math.max(model.fence, header.fence);
    model.time = { ...model.time, now: Math.max(model.now, header.now) };
    return 0;
  }

  async write(records: readonly StoreRecord[], done: number): Promise<void> {
    const { transfer } = this.#model;
    this.#model.transfer = wroteUpTo(transfer, done - records.length, done, this.label);
    for (const record of structuredClone(records)) importRecord(this.#model, record);
  }

  async count(): Promise<Counts> {
    const counts = noCounts();
    for (const record of exportModel(this.#model, null, [])) countRecord(counts, record);
    return counts;
  }

  async finishImport(): Promise<void> {
    const { transfer } = this.#model;
    inOrderOfArrival(this.#model);
    fillHeadless(this.#model);
    if (transfer.kind === "importing") this.#model.transfer = { kind: "imported", id: transfer.id };
  }

  async hold({ id, to }: Hold, { drain }: { drain: boolean }): Promise<{ claimed: number }> {
    const model = this.#model;
    const before = model.transfer;
    checkHold(before, { id, to }, this.label);
    if (before.kind === "held") return { claimed: 0 };
    const draining = before.kind === "draining" ? before : undefined;
    const claimed = [...model.tasks.values()].filter((task) => task.claim).length;
    const known = { id: draining?.id ?? id, to, paused: draining?.paused ?? [] };
    if (claimed === 0) model.transfer = { kind: "held", ...known };
    if (claimed === 0 || !drain) return { claimed };
    const queues = [...model.queues.values()].filter(({ paused }) => !paused);
    for (const queue of queues) queue.paused = true;
    const paused = [...known.paused, ...queues.map(({ name }) => name)];
    model.transfer = { ...known, kind: "draining", paused };
    return { claimed };
  }

  async release(): Promise<void> {
    const { transfer } = this.#model;
    if (transfer.kind !== "held" && transfer.kind !== "draining") return;
    for (const name of transfer.paused) {
      const queue = this.#model.queues.get(name);
      if (queue) queue.paused = false;
    }
    this.#model.transfer = NO_TRANSFER;
  }

  async markMoved(): Promise<void> {
    const { transfer } = this.#model;
    if (transfer.kind === "held") this.#model.transfer = { kind: "moved", id: transfer.id, to: transfer.to };
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
