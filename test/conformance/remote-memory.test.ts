import { createBroker } from "../../src/broker/broker.ts";
import { conformance } from "../../src/engine/conformance/index.ts";
import { openMemory } from "../../src/engines/memory/engine.ts";
import { Heart } from "./heart.ts";
import { remote } from "./remote-harness.ts";

conformance(
  "a server on memory, through its client,",
  remote({
    shared: false,
    open: async (clock) => {
      const heart = new Heart(clock);
      return {
        port: createBroker(openMemory({ clock: heart }), { clock }),
        hang: () => heart.stop(),
      };
    },
  }),
);
