import { DibsError, invalid } from "../core/errors/errors.ts";
import type { Counts, StoreHeader, StoreRecord } from "../core/record/record.ts";

/**
 * The interface of a store for export, import and move. It uses its own connection, without the engine. The engines'
 * `transfer/` folders implement it, and src/transfer calls it.
 */
export interface TransferStore {
  /** Without secrets: used in messages, and stored in a moved store as its destination. */
  readonly label: string;

  /**
   * Everything that the store contains at one moment, from the header to the end record. A page has about PAGE bytes,
   * or one record if that is larger. While the store is held, each read returns the same, except for the header's
   * `export`.
   */
  read(): AsyncIterable<StoreRecord[]>;

  /** What earlier transfers have recorded in the store. */
  state(): Promise<TransferState>;

  /**
   * Begins an import, or continues one of the same `export`. Returns how many records are already in. Otherwise the
   * store must be empty. Until the import is finished, no other process can use the store.
   */
  beginImport(header: StoreHeader): Promise<number>;
  /** One commit: the records, and the number of records that are in after it. */
  write(records: readonly StoreRecord[], done: number): Promise<void>;
  /** Counts the rows that the store contains now. */
  count(): Promise<Counts>;
  /** Opens the store to all processes. */
  finishImport(): Promise<void>;

  /**
   * Closes the store to all other processes if no task is claimed. Returns the number of claims. With `drain` it also
   * pauses all queues, so that the number falls; which queues it paused is stored, and they are exported as they were.
   */
  hold(hold: Hold, how: { drain: boolean }): Promise<{ claimed: number }>;
  /** Opens the store again, and resumes the queues that `hold` paused. */
  release(): Promise<void>;
  /** Closes the store for good, because its data has moved. */
  markMoved(): Promise<void>;

  close(): Promise<void>;
}

/** A move, as its source stores it. */
export interface Hold {
  /** The `export` of all reads while the store is held. */
  id: string;
  /** The label of the target store. */
  to: string;
}

export type TransferState =
  | { kind: "none" }
  /** Queues are paused for a move, which waits for the claims to end. */
  | ({ kind: "draining"; paused: string[] } & Hold)
  | ({ kind: "held"; paused: string[] } & Hold)
  | ({ kind: "moved" } & Hold)
  | { kind: "importing"; id: string; done: number }
  /** The import is finished: the data belongs to the store. */
  | { kind: "imported"; id: string };

export const NO_TRANSFER: TransferState = { kind: "none" };

/** Approximate bytes of a page: each side has one page in memory at a time. */
export const PAGE = { bytes: 256 * 1024, records: 200 } as const;

/** The store is closed to all processes except the transfer. */
export function isClosed({ kind }: TransferState): boolean {
  return kind === "held" || kind === "moved" || kind === "importing";
}

/**
 * Why a store cannot be used. `text` is its state as the engines store it. The target is in parentheses, which a
 * server's clients do not see.
 */
export function closedError(text: string, label: string): DibsError {
  const state = JSON.parse(text) as TransferState;
  if (state.kind === "moved")
    return new DibsError(
      "UNAVAILABLE",
      `The store ${label} was moved to another store (${state.to}). Nothing was changed. Open that one; this one is kept as it was.`,
      { retryable: false },
    );
  if (state.kind === "held")
    return new DibsError(
      "UNAVAILABLE",
      `The store ${label} is being moved to another store (${state.to}), and cannot be used meanwhile. Nothing was changed. If no dibs move is ` +
        `running, run it again to continue, or with --cancel to cancel it.`,
    );
  return new DibsError(
    "UNAVAILABLE",
    `The store ${label} is being filled by an import, and cannot be used meanwhile. Nothing was changed. If no dibs import or ` +
      `dibs move is running, run it again to continue, or delete the store.`,
  );
}

/** Whether an import may begin. Returns how many records are already in. */
export function checkImport(
  state: TransferState,
  header: StoreHeader,
  store: { label: string; isEmpty: boolean },
): number {
  if (state.kind === "importing" && state.id === header.export) return state.done;
  if (state.kind === "imported" && state.id === header.export)
    throw invalid(`This export was imported into ${store.label} before. Nothing was changed.`);
  if (state.kind === "importing")
    throw invalid(
      `The store ${store.label} holds part of another import, which was interrupted. Nothing was changed. ` +
        `Run that one again to its end, or delete the store and import into a new one.`,
    );
  if (state.kind !== "none" && state.kind !== "imported")
    throw invalid(
      `The store ${store.label} is being moved, or was moved, to ${state.to}. Nothing was changed. Name another store to import into.`,
    );
  if (store.isEmpty) return 0;
  throw invalid(
    `The store ${store.label} is not empty. Nothing was changed. Import into a new store: a file that does not exist, or an empty ` +
      `PostgreSQL schema.`,
  );
}

/** One import at a time: a write must continue from what is in. Returns the new state. */
export function wroteUpTo(state: TransferState, from: number, done: number, label: string): TransferState {
  if (state.kind === "importing" && state.done === from) return { ...state, done };
  throw new DibsError(
    "UNAVAILABLE",
    `Another process imports into ${label} too. What it has written stays. Let that one continue, or stop it and run this again.`,
  );
}

/** Whether a move may begin. */
export function checkHold(state: TransferState, hold: Hold, label: string): void {
  if (state.kind === "moved")
    throw invalid(`The store ${label} was moved to ${state.to} before. Nothing was changed.`);
  if (state.kind === "importing")
    throw invalid(
      `The store ${label} is being filled by an import. Nothing was changed. Run that to its end first.`,
    );
  if ((state.kind === "held" || state.kind === "draining") && state.to !== hold.to)
    throw invalid(
      `The store ${label} is being moved to ${state.to}, not to ${hold.to}. Nothing was changed. Run that move again to its end, ` +
        `or give it up with --cancel.`,
    );
}
