import type { Port } from "../../core/port.ts";
import type { ManualClock } from "../../testing/manual-clock.ts";

/** What a store has to offer for the suite to run on it. */
export interface Harness {
  /** Opens a fresh store, whose time is `clock`'s. What it makes beside the port, it cleans up itself. */
  open(clock: ManualClock): Promise<Opened>;
  /** Whether several may open one store: then those cases run too. */
  shared: boolean;
}

export interface Opened {
  /** Closed by the suite. */
  port: Port;
  /** From now on this opener's workers give no sign of life, as if it hung; the answer ends that. */
  hang: () => () => void;
  /** Opens the same store once more, as another process would. */
  another?: () => Promise<Opened>;
}
