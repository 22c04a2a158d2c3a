import { isDeepStrictEqual } from "node:util";
import { each } from "../../../src/core/run/each.ts";
import type { RunPart } from "../../../src/core/run/run.ts";
import type { Dibs } from "../../../src/index.ts";
import { Random } from "../random.ts";
import { type Crash, Process } from "./process.ts";
import { type FlowEngine, World } from "./world.ts";

/** What the runs of a seed do: how many parts, how often something fails, whether a stage is verified. */
interface Scenario {
  runs: number;
  parts: number;
  /** One part of these is split into parts again. */
  nested: boolean;
  failures: number;
  verified: boolean;
  /** Stages after the join. */
  after: number;
}

function drawScenario(seed: number): Scenario {
  const { between, chance, pick } = new Random(seed);
  return {
    ...{ runs: pick([1, 1, 2]), parts: between(0, 3), nested: chance(0.3), failures: pick([0, 0, 1, 2]) },
    ...{ verified: chance(0.3), after: between(0, 2) },
  };
}

const POLICY = {
  lease: "2s",
  maxAttempts: 50,
  elsewhere: 0,
  backoff: { type: "fixed", delay: "200ms", jitter: 0 },
} as const;
const LONG_ENOUGH_MS = 240_000;
const LOOK_EVERY_MS = 1_000;

/**
 * Runs of a pipeline: once undisturbed, to learn which calls the working process makes to the engine. Then once for
 * each of these calls and each of its two ends, with a process that dies there. Each time every run must complete, with
 * every stage done once and every join made once.
 */
export async function crashPipelines(options: {
  seed: number;
  engine: FlowEngine;
  most?: number;
}): Promise<{ runs: number }> {
  const { seed, engine, most } = options;
  const scenario = drawScenario(seed);
  const run = async (crash?: Crash): Promise<number> => {
    try {
      return await new PipelineFlow(engine, scenario, crash).run();
    } catch (error) {
      const where = crash ? `the worker dies ${crash.when} its call ${crash.call}` : "no process dies";
      throw new Error(
        `seed ${seed}, ${where}: ${(error as Error).message}\n${JSON.stringify(scenario)}\n\n` +
          `Replay: npm run simulate -- --pipelines --seed ${seed} --engine ${engine}`,
        { cause: error },
      );
    }
  };
  const calls = await run();
  const crashes = Array.from({ length: calls }, (_, i) => i + 1).flatMap((call): Crash[] => [
    { call, when: "before" },
    { call, when: "after" },
  ]);
  const every = most === undefined ? 1 : Math.max(1, crashes.length / most);
  let runs = 1;
  for (let i = seed % Math.ceil(every); i < crashes.length; i += every) {
    await run(crashes[Math.floor(i)]);
    runs++;
  }
  return { runs };
}

class PipelineFlow {
  readonly #scenario: Scenario;
  readonly #world: World;
  readonly #crash: Crash | undefined;
  #failures = 0;
  #ids: string[] = [];

  constructor(engine: FlowEngine, scenario: Scenario, crash?: Crash) {
    this.#world = new World(engine);
    this.#scenario = scenario;
    this.#crash = crash;
  }

  /** Returns how many calls the working process has made. */
  async run(): Promise<number> {
    try {
      const producer = new Process(this.#world);
      const pipeline = this.#pipeline(producer);
      const inputs = Array.from({ length: this.#scenario.runs }, (_, n) => ({ data: n }));
      this.#ids = (await pipeline.addMany(inputs)).map(({ id }) => id);
      if (this.#scenario.verified) await pipeline.queue("part").configure({ verified: true });
      const worker = this.#begin(this.#crash);
      await this.#waitForEnds(worker);
      for (const [n, id] of this.#ids.entries()) await this.#check(n, id);
      return worker.calls;
    } finally {
      await this.#world.end();
    }
  }

  #begin(crash?: Crash): Process {
    const process = new Process(this.#world, crash);
    const pipeline = this.#pipeline(process);
    if (this.#scenario.verified) pipeline.queue("part").verify(() => true);
    pipeline.work();
    return process;
  }

  #pipeline(process: Process) {
    const { parts, nested, after } = this.#scenario;
    const dibs: Dibs = process.dibs;
    const options = { ...POLICY, concurrency: 2 };
    const stumble = ({ attempt }: { attempt: number }): void => {
      if (process.isDead || attempt > 2 || this.#failures >= this.#scenario.failures) return;
      this.#failures++;
      throw new Error("the stage broke");
    };
    let pipeline = dibs
      .pipeline<number>("flow")
      .stage("split", (task) => each(Array.from({ length: parts }, (_, n) => `${task.data}.${n}`)), options)
      .stage(
        "again",
        (task) => (nested && task.data.endsWith("1") ? each([`${task.data}a`, `${task.data}b`]) : task.data),
        options,
      )
      .stage(
        "part",
        (task) => {
          stumble(task);
          return task.data.toUpperCase();
        },
        options,
      )
      .join("join", (task) => task.data.join(" "), options);
    for (let i = 0; i < after; i++)
      pipeline = pipeline.stage(`after-${i}`, (task) => `${task.data}!`, options);
    return pipeline;
  }

  async #waitForEnds(worker: Process): Promise<void> {
    const { clock } = this.#world;
    const end = clock.read().awake + LONG_ENOUGH_MS;
    let succeeded = false;
    while (clock.read().awake < end) {
      await clock.advance(LOOK_EVERY_MS);
      if (!succeeded && worker.isDead) {
        succeeded = true;
        this.#begin();
      }
      const [outcome] = await this.#world.ask({ verb: "ends", ids: this.#ids, of: "runs" });
      if ("ok" in outcome && outcome.ok.every((each) => each !== "pending")) return;
    }
    throw new Error("a run is stuck");
  }

  async #check(n: number, id: string): Promise<void> {
    const { parts, nested, after } = this.#scenario;
    const leaves = Array.from({ length: parts }, (_, part) => `${n}.${part}`).flatMap((leaf, part) =>
      nested && part === 1 ? [`${leaf}A`, `${leaf}B`] : [leaf],
    );
    const expected = `${leaves.join(" ")}${"!".repeat(after)}`;
    const [ends, told] = await this.#world.ask(
      { verb: "ends", ids: [id], of: "runs" },
      { verb: "run", id, limit: 1_000 },
    );
    const end = "ok" in ends ? ends.ok[0] : undefined;
    if (typeof end !== "object" || end.state !== "done" || end.result !== JSON.stringify(expected))
      throw new Error(`run ${n} came to ${JSON.stringify(end)}, not to ${expected}`);
    const seen = "ok" in told ? told.ok.parts.map(nameOf).sort() : [];
    const stages = [
      ...["split", ...Array.from({ length: parts }, (_, part) => `again ${part}`)],
      ...Array.from({ length: parts }, (_, part) =>
        nested && part === 1 ? ["part 1.0", "part 1.1"] : [`part ${part}`],
      ).flat(),
      ...["join", ...Array.from({ length: after }, (_, i) => `after-${i}`)],
    ].sort();
    if (!isDeepStrictEqual(seen, stages))
      throw new Error(`run ${n} was ${seen.join(", ")}, not ${stages.join(", ")}`);
  }
}

function nameOf({ stage, part }: RunPart): string {
  return part.length === 0 ? stage : `${stage} ${part.join(".")}`;
}
