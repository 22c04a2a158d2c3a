import { setTimeout as sleep } from "node:timers/promises";
import { Dibs } from "../../src/api/dibs.ts";
import { createBroker } from "../../src/broker/broker.ts";
import type { Engine } from "../../src/engine/engine.ts";
import { systemClock } from "../../src/engine/system-clock.ts";
import { openSqlite } from "../../src/engines/sqlite/engine.ts";
import { payload } from "../measure.ts";
import { claims, ms, type Scenario } from "../scenario.ts";

export const stampede: Scenario = {
  name: "stampede",
  about:
    "1,000 claims wait and one task is added: how many of them ask the engine, and how long until one has it",
  needs: "dibs",
  async run(bench) {
    const counting = countClaims(await openSqlite({ path: bench.path("stampede") }));
    // As open() does it, with an engine that counts: the public API does not tell what reaches the engine.
    await using dibs = new Dibs(createBroker(counting.engine, { clock: systemClock }), console);
    const queue = dibs.queue("stampede");
    const leave = new AbortController();
    const waiting = Array.from({ length: bench.size(1_000, 100) }, () =>
      queue.claim({ wait: "1m", signal: leave.signal }),
    );
    // By now, each claim has found nothing once.
    await sleep(500);
    const before = counting.count();
    const start = performance.now();
    const first = Promise.race(waiting);
    await queue.add(payload());
    const [claim] = await first;
    const taken = performance.now() - start;
    await sleep(50);
    const asked = counting.count() - before;
    await claim!.ack();
    leave.abort();
    await Promise.allSettled(waiting);
    return [claims("claims that reach the engine", asked), ms("until one has it", taken)];
  },
};

function countClaims(engine: Engine): { engine: Engine; count: () => number } {
  let count = 0;
  const counted: Engine = {
    execute(ops) {
      count += ops.filter(({ verb }) => verb === "claim").length;
      return engine.execute(ops);
    },
    onHint: (listener) => engine.onHint(listener),
    depth: engine.depth,
    close: () => engine.close(),
  };
  return { engine: counted, count: () => count };
}
