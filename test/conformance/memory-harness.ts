import { createBroker } from "../../src/broker/broker.ts";
import type { Harness } from "./suite/harness.ts";
import { openMemory } from "../../src/engines/memory/engine.ts";
import { StoppableClock } from "./stoppable-clock.ts";

export const memory: Harness = {
  shared: false,
  open: async (clock) => {
    const timers = new StoppableClock(clock);
    const engine = openMemory({ clock: timers });
    return {
      port: createBroker(engine, { clock }),
      transfer: async () => engine.transfer,
      hang: () => timers.stop(),
    };
  },
};
