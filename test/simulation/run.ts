// The simulation by hand. One seed, with every step:  npm run simulate -- --seed 123
// Many, in silence, until one fails:                  npm run simulate -- --seeds 100000 --from 1
// Processes that fire schedules:                      npm run simulate -- --schedules --seeds 10000
// On PostgreSQL, started for it:                      npm run simulate -- --seed 123 --engine postgres

import { parseArgs } from "node:util";
import { PostgresServer, QUICK } from "../postgres/server.ts";
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
  },
});

const engine = values.engine as EngineName;
if (!ENGINES.includes(engine)) throw new Error(`--engine must be one of ${ENGINES.join(", ")}`);
const server =
  engine === "postgres" && !process.env["DIBS_TEST_POSTGRES"]
    ? await PostgresServer.start({ settings: QUICK })
    : undefined;
if (server) process.env["DIBS_TEST_POSTGRES"] = server.url;

try {
  if (values.seed !== undefined) {
    await runOne({ seed: Number(values.seed), engine, trace: (line) => console.log(line) });
  } else await runMany(Number(values.from ?? 1), Number(values.seeds ?? 10_000));
} catch (error) {
  if ((error as Error).name !== "SimulationFailure") throw error;
  console.error((error as Error).message);
  process.exitCode = 1;
} finally {
  await endSubjects();
  await server?.remove();
}

/** Answers how many operations, or firings, there were. */
async function runOne(options: { seed: number; engine: EngineName; trace?: (line: string) => void }) {
  if (values.schedules) return (await simulateSchedules(options)).fired;
  return (await simulate(options)).operations;
}

async function runMany(from: number, count: number): Promise<void> {
  const started = performance.now();
  let operations = 0;
  for (let seed = from; seed < from + count; seed++) {
    operations += await runOne({ seed, engine });
    if ((seed - from + 1) % (engine === "postgres" ? 50 : 1_000) === 0) report(seed - from + 1);
  }
  report(count);

  function report(done: number): void {
    const seconds = (performance.now() - started) / 1_000;
    console.log(
      `${done} seeds, ${operations} ${values.schedules ? "firings" : "operations"}, ${(done / seconds).toFixed(0)} seeds/s`,
    );
  }
}
