// Runs the fuzzer manually.  A million frames and a million requests, on each store:   npm run fuzz
// On one of them:                            npm run fuzz -- --engine postgres
// Fewer:                                     npm run fuzz -- --inputs 100000
// One round again, by its seed:              npm run fuzz -- --engine sqlite --from 123 --rounds 1

import { parseArgs } from "node:util";
import { PostgresServer, QUICK } from "../postgres/server.ts";
import { Fuzz, type Kind, type Store } from "./fuzz.ts";

const { values } = parseArgs({
  options: {
    engine: { type: "string", default: "sqlite,postgres" },
    from: { type: "string", default: "1" },
    rounds: { type: "string" },
    /** Frames, and as many requests. */
    inputs: { type: "string", default: "1000000" },
  },
});
const from = Number(values.from);
const most = Number(values.inputs);

for (const engine of values.engine.split(",")) {
  if (engine === "postgres") {
    const server = await PostgresServer.start({ settings: QUICK });
    try {
      await attack(engine, { url: server.url, schema: "fuzz" });
    } finally {
      await server.remove();
    }
  } else if (engine === "sqlite") await attack(engine, {});
  else throw new Error("--engine is sqlite, postgres, or both with a comma between them.");
}

async function attack(engine: string, store: Store): Promise<void> {
  const fuzz = await Fuzz.start(store);
  const began = performance.now();
  const { byKind } = fuzz.found;
  /** How many frames and requests are still to be sent. Malformed HTTP comes in addition. */
  const missing = (): Kind[] => (["requests", "messages"] as const).filter((kind) => byKind[kind] < most);
  const isOver = (done: number): boolean =>
    values.rounds === undefined ? missing().length === 0 : done >= Number(values.rounds);
  const report = (): void => {
    const seconds = ((performance.now() - began) / 1_000).toFixed(0);
    const memory = `at most ${(fuzz.found.peakRss / 2 ** 20).toFixed(0)} MB`;
    console.log(`${engine}: ${seconds} s, ${JSON.stringify(byKind)}, ${memory}`);
  };
  let round = 0;
  try {
    for (; !isOver(round); round++) {
      await fuzz.round(from + round);
      if (round % 250 === 249) report();
    }
  } finally {
    await fuzz.stop();
    report();
    console.log(`${engine}: the next round is ${from + round}.`);
  }
}
