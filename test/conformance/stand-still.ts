import type { Engine, Op, Outcomes } from "../../src/engine/engine.ts";
import type { ManualClock } from "../../src/testing/manual-clock.ts";

/** An engine in another thread answers in real time: the test's time must not run away from it. */
export function standStillDuring(engine: Engine, clock: ManualClock): Engine {
  return {
    depth: engine.depth,
    onHint: (listener) => engine.onHint(listener),
    run<const Ops extends readonly Op[]>(ops: Ops): Promise<Outcomes<Ops>> {
      const answer = engine.run(ops);
      clock.standStill(answer);
      return answer;
    },
    ...(engine.runWithin && {
      runWithin: (tx, op) => {
        const answer = engine.runWithin!(tx, op);
        clock.standStill(answer);
        return answer;
      },
    }),
    close: () => engine.close(),
  };
}
