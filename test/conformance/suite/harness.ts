import type { Port } from "../../../src/core/port.ts";
import type { TransferStore } from "../../../src/engine/transfer.ts";
import type { ManualClock } from "../../../src/testing/manual-clock.ts";

/** What a store has to offer for the suite to run on it. */
export interface Harness {
  /** Opens a fresh store, whose time is `clock`'s. What it makes beside the port is undone by `cleanUp`. */
  open(clock: ManualClock, cleanUp: CleanUp): Promise<Opened>;
  /** The store goes by the clock of a server, which does not sleep when a worker's machine does. */
  serverTime?: boolean;
  /** Nobody tells this store of what others have committed: it finds that when it looks again. */
  isDeaf?: boolean;
  /** Whether several may open one store: then those cases run too. */
  shared: boolean;
  /** Whether the store can take part in a transaction of the caller's: otherwise it must say that it cannot. */
  transactions?: boolean;
}

/** To be passed as `tx`. */
export interface CallersTransaction {
  query(sql: string, params: unknown[]): unknown;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

/** Registers what is to be done when the case is over; the last one first. */
export type CleanUp = (undo: () => Promise<void>) => void;

export interface Opened {
  /** Closed by the suite. */
  port: Port;
  /** From now on this opener's workers give no sign of life, as if it hung; the answer ends that. */
  hang: () => () => void;
  /** Begins a transaction of the caller's own, where the store can take part in one. */
  begin?: () => Promise<CallersTransaction>;
  /** The store of this harness, opened for export, import and move. */
  transfer: () => Promise<TransferStore>;
  /** Opens the same store once more, as another process would. */
  another?: () => Promise<Opened>;
}
