import { createBroker } from "../../src/broker/broker.ts";
import { conformance } from "../../src/engine/conformance/index.ts";
import { openMemory } from "../../src/engines/memory/engine.ts";
import { Heart } from "./heart.ts";

conformance("memory", {
  shared: false,
  open: async (clock) => {
    const heart = new Heart(clock);
    return {
      port: createBroker(openMemory({ clock: heart }), { clock }),
      hang: () => heart.stop(),
    };
  },
});
