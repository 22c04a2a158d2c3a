import { randomUUID } from "node:crypto";
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { DibsError, invalid } from "../core/errors/errors.ts";
import type { StoreRecord } from "../core/record/record.ts";
import type { TransferStore } from "../engine/transfer.ts";
import { importRecords, type Progress, type TransferHooks } from "./run.ts";

/** `dibs move`, and the export of a store. Both work on TransferStore (engine/transfer.ts), without an engine. */

export interface MoveOptions extends TransferHooks {
  /** Wait for claims to end. Otherwise the move is refused while there are claims. */
  wait?: boolean;
  /** Called when there are claims to wait for, and again when their number changes. */
  onWaiting?: (claimed: number) => void;
}

/** How often to check whether the claims have ended. */
const LOOK_EVERY_MS = 250;

/**
 * Moves everything in a store into an empty one: the source is held, exported into the target, and marked as moved once
 * the target is open. If it is interrupted at any point, the same call continues: the hold has an id, which the target
 * stores as the id of its import.
 */
export async function moveStore(
  from: TransferStore,
  to: TransferStore,
  options: MoveOptions = {},
): Promise<Progress> {
  if (from.label === to.label)
    throw invalid(
      `The store ${from.label} cannot be moved into itself. Nothing was changed. Name another one to move to.`,
    );
  const before = await from.state();
  if (before.kind === "moved" && before.to === to.label && (await hasArrived(to, before.id)))
    throw invalid(
      `The store ${from.label} was moved to ${to.label} before. Nothing was changed. Use that store.`,
    );
  await hold(from, to, options);
  const state = await from.state();
  if (state.kind !== "held") throw new Error("the store is not held");
  // The target is already open and may have changed since: only mark the source.
  if (await hasArrived(to, state.id)) {
    await from.markMoved();
    return { records: 0, tasks: 0 };
  }
  const progress = await importRecords(from.read(), to, options);
  await from.markMoved();
  return progress;
}

async function hasArrived(to: TransferStore, id: string): Promise<boolean> {
  const state = await to.state();
  return state.kind === "imported" && state.id === id;
}

async function hold(from: TransferStore, to: TransferStore, options: MoveOptions): Promise<void> {
  const { wait = false, onWaiting, checkStop } = options;
  const state = await from.state();
  // Check the target before the source is changed. For an interrupted move, the import itself checks it.
  if (state.kind === "none" || state.kind === "imported") await checkTarget(to);
  let told = 0;
  for (;;) {
    const { claimed } = await from.hold({ id: randomUUID(), to: to.label }, { drain: wait });
    if (claimed === 0) return;
    if (!wait) throw claimsHeld(from.label, claimed);
    if (claimed !== told) onWaiting?.((told = claimed));
    await sleep(LOOK_EVERY_MS);
    checkStop?.();
  }
}

/** Checks what the import would refuse, so that a move that cannot succeed does not hold the source. */
async function checkTarget(to: TransferStore): Promise<void> {
  const state = await to.state();
  const counts = await to.count();
  if (
    state.kind === "importing" ||
    state.kind === "held" ||
    state.kind === "draining" ||
    state.kind === "moved"
  )
    throw invalid(
      `The store ${to.label} is part of another import or move. Nothing was changed. Name another store to move to.`,
    );
  if (counts.queues + counts.documents + counts.subscriptions === 0) return;
  throw invalid(
    `The store ${to.label} is not empty. Nothing was changed. Move to a new store: a file that does not exist, or an empty PostgreSQL schema.`,
  );
}

function claimsHeld(label: string, claimed: number): DibsError {
  return new DibsError(
    "UNAVAILABLE",
    `Workers hold ${claimed} ${claimed === 1 ? "task" : "tasks"} of ${label}. Nothing was changed. Stop them and run this again, or say --wait: ` +
      `then no more tasks can be claimed, and the move begins when these are settled.`,
  );
}

/**
 * Gives up an interrupted move: the source opens again. Refused if the target, when it still exists, is already open.
 */
export async function cancelMove(from: TransferStore, to: TransferStore | undefined): Promise<void> {
  const state = await from.state();
  if (state.kind !== "held" && state.kind !== "draining")
    throw invalid(
      state.kind === "moved"
        ? `The store ${from.label} was moved to ${state.to}: that cannot be undone. Move it back with dibs move.`
        : `The store ${from.label} is not being moved. Nothing was changed.`,
    );
  if (to && state.to !== to.label)
    throw invalid(
      `The store ${from.label} is being moved to ${state.to}, not to ${to.label}. Nothing was changed. Name that store to cancel its move.`,
    );
  if (to && (await hasArrived(to, state.id)))
    throw invalid(
      `All of ${from.label} has arrived in ${to.label}, which is open. Nothing was changed. Run the move again without --cancel: it marks ` +
        `this store as moved.`,
    );
  await from.release();
}

/** All records, page by page. */
export async function* exportRecords(
  from: TransferStore,
  { onProgress, checkStop }: TransferHooks = {},
): AsyncGenerator<StoreRecord[]> {
  const progress = { records: 0, tasks: 0 };
  for await (const page of from.read()) {
    await setImmediate();
    checkStop?.();
    yield page;
    progress.records += page.length;
    progress.tasks += page.filter(({ type }) => type === "task").length;
    onProgress?.(progress);
  }
}
