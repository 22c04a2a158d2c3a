import { DibsError, invalid } from "../core/errors.ts";
import type { Counts, StoreHeader, StoreRecord } from "../core/record.ts";

/**
 * A store as export, import and move see it: past the engine, on a connection of its own. An engine's `transfer/` folder
 * implements it; src/transfer carries it out.
 */
export interface TransferStore {
  /** Without secrets: for messages, and for what a moved store says of where it went. */
  readonly label: string;

  /**
   * All that the store holds at one moment, from its header to its end. A page has about PAGE bytes, or one record that has more.
   * Of a store that is held it is the same each time, but for the header's `export`.
   */
  read(): AsyncIterable<StoreRecord[]>;

  /** What transfers have left in the store. */
  state(): Promise<TransferState>;

  /**
   * Begins an import, or goes on with one of the same `export`; answers how many records are in. The store must be empty
   * otherwise. Until the import is finished nobody else can use the store.
   */
  beginImport(header: StoreHeader): Promise<number>;
  /** One commit: the records, and that `done` are in with them. */
  write(records: readonly StoreRecord[], done: number): Promise<void>;
  /** What is in the store now, row by row. */
  count(): Promise<Counts>;
  /** Opens the store to everybody. */
  finishImport(): Promise<void>;

  /**
   * Closes the store to everybody else, if no task is claimed; answers how many are. With `drain` it then pauses all queues,
   * so that there will be fewer; they are remembered, and exported as they were.
   */
  hold(hold: Hold, how: { drain: boolean }): Promise<{ claimed: number }>;
  /** Opens it again, and resumes the queues that `hold` paused. */
  release(): Promise<void>;
  /** For good. */
  markMoved(): Promise<void>;

  close(): Promise<void>;
}

/** A move, as its source remembers it. */
export interface Hold {
  /** The `export` of what is read from the store while it is held. */
  id: string;
  /** Where the store goes. */
  to: string;
}

export type TransferState =
  | { kind: "none" }
  /** Queues are paused for a move, and claims are waited for. */
  | ({ kind: "draining"; paused: string[] } & Hold)
  | ({ kind: "held"; paused: string[] } & Hold)
  | ({ kind: "moved" } & Hold)
  | { kind: "importing"; id: string; done: number }
  /** What the import brought is the store's from then on. */
  | { kind: "imported"; id: string };

export const NO_TRANSFER: TransferState = { kind: "none" };

/** Bytes of a page, about: as much is in memory at a time, on either side. */
export const PAGE = { bytes: 256 * 1024, records: 200 } as const;

/** The store is closed to everybody but the transfer. */
export function isClosed({ kind }: TransferState): boolean {
  return kind === "held" || kind === "moved" || kind === "importing";
}

/** Why a store cannot be used; `text` is its state as engines keep it. Where it goes is in parentheses, which a server's clients are not told. */
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
        `running, run it again to go on, or with --cancel to give it up.`,
    );
  return new DibsError(
    "UNAVAILABLE",
    `The store ${label} is being filled by an import, and cannot be used meanwhile. Nothing was changed. If no dibs import or ` +
      `dibs move is running, run it again to go on, or delete the store.`,
  );
}

/** What an import may begin with: answers how many records are in. */
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

/** One import at a time: what is written follows what is in. Answers the state with it. */
export function wroteUpTo(state: TransferState, from: number, done: number, label: string): TransferState {
  if (state.kind === "importing" && state.done === from) return { ...state, done };
  throw new DibsError(
    "UNAVAILABLE",
    `Another process imports into ${label} too. What it has written stays. Let that one go on, or stop it and run this again.`,
  );
}

/** What a move may begin with. */
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
