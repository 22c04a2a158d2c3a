import { type Dibs, open } from "../../src/index.ts";
import { inFlight, payload, seconds } from "../measure.ts";
import { rate, type Scenario, times } from "../scenario.ts";

const GROUPS = ["inventory", "analytics", "notification"] as const;
const IN_FLIGHT = 500;
/** Interleaved rounds: on a busy machine, a single one says little. */
const ROUNDS = 5;

export const topics: Scenario = {
  name: "topics",
  about:
    "20,000 tasks, one call each, 500 calls under way: published to three groups, the same with 10,000 other subscriptions, and added by three calls, to three queues or to one",
  needs: "dibs",
  warmUp: true,
  async run(bench) {
    await using few = await open(bench.path("few"));
    await using many = await open(bench.path("many"));
    await subscribe(few);
    await subscribe(many);
    await subscribeOthers(many, bench.size(10_000, 500));
    const count = bench.size(20_000, 1_000) / ROUNDS;
    const taken = { three: 0, one: 0, few: 0, many: 0 };
    for (let round = 0; round < ROUNDS; round++) {
      taken.three += await seconds(() => addThree(few, GROUPS, count));
      taken.one += await seconds(() => addThree(few, ["one", "one", "one"], count));
      taken.few += await seconds(() => publish(few, count));
      taken.many += await seconds(() => publish(many, count));
    }
    const all = count * ROUNDS;
    return [
      rate("three adds, to three queues", all / taken.three),
      rate("three adds, to one queue", all / taken.one),
      rate("a publish to three groups", all / taken.few),
      rate("a publish to three groups of 10,003", all / taken.many),
      times("a publish against three adds to three queues", taken.three / taken.few),
      times("a publish against three adds to one queue", taken.one / taken.few),
      times("10,003 subscriptions against three", taken.few / taken.many),
    ];
  },
};

async function subscribe(dibs: Dibs): Promise<void> {
  for (const group of GROUPS) await dibs.topic("order.placed").subscription(group).ready;
}

/** Patterns that are similar to the topic and different from it, with wildcards and without. */
const OTHERS = [
  (i: number) => `topic-${i}.placed`,
  (i: number) => `order.t${i}`,
  (i: number) => `order.placed.#.t${i}`,
  (i: number) => `#.t${i}`,
];

async function subscribeOthers(dibs: Dibs, count: number): Promise<void> {
  await inFlight(count, 1_000, (i) => dibs.subscription(OTHERS[i % OTHERS.length]!(i), "group").ready);
}

async function addThree(dibs: Dibs, names: readonly string[], count: number): Promise<void> {
  const queues = names.map((name) => dibs.queue(`plain-${name}`));
  await inFlight(count, IN_FLIGHT, (n) => {
    const data = payload(n);
    return Promise.all(queues.map((queue) => queue.add(data)));
  });
}

async function publish(dibs: Dibs, count: number): Promise<void> {
  const topic = dibs.topic("order.placed");
  await inFlight(count, IN_FLIGHT, (n) => topic.publish(payload(n)));
}
