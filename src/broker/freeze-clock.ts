import type { Clock } from "../core/time/clock.ts";
import type { Engine, Op, Outcomes } from "../engine/engine.ts";

/**
 * Freezes a test's clock while the engine works: an engine in another thread or on another machine answers in real
 * time.
 */
export function freezeClockDuring(engine: Engine, clock: Clock): Engine {
  if (!clock.standStill) return engine;
  return {
    depth: engine.depth,
    onHint: (listener) => engine.onHint(listener),
    execute<const Ops extends readonly Op[]>(ops: Ops): Promise<Outcomes<Ops>> {
      const answer = engine.execute(ops);
      clock.standStill!(answer);
      return answer;
    },
    ...(engine.executeInTransaction && {
      executeInTransaction: (tx, op) => {
        const answer = engine.executeInTransaction!(tx, op);
        clock.standStill!(answer);
        return answer;
      },
    }),
    stopRetrying: () => engine.stopRetrying?.(),
    close: () => engine.close(),
  };
}
