// Runs the simulation manually. One seed, with every step:  npm run simulate -- --seed 123
// Many, silently, until one fails:                    npm run simulate -- --seeds 100000 --from 1
// Processes that fire schedules:                      npm run simulate -- --schedules --seeds 10000
// On PostgreSQL, started for it:                      npm run simulate -- --seed 123 --engine postgres
// Flows whose processes die at every call (flows/):   npm run simulate -- --flows --seeds 1000 --engine memory
// The same with runs of a pipeline:                   npm run simulate -- --pipelines --seeds 1000 --engine memory

import { parseArgs } from "node:util";
import { PostgresServer, QUICK } from "../postgres/server.ts";
import { crashEverywhere } from "./flows/crashes.ts";
import { crashPipelines } from "./flows/pipelines.ts";
import { FLOW_ENGINES } from "./flows/world.ts";
import { endSubjects } from "./postgres.ts";
import { simulateSchedules } from "./schedules.ts";
import { simulate } from "./simulation.ts";
import { ENGINES, type EngineName } from "./subject.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    seeds: { type: "string" },
    from: { type: "string" },
    schedules: { type: "boolean", default: false },
    engine: { type: "string", default: "sqlite" },
    flows: { type: "boolean", default: false },
    pipelines: { type: "boolean", default: false },
    /** How many of a flow's crashes are tried. */
    most: { type: "string" },
  },
});

const engine = values.engine as EngineName;
const isFlow = values.flows || values.pipelines;
const known: readonly string[] = isFlow ? FLOW_ENGINES : ENGINES;
if (!known.includes(engine)) throw new Error(`--engine must be one of ${known.join(", ")}`);
const server =
  engine.startsWith("postgres") && !process.env["DIBS_TEST_POSTGRES"]
    ? await PostgresServer.start({ settings: QUICK })
    : undefined;
if (server) process.env["DIBS_TEST_POSTGRES"] = server.url;

try {
  if (isFlow) {
    await runFlows(
      Number(values.seed ?? values.from ?? 1),
      Number(values.seed ? 1 : (values.seeds ?? 1_000)),
    );
  } else if (values.seed !== undefined) {
    await runOne({ seed: Number(values.seed), engine, trace: (line) => console.log(line) });
  } else await runMany(Number(values.from ?? 1), Number(values.seeds ?? 10_000));
} catch (error) {
  if ((error as Error).name !== "SimulationFailure" && !isFlow) throw error;
  console.error((error as Error).message);
  process.exitCode = 1;
} finally {
  await endSubjects();
  await server?.remove();
}
// Workers of processes that died would keep this one alive.
if (isFlow) process.exit();

async function runFlows(from: number, count: number): Promise<void> {
  const started = performance.now();
  const most = values.most === undefined ? {} : { most: Number(values.most) };
  const crash = values.pipelines ? crashPipelines : crashEverywhere;
  let runs = 0;
  for (let seed = from; seed < from + count; seed++) {
    runs += (await crash({ seed, engine, ...most })).runs;
    if ((seed - from + 1) % 100 === 0 || seed === from + count - 1)
      console.log(
        `${seed - from + 1} seeds, ${runs} runs, ${((performance.now() - started) / 1_000).toFixed(0)} s`,
      );
  }
}

/** Returns how many operations, or firings, there were. */
async function runOne(options: { seed: number; engine: EngineName; trace?: (line: string) => void }) {
  if (values.schedules) return (await simulateSchedules(options)).fired;
  return (await simulate(options)).operations;
}

async function runMany(from: number, count: number): Promise<void> {
  const started = performance.now();
  let operations = 0;
  for (let seed = from; seed < from + count; seed++) {
    operations += await runOne({ seed, engine });
    if ((seed - from + 1) % (engine === "sqlite" ? 1_000 : 50) === 0) report(seed - from + 1);
  }
  report(count);

  function report(done: number): void {
    const seconds = (performance.now() - started) / 1_000;
    console.log(
      `${done} seeds, ${operations} ${values.schedules ? "firings" : "operations"}, ${(done / seconds).toFixed(0)} seeds/s`,
    );
  }
}
