import { createBroker } from "../../src/broker/broker.ts";
import type { Harness } from "./suite/harness.ts";
import { openMemory } from "../../src/engines/memory/engine.ts";
import { Heart } from "./heart.ts";

export const memory: Harness = {
  shared: false,
  open: async (clock) => {
    const heart = new Heart(clock);
    const engine = openMemory({ clock: heart });
    return {
      port: createBroker(engine, { clock }),
      transfer: async () => engine.transfer,
      hang: () => heart.stop(),
    };
  },
};
