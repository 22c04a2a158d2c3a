import { drainRate, fill } from "../measure.ts";
import { rate, type Scenario } from "../scenario.ts";

/** Enough to fetch a batch of some hundred tasks while the batch before is handled. */
export const AHEAD = 800;

export const drain = drainScenario({
  name: "drain",
  about: `50,000 tasks with a no-op handler, each acked on its own; ${AHEAD} fetched ahead by those who can (dibs, graphile-worker, pg-boss, RabbitMQ, NATS)`,
  ahead: AHEAD,
});

export const drainHandToMouth = drainScenario({
  name: "drain-no-prefetch",
  about: "the same with nothing fetched ahead: a worker holds no more tasks than it handles",
  ahead: 0,
});

function drainScenario({ name, about, ahead }: { name: string; about: string; ahead: number }): Scenario {
  return {
    name,
    about,
    needs: [],
    warmUp: true,
    async run(bench) {
      const count = bench.size(50_000, 1_000);
      const figures = [];
      for (const concurrency of [100, 10, 1]) {
        const queue = await bench.connect(`${name}-${concurrency}`);
        await fill(queue, count);
        const perSecond = await drainRate(queue, count, { concurrency, ahead });
        figures.push(rate(`concurrency ${concurrency}`, perSecond));
      }
      return figures;
    },
  };
}
