import type { Port } from "../../../src/core/port.ts";
import type { TransferStore } from "../../../src/engine/transfer.ts";
import type { ManualClock } from "../../../src/testing/manual-clock.ts";

/** What the suite needs from a store. Each store has a harness in test/conformance. */
export interface Harness {
  /** Opens a new store that uses `clock`. Everything else that it creates is removed through `cleanUp`. */
  open(clock: ManualClock, cleanUp: CleanUp): Promise<Opened>;
  /** The store uses the clock of a server, which continues while a worker's machine sleeps. */
  serverTime?: boolean;
  /** The store does not notify this process of other processes' commits: it finds them by polling. */
  withoutHints?: boolean;
  /** Several processes may open one store: the cases about that run too. */
  shared: boolean;
  /** The store can join the caller's transaction; otherwise it must refuse to. */
  transactions?: boolean;
  /** The port is a client of a server. */
  isRemote?: boolean;
}

/** Passed as `tx`. */
export interface CallersTransaction {
  query(sql: string, params: unknown[]): unknown;
  commit(): Promise<void>;
  rollback(): Promise<void>;
}

/** Registers a clean-up for the end of the case. The last one registered runs first. */
export type CleanUp = (undo: () => Promise<void>) => void;

export interface Opened {
  /** Closed by the suite. */
  port: Port;
  /** Stops the heartbeats of this opener's workers, as if its process hung. The returned function resumes them. */
  hang: () => () => void;
  /** Begins a transaction of the caller, if the store can join one. */
  begin?: () => Promise<CallersTransaction>;
  /** The store of this harness, opened for export, import and move. */
  transfer: () => Promise<TransferStore>;
  /** Opens the same store again, as another process would. */
  another?: () => Promise<Opened>;
}
